"""Empty Triton kernels with 0, 3 and 10 arrays."""

import triton


@triton.jit
def k0():
    pass


@triton.jit
def k3(a0, a1, a2):
    pass


@triton.jit
def k10(a0, a1, a2, a3, a4, a5, a6, a7, a8, a9):
    pass
