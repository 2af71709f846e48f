"""Small whole powers of complex numbers are products (they were exponentials, so that (1+1j)**2 had a real part)."""

import numpy as np

import sterna

LAUNCH, OUTPUTS = ("over", 10), [2, 3]


def arguments():
    z = np.array([1 + 1j, 2 - 3j, 0, -1.5, 1e3j, 0.5 + 0.25j, 0, 1e200 + 1j, np.nan, 0])
    y = np.array([3, -2, 2, 50, 5, -7, -1, 2, 0, 1 + 2j])
    return [z, y, np.zeros((10, 4), np.complex128), np.zeros((10, 3), np.complex64), 7]


@sterna.kernel
def k(z, y, o, p, n):
    i = sterna.grid(1)
    o[i, 0] = z[i] ** y[i]
    o[i, 1] = z[i] ** 2
    o[i, 2] = z[i] ** n
    o[i, 3] = z[i] ** -3
    small = np.complex64(z[i])
    p[i, 0] = small ** np.complex64(y[i])
    p[i, 1] = small**3
    p[i, 2] = small**0
