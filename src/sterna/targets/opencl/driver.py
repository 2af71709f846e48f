"""OpenCL's functions that pyopencl does not wrap, or not on the launch path, called in the library that it has loaded.

pyopencl finds platforms and devices and owns contexts and queues; shared virtual memory at raw addresses, programs,
`clSetKernelExecInfo` and launches are called here.  Every call is checked; a failing one raises
`OpenclError` with OpenCL's name for it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from sterna.errors import SternaError
from sterna.targets.opencl.icd import load_opencl

__all__ = ["OpenclError", "call", "function"]

_P, _N, _U, _L, _I = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint, ctypes.c_uint64, ctypes.c_int
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "clSVMAlloc": (_P, (_P, _L, _N, _U)),
    "clSVMFree": (None, (_P, _P)),
    "clEnqueueSVMFree": (_I, (_P, _U, _P, _P, _P, _U, _P, _P)),
    "clEnqueueSVMMemcpy": (_I, (_P, _U, _P, _P, _N, _U, _P, _P)),
    "clEnqueueSVMMemFill": (_I, (_P, _P, _P, _N, _N, _U, _P, _P)),
    "clEnqueueNDRangeKernel": (_I, (_P, _P, _U, _P, _P, _P, _U, _P, _P)),
    "clEnqueueMarkerWithWaitList": (_I, (_P, _U, _P, _P)),
    "clEnqueueBarrierWithWaitList": (_I, (_P, _U, _P, _P)),
    "clCreateProgramWithIL": (_P, (_P, _P, _N, _P)),
    "clCreateProgramWithBinary": (_P, (_P, _U, _P, _P, _P, _P, _P)),
    "clBuildProgram": (_I, (_P, _U, _P, _P, _P, _P)),
    "clGetProgramInfo": (_I, (_P, _U, _N, _P, _P)),
    "clGetProgramBuildInfo": (_I, (_P, _P, _U, _N, _P, _P)),
    "clReleaseProgram": (_I, (_P,)),
    "clCreateKernel": (_P, (_P, _P, _P)),
    "clGetKernelWorkGroupInfo": (_I, (_P, _P, _U, _N, _P, _P)),
    "clReleaseKernel": (_I, (_P,)),
    "clSetKernelArg": (_I, (_P, _U, _N, _P)),
    "clSetKernelExecInfo": (_I, (_P, _U, _N, _P)),
    "clReleaseEvent": (_I, (_P,)),
    "clFlush": (_I, (_P,)),
    "clFinish": (_I, (_P,)),
}  # fmt: skip
"""Name → result type and parameter types (Khronos, OpenCL 3.0 API)."""


class OpenclError(SternaError, RuntimeError):
    """A call of OpenCL failed.

    Attributes
    ----------
    name : str
        OpenCL's name of the error, such as ``OUT_OF_RESOURCES``.
    """

    def __init__(self, call: str, code: int) -> None:
        self.name = _name_of(code)
        super().__init__(f"{call} failed: {self.name} ({code})")


def _name_of(code: int) -> str:
    cl = load_opencl()
    found = getattr(cl.status_code, "to_string", None)
    return str(found(code)) if found is not None else str(code)


@cache
def _library() -> Any:
    """The loader's library, through the extension module that is linked to it."""
    if sys.platform == "win32":
        return ctypes.WinDLL("OpenCL.dll")
    load_opencl()
    import pyopencl._cl as extension

    return ctypes.CDLL(extension.__file__)


@cache
def function(name: str) -> Callable[..., Any]:
    """A function of OpenCL, unchecked."""
    result, parameters = _FUNCTIONS[name]
    found = getattr(_library(), name)
    found.restype, found.argtypes = result, parameters
    return found  # type: ignore[no-any-return]


def call(name: str, *arguments: Any) -> None:
    """Call a function that gives an error code.

    Raises
    ------
    OpenclError
        When it fails.
    """
    code = function(name)(*arguments)
    if code:
        raise OpenclError(name, code)
