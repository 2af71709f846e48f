"""Views on the real and imaginary parts of an array (the code generator took every field view for a record's)."""

import numpy as np

import sterna

LAUNCH, OUTPUTS = ("over", 1), [0, 1, 2]


def arguments():
    return [
        np.array([[1 + 2j, 3 - 4j], [5 + 6j, -7j]], np.complex64),
        np.array([1 + 2j, 3 - 4j, 5.5j]),
        np.zeros(8),
    ]


@sterna.kernel
def k(z, w, o):
    part = z.imag[::-1]
    o[0] = part[0, 1] * 10 + z.T.real[1, 0]
    o[1] = part.shape[1] + z.real.strides[0]
    z.imag[0, 1] = 8
    z.real[1:][0, 0] += 2
    w.real[-1] = w.imag[0]
    small = sterna.local.array(2, np.complex64)
    small[0] = 1 + 2j
    small.imag[0] = 5
    o[2] = small[0].imag + small[0].real
    for v in w.imag:
        o[3] += v
    o[4] = w.real.real.size
