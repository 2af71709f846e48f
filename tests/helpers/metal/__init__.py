"""A simulated Metal: the part of PyObjC's API that Sterna uses, over devices that execute the generated MSL.

* `include/` gives Metal's language names their meaning in C++; `runtime.hpp` and `runtime.cpp` run thread groups;
* a library's text is compiled by the system's C++ compiler, once per text.

What the generated text and the simulator agree on:

* the entry is ``kernel void NAME(constant uchar *args [[buffer(0)]], …)``: launch arguments as `sterna.abi` lays them
  out, padded to 8 bytes, then the state words;
* every other parameter has one of the attributes of thread positions, or is ``threadgroup T *name [[threadgroup(0)]]``:
  all static shared arrays (launch fact ``shared_bytes``), then, 16-byte aligned, the launch's dynamic shared memory;
* launch fact ``state``: the state words that the kernel reads (`sterna.abi.STATE_WORDS`).
"""
