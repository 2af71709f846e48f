"""NVIDIA's driver library, called directly: the functions the runtime half needs and nothing else.

The library is part of the driver, so a machine that launches stored images needs no CUDA package.  It is loaded and
initialised when first used.  Every call is checked; a failing one raises `DriverError` with the driver's name for it.
A process that was forked after initialisation cannot use the driver (its context is the parent's) and is told so.

Tests put a recording double in the place of the library with `install_driver`.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from typing import Any

from sterna.errors import SternaError

__all__ = ["DriverError", "driver", "install_driver", "is_available", "load_driver"]

_P, _I, _U, _N, _Q = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_uint64
_R = ctypes.c_void_p  # by reference

_FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "cuInit": (_U,),
    "cuDriverGetVersion": (_R,),
    "cuDeviceGetCount": (_R,),
    "cuDeviceGet": (_R, _I),
    "cuDeviceGetName": (_R, _I, _I),
    "cuDeviceGetAttribute": (_R, _I, _I),
    "cuDeviceTotalMem_v2": (_R, _I),
    "cuDevicePrimaryCtxRetain": (_R, _I),
    "cuDevicePrimaryCtxReset_v2": (_I,),
    "cuDeviceGetDefaultMemPool": (_R, _I),
    "cuDeviceCanAccessPeer": (_R, _I, _I),
    "cuMemPoolSetAttribute": (_P, _I, _R),
    "cuMemPoolSetAccess": (_P, _R, _N),
    "cuMemPoolGetAttribute": (_P, _I, _R),
    "cuMemPoolTrimTo": (_P, _N),
    "cuCtxSetCurrent": (_P,),
    "cuCtxGetCurrent": (_R,),
    "cuCtxSynchronize": (),
    "cuCtxGetLimit": (_R, _I),
    "cuMemGetInfo_v2": (_R, _R),
    "cuMemAlloc_v2": (_R, _N),
    "cuMemFree_v2": (_Q,),
    "cuMemAllocAsync": (_R, _N, _P),
    "cuMemFreeAsync": (_Q, _P),
    "cuMemHostAlloc": (_R, _N, _U),
    "cuMemFreeHost": (_P,),
    "cuMemHostGetDevicePointer_v2": (_R, _P, _U),
    "cuMemcpyHtoD_v2": (_Q, _P, _N),
    "cuMemcpyDtoH_v2": (_P, _Q, _N),
    "cuMemcpyHtoDAsync_v2": (_Q, _P, _N, _P),
    "cuMemcpyDtoHAsync_v2": (_P, _Q, _N, _P),
    "cuMemcpyDtoDAsync_v2": (_Q, _Q, _N, _P),
    "cuMemcpyPeerAsync": (_Q, _P, _Q, _P, _N, _P),
    "cuMemsetD8Async": (_Q, ctypes.c_ubyte, _N, _P),
    "cuPointerGetAttribute": (_R, _I, _Q),
    "cuModuleLoadDataEx": (_R, _P, _U, _P, _P),
    "cuCtxSetLimit": (_I, _N),
    "cuModuleUnload": (_P,),
    "cuModuleGetGlobal_v2": (_R, _R, _P, ctypes.c_char_p),
    "cuModuleGetFunction": (_R, _P, ctypes.c_char_p),
    "cuFuncGetAttribute": (_R, _I, _P),
    "cuFuncSetAttribute": (_P, _I, _I),
    "cuLaunchKernel": (_P, _U, _U, _U, _U, _U, _U, _U, _P, _P, _P),
    "cuLaunchCooperativeKernel": (_P, _U, _U, _U, _U, _U, _U, _U, _P, _P),
    "cuOccupancyMaxPotentialBlockSize": (_R, _R, _P, _P, _N, _I),
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": (_R, _P, _I, _N),
    "cuStreamCreateWithPriority": (_R, _U, _I),
    "cuStreamDestroy_v2": (_P,),
    "cuStreamSynchronize": (_P,),
    "cuStreamQuery": (_P,),
    "cuStreamWaitEvent": (_P, _P, _U),
    "cuStreamBeginCapture_v2": (_P, _I),
    "cuStreamEndCapture": (_P, _R),
    "cuStreamIsCapturing": (_P, _R),
    "cuThreadExchangeStreamCaptureMode": (_R,),
    "cuEventCreate": (_R, _U),
    "cuEventDestroy_v2": (_P,),
    "cuEventRecord": (_P, _P),
    "cuEventSynchronize": (_P,),
    "cuEventQuery": (_P,),
    "cuEventElapsedTime": (_R, _P, _P),
    "cuGraphInstantiateWithFlags": (_R, _P, _Q),
    "cuGraphExecUpdate_v2": (_P, _P, _R),
    "cuGraphExecDestroy": (_P,),
    "cuGraphDestroy": (_P,),
    "cuGraphLaunch": (_P, _P),
    "cuLinkCreate_v2": (_U, _P, _P, _R),
    "cuLinkAddData_v2": (_P, _I, ctypes.c_char_p, _N, ctypes.c_char_p, _U, _P, _P),
    "cuLinkComplete": (_P, _R, _R),
    "cuLinkDestroy": (_P,),
}
"""Name → types of the parameters; a result is written through a reference."""

_NAMES = ("libcuda.so.1", "libcuda.so") if sys.platform != "win32" else ("nvcuda.dll",)
_lock = threading.Lock()
_state: dict[str, Any] = {"driver": None, "pid": 0, "missing": None}


class DriverError(SternaError, RuntimeError):
    """A call of NVIDIA's driver failed.

    Attributes
    ----------
    code : int
        The driver's result code.
    name : str
        Its name, such as ``CUDA_ERROR_OUT_OF_MEMORY``.
    """

    def __init__(self, function: str, code: int, name: str, text: str) -> None:
        super().__init__(f"{function}: {name} ({text})" if text else f"{function}: {name}")
        self.function, self.code, self.name = function, code, name


class Driver:
    """The driver's functions as methods; each raises `DriverError` when it fails.

    Parameters
    ----------
    library : ctypes.CDLL
        The loaded library.
    """

    def __init__(self, library: Any) -> None:
        self._library = library

    def raw(self, name: str) -> Callable[..., int]:
        """A function that returns the result code, unchecked."""
        function: Any = getattr(self._library, name)
        function.restype = ctypes.c_int
        return function  # type: ignore[no-any-return]

    def __getattr__(self, name: str) -> Callable[..., int]:
        parameters = _FUNCTIONS.get(name)
        if parameters is None:
            raise AttributeError(name)
        prototype = ctypes.CFUNCTYPE(ctypes.c_int, *parameters)
        try:
            function: Any = prototype((name, self._library))
        except AttributeError:
            raise DriverError(name, 0, "missing", "this machine's driver is too old for it") from None

        def check(code: int, func: Any, arguments: Any) -> int:
            if code:
                raise self.error(name, code)
            return code

        function.errcheck = check
        setattr(self, name, function)
        return function  # type: ignore[no-any-return]

    def error(self, function: str, code: int) -> DriverError:
        """The exception for a result code."""
        texts = []
        for name in ("cuGetErrorName", "cuGetErrorString"):
            text = ctypes.c_char_p()
            self._library[name](ctypes.c_int(code), ctypes.byref(text))
            texts.append((text.value or b"").decode("ascii", "replace"))
        return DriverError(function, code, texts[0] or f"error {code}", texts[1])


def _open() -> Any:
    for name in _NAMES:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            failure = error
    raise OSError(f"NVIDIA's driver is not installed here ({failure})")


def load_driver() -> None:
    """Load and initialise the driver library.

    Raises
    ------
    OSError
        When there is none.
    DriverError
        When it cannot be initialised.
    """
    with _lock:
        if _state["driver"] is not None:
            return
        if _state["missing"] is not None:
            raise OSError(_state["missing"])
        try:
            found = Driver(_open())
            found.cuInit(0)
        except (OSError, DriverError) as error:
            _state["missing"] = str(error)
            raise
        _state["driver"], _state["pid"] = found, os.getpid()


def is_available() -> bool:
    """Whether this machine has a driver that can be initialised."""
    try:
        load_driver()
    except (OSError, DriverError):
        return False
    return True


def driver() -> Any:
    """The initialised driver.

    Raises
    ------
    DriverError
        In a process that was forked after the driver was initialised.
    OSError
        When there is none.
    """
    found = _state["driver"]
    if found is None:
        load_driver()
        found = _state["driver"]
    if _state["pid"] != os.getpid():
        raise _forked()
    return found


def _forked() -> DriverError:
    return DriverError(
        "cuInit",
        3,
        "CUDA_ERROR_NOT_INITIALIZED",
        "this process was forked after its parent had initialised CUDA, and a "
        "CUDA context does not survive a fork; start "
        'workers with multiprocessing.get_context("spawn"), or fork before the first use of a CUDA device',
    )


def install_driver(double: Any) -> Any:
    """Use `double` in place of the library (None: load it when next used); gives what was there."""
    with _lock:
        previous = _state["driver"]
        _state["driver"], _state["pid"], _state["missing"] = double, os.getpid(), None
    return previous
