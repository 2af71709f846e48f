"""Where one of the leaks is."""

import sterna


def offset(y):
    """Needs the grid."""
    i = sterna.grid(1)
    return y + i
