"""PTX to cubin, by NVIDIA's linker library (nvJitLink), which needs neither a GPU nor a driver.

Where it is not installed, the driver of this machine links instead (`sterna.targets.cuda.driver`).
"""

from __future__ import annotations

import ctypes
from typing import Any

from sterna.errors import CompileError, CompilerUnavailable

__all__ = ["link_ptx"]


def link_ptx(ptx: bytes, arch: str, line_info: bool, level: int) -> bytes:
    """A cubin for `arch`.

    Parameters
    ----------
    ptx : bytes
        The program.
    arch : str
        ``sm_90``.
    line_info : bool
        Keep the line table.
    level : int
        Optimisation level; the library knows 0 and the highest.

    Raises
    ------
    CompilerUnavailable
        When neither nvJitLink nor a driver is there.
    CompileError
        When the program is refused; holds the linker's log.
    """
    try:
        from cuda.bindings import nvjitlink
    except ImportError:
        return _link_with_driver(ptx, level)
    options = [f"-arch={arch}", "-O3" if level else "-O0", *(["-lineinfo"] if line_info else [])]
    try:
        handle = nvjitlink.create(len(options), options)
    except Exception as error:  # the library itself is missing, or does not know the architecture
        if "not" in str(error).lower() and "found" in str(error).lower():
            return _link_with_driver(ptx, level)
        raise CompileError(
            f"nvJitLink cannot make code for {arch}: {error}", hint="a newer nvidia-nvjitlink may"
        ) from None
    try:
        return _run(nvjitlink, handle, ptx)
    finally:
        nvjitlink.destroy(handle)


def _run(nvjitlink: Any, handle: Any, ptx: bytes) -> bytes:
    try:
        nvjitlink.add_data(handle, nvjitlink.InputType.PTX, ptx, len(ptx), "kernel")
        nvjitlink.complete(handle)
    except Exception as error:
        log = bytearray(max(nvjitlink.get_error_log_size(handle), 1))
        nvjitlink.get_error_log(handle, log)
        text = bytes(log).rstrip(b"\0\n ").decode("utf-8", "replace")
        raise CompileError(f"the linker refused the generated PTX ({error}):\n{text}") from None
    cubin = bytearray(nvjitlink.get_linked_cubin_size(handle))
    nvjitlink.get_linked_cubin(handle, cubin)
    return bytes(cubin)


def _link_with_driver(ptx: bytes, level: int) -> bytes:
    """The driver's linker, for the architecture of the current context."""
    from sterna.targets.cuda.driver import DriverError, driver, load_driver

    try:
        load_driver()
    except OSError:
        raise CompilerUnavailable(
            "making a cubin needs nvJitLink: pip install nvidia-nvjitlink "
            "cuda-bindings (or a machine with NVIDIA's driver)"
        ) from None
    cu = driver()
    state, data, size = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_size_t()
    options = (ctypes.c_int * 1)(7)  # CU_JIT_OPTIMIZATION_LEVEL
    values = (ctypes.c_void_p * 1)(4 if level >= 3 else level)
    try:
        cu.cuLinkCreate_v2(1, options, values, ctypes.byref(state))
        cu.cuLinkAddData_v2(state, 1, ptx + b"\0", len(ptx) + 1, b"kernel", 0, None, None)
        cu.cuLinkComplete(state, ctypes.byref(data), ctypes.byref(size))
        return ctypes.string_at(data.value or 0, size.value)
    except DriverError as error:
        raise CompileError(f"the driver refused the generated PTX: {error}") from None
    finally:
        if state.value:
            cu.cuLinkDestroy(state)
