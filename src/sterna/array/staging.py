"""NumPy arrays as launch arguments of a device that cannot read host memory: copied there, and back after the launch.

Convenient, not fast: such a launch waits for the kernel.  Arrays that stay on the device (`sterna.to_device`) are
not touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sterna.array.interop import to_device
from sterna.errors import SignatureError

if TYPE_CHECKING:
    from sterna.targets.base import Device

__all__ = ["Staging", "holds_host_arrays"]


def holds_host_arrays(args: tuple[Any, ...]) -> bool:
    """Whether a NumPy array is among launch arguments, or inside a tuple of them."""
    return any(isinstance(arg, np.ndarray) or (isinstance(arg, tuple) and holds_host_arrays(arg)) for arg in args)


class Staging:
    """Copies of host arrays for one launch.

    Parameters
    ----------
    device : Device
        Where the kernel will run.
    kernel : str
        For messages.
    """

    def __init__(self, device: Device, kernel: str) -> None:
        self._device, self._kernel = device, kernel
        self._staged: list[tuple[np.ndarray, Any]] = []

    def take(self, value: Any) -> Any:
        """`value` with every NumPy array replaced by one on the device.

        Raises
        ------
        SignatureError
            When two arrays overlap without being one: a copy of each would lose that.
        """
        if isinstance(value, np.ndarray):
            return self._array(value)
        if not isinstance(value, tuple) or not holds_host_arrays(value):
            return value
        items = [self.take(item) for item in value]
        return type(value)._make(items) if hasattr(value, "_fields") else tuple(items)  # type: ignore[attr-defined]

    def _array(self, host: np.ndarray) -> Any:
        for other, there in self._staged:
            if other is host:
                return there
            if np.may_share_memory(other, host) and (other.flags.writeable or host.flags.writeable):
                raise SignatureError(
                    f"kernel {self._kernel}: two NumPy arguments overlap in memory, which "
                    f"copies on {self._device.name} "
                    "would lose; copy their common base with sterna.to_device and pass views of that"
                )
        there = to_device(host, self._device)
        self._staged.append((host, there))
        return there

    def give_back(self) -> None:
        """Wait for the kernel and copy what it may have written to the host's arrays."""
        for host, there in self._staged:
            if host.flags.writeable and host.size:
                written = np.empty(there.shape, there.dtype)
                self._device.copy_out(written, there.address)
                host[...] = written
