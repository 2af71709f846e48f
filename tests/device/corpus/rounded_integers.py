"""``round`` of an integer element is a Python int, as in Python (it kept the element's type)."""

import numpy as np

import sterna

LAUNCH, OUTPUTS = ("over", 2), [2]


def arguments():
    return [np.array([127, -128], np.int8), np.array([255, 0], np.uint8), np.zeros((2, 5)), np.array([True, False])]


@sterna.kernel
def k(x, u, o, b):
    i = sterna.grid(1)
    o[i, 0] = round(x[i]) << 1
    o[i, 1] = -1 - round(u[i])
    o[i, 2] = ~round(u[i])
    o[i, 3] = round(x[i], 1) + np.round(x[i])
    o[i, 4] = round(not b[i])
