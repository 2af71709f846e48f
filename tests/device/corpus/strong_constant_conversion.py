"""A NumPy constant converted to a narrower type wraps, as at run time (it was refused as a literal)."""

import numpy as np

import sterna

LAUNCH, OUTPUTS = ("over", 3), [1]
BIG = np.int64(300)


def arguments():
    return [np.array([1, 2, 255], np.uint8), np.zeros(3, np.uint8)]


@sterna.kernel
def k(x, o):
    i = sterna.grid(1)
    o[i] = np.uint8(np.int16(-1)) + x[i] + np.uint8(BIG) + np.uint8(np.float16(-7.25))
