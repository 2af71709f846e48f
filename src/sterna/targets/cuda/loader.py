"""Getting an image's code into a context: the cubin, else its PTX through the driver's own compiler (I10).

Whatever the driver refuses is kept, with what it said, and the message says where.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from sterna.runtime.refused import refusal
from sterna.targets.cuda.cubin import is_whole
from sterna.targets.cuda.driver import DriverError

if TYPE_CHECKING:
    from sterna.image.format import KernelImage
    from sterna.targets.cuda.device import CudaDevice

__all__ = ["load_code"]

_LOG_BYTES = 16 * 1024
_INFO_LOG, _INFO_SIZE, _ERROR_LOG, _ERROR_SIZE, _LINE_INFO = 3, 4, 5, 6, 13
_REFUSALS = frozenset(
    {
        "CUDA_ERROR_INVALID_IMAGE",
        "CUDA_ERROR_NO_BINARY_FOR_GPU",
        "CUDA_ERROR_INVALID_PTX",
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
        "CUDA_ERROR_INVALID_SOURCE",
        "CUDA_ERROR_UNSUPPORTED_LIMIT",
        "CUDA_ERROR_JIT_COMPILATION_DISABLED",
        "CUDA_ERROR_NOT_FOUND",
        "CUDA_ERROR_SHARED_OBJECT_INIT_FAILED",
        "CUDA_ERROR_FILE_NOT_FOUND",
    }
)


def load_code(device: CudaDevice, image: KernelImage) -> int:
    """Load an image; gives the module's handle.

    Raises
    ------
    ImageRefused
        When the driver takes none of the payloads; names the file they are kept in.
    """
    said: list[str] = []
    cubin, ptx = image.payloads.get("cubin"), image.payloads.get("ptx")
    if cubin is not None and not is_whole(cubin):
        said.append("cubin: cut off")
    elif cubin is not None and _can_run(image.arch, device.target.arch):
        try:
            return _load(device, cubin, said, ())
        except DriverError as error:
            _note(error, "cubin", said)
    if ptx is not None:
        try:
            return _load(device, ptx + b"\0", said, (_LINE_INFO,))
        except DriverError as error:
            _note(error, "ptx", said)
    reason = "; ".join(said) or "no payload for this architecture"
    raise refusal(device, image, reason, "\n".join(said))


def _can_run(made_for: str, arch: str) -> bool:
    """Whether a cubin of one architecture runs on another: the same generation, not an older revision."""
    have, want = int(made_for.removeprefix("sm_")), int(arch.removeprefix("sm_"))
    return have // 10 == want // 10 and have <= want


def _load(device: CudaDevice, code: bytes, said: list[str], flags: tuple[int, ...]) -> int:
    cu = device.context.enter()
    handle = ctypes.c_void_p()
    error_log, info_log = (ctypes.create_string_buffer(_LOG_BYTES) for _ in range(2))
    given: list[tuple[int, Any]] = [
        (_ERROR_LOG, ctypes.addressof(error_log)),
        (_ERROR_SIZE, _LOG_BYTES),
        (_INFO_LOG, ctypes.addressof(info_log)),
        (_INFO_SIZE, _LOG_BYTES),
        *((flag, 1) for flag in flags),
    ]
    names = (ctypes.c_int * len(given))(*(name for name, _ in given))
    values = (ctypes.c_void_p * len(given))(*(value for _, value in given))
    try:
        cu.cuModuleLoadDataEx(ctypes.byref(handle), code, len(given), names, values)
    except DriverError:
        said += [log.value.decode("utf-8", "replace").strip() for log in (error_log, info_log) if log.value.strip()]
        raise
    return handle.value or 0


def _note(error: DriverError, payload: str, said: list[str]) -> None:
    if error.name not in _REFUSALS:
        raise error
    said.append(f"{payload}: {error}")
