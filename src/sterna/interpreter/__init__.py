"""The interpreter: kernels in plain CPython, thread by thread.

For debugging (breakpoints, prints, the user's own frames) and as the oracle of differential tests.  It shares
nothing with the compiler but the language's names: what a kernel means here is what Python and NumPy say.
"""

from sterna.interpreter.launch import Interpreted, interpret

__all__ = ["Interpreted", "interpret"]
