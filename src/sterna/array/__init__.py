"""Arrays in device memory: `Array`, and the functions that make them."""

from sterna.array.array import Array
from sterna.array.interop import empty, empty_like, from_dlpack, full, to_device, zeros

__all__ = ["Array", "empty", "empty_like", "from_dlpack", "full", "to_device", "zeros"]
