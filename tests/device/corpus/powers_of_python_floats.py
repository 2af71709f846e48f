"""A power of Python floats that overflows raises (it was infinite); elements of arrays give infinity, as NumPy's."""

import numpy as np

import sterna

LAUNCH, OUTPUTS = ("over", 4), [0]
F = np.asfortranarray(np.arange(6.0).reshape(2, 3))  # seen in C order, with the strides of that


def arguments():
    return [np.zeros((4, 6)), np.array([1e200, -1e200, 0.0, np.inf]), 2.5]


@sterna.kernel
def k(o, x, r):
    i = sterna.grid(1)
    o[i, 0] = x[i] ** 2
    o[i, 1] = r**2 + r**-2 + r**0.5 + r**i
    o[i, 2] = float("inf") ** 2
    o[i, 3] = x[i] ** r if x[i] >= 0 else 0
    o[i, 4] = F[1, i % 3] * 10 + F.strides[0] + F.T.strides[0]
