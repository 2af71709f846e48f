"""Names of OpenCL's built-in functions, as SPIR-V's importers know them: C++ names of the C functions.

Khronos, "The OpenCL C Specification", section 6.15, and the Itanium C++ ABI's mangling, of which scalars need one
letter each.
"""

from __future__ import annotations

__all__ = ["builtin", "mangled"]

_LETTERS = {"float": "f", "double": "d", "i32": "i", "u32": "j", "i64": "l", "u64": "m", "i8": "c", "u8": "h",
            "i16": "s", "u16": "t"}  # fmt: skip
_WITH_INTEGER = frozenset({"ldexp"})
_OF_TWO = frozenset({"atan2", "fmod", "hypot", "nextafter", "pow", "remainder", "fmin", "fmax", "copysign"})


def mangled(name: str, *types: str) -> str:
    """Symbol of a built-in function of scalars (``float``, ``u32`` …).

    Examples
    --------
    >>> mangled("get_local_id", "u32")
    '_Z12get_local_idj'
    """
    return f"_Z{len(name)}{name}{''.join(_LETTERS[t] for t in types)}"


def builtin(name: str, llvm_type: str) -> str:
    """Symbol of a mathematical function on ``float`` or ``double``."""
    if name in _WITH_INTEGER:
        return mangled(name, llvm_type, "i32")
    return mangled(name, *[llvm_type] * (2 if name in _OF_TWO else 1))
