"""Host values that kernels read through one word: `Global` and `runtime_global`.

A `Global` is the one reference whose word the host may rewrite after linking: it knows, weakly, every loaded
module that holds its word and writes each in place when its value is set.
"""

from __future__ import annotations

import contextlib
import ctypes
import operator
import threading
import weakref
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sterna.errors import LinkError
from sterna.relocation.record import RelocationRecord
from sterna.types import from_dtype

if TYPE_CHECKING:
    from numpy.typing import DTypeLike

__all__ = ["Global", "RuntimeGlobal", "attach_all", "bit_pattern", "from_bit_pattern", "runtime_global"]

_MANY_HOLDERS = 8
"""Number of holders of a word from which each new one looks for those that are gone."""


def bit_pattern(value: Any, dtype: np.dtype[Any]) -> int:
    """Bits of a scalar of `dtype` as an unsigned 64-bit word, zero-extended.

    Raises
    ------
    OverflowError
        For an integer that does not fit `dtype`.
    TypeError
        For a value that `dtype` cannot hold without losing its kind (a float for an integer, a complex number).
    """
    scalar = _checked(value, dtype)
    return int.from_bytes(np.asarray(scalar, dtype).astype(dtype.newbyteorder("<")).tobytes(), "little")


def from_bit_pattern(word: int, dtype: np.dtype[Any]) -> Any:
    """The NumPy scalar of `dtype` whose bits are `word`: the inverse of `bit_pattern`."""
    return np.frombuffer(word.to_bytes(8, "little"), dtype.newbyteorder("<"), 1)[0].astype(dtype)


def _checked(value: Any, dtype: np.dtype[Any]) -> Any:
    """`value` as something that converts to `dtype` exactly in kind."""
    if isinstance(value, np.ndarray):
        if value.ndim:
            raise TypeError(f"a Global holds one number; given is an array of shape {value.shape}")
        value = value[()]
    if dtype.kind in "iu":
        try:
            number = operator.index(value)
        except TypeError:
            raise TypeError(
                f"{value!r} ({type(value).__name__}) is not an integer, and the Global is {dtype}"
            ) from None
        limits = np.iinfo(dtype)
        if not limits.min <= number <= limits.max:
            raise OverflowError(f"{number} does not fit {dtype}; allowed are {limits.min} to {limits.max}")
        return number
    if dtype.kind == "b" and not isinstance(value, bool | np.bool_):
        raise TypeError(f"{value!r} ({type(value).__name__}) is not a bool, and the Global is bool")
    if isinstance(value, bool | int | float | np.bool_ | np.integer | np.floating):
        return value
    raise TypeError(f"{value!r} ({type(value).__name__}) is not a number that {dtype} can hold")


def _dtype_of(value: Any, dtype: DTypeLike | None) -> np.dtype[Any]:
    given = np.asarray(value).dtype if dtype is None else np.dtype(dtype)
    if dtype is None and type(value) is int:
        given = np.dtype(np.int64)
    if given.kind == "c":
        raise TypeError(f"a Global of dtype {given} is not possible: it is one 64-bit word; use two real ones")
    if given.kind not in "biuf" or given.itemsize > 8 or not given.isnative:
        raise TypeError(f"a Global of dtype {given} is not possible; allowed are bool, (u)int8-64 and float16/32/64")
    return given


class Global:
    """A number that kernels read and the host may change at any time, with no recompilation.

    Parameters
    ----------
    value : number
        First value.
    dtype : dtype, optional
        One of bool, (u)int8-64, float16/32/64.  Without it: int64 for an `int`, float64 for a `float`,
        bool for a `bool`, a NumPy scalar's own.

    Attributes
    ----------
    value : NumPy scalar
        Setting it writes the word of every loaded kernel that captures this object; later launches see it.
    dtype : dtype
        Of the value.
    type, type_name : Type, str
        Device type of the value, and its string form.

    Raises
    ------
    TypeError
        For complex and other dtypes that do not fit one word, and for a value of the wrong kind.
    OverflowError
        For an integer that does not fit.

    Examples
    --------
    >>> import sterna
    >>> exposure = sterna.Global(1.0, "float32")
    >>> exposure.value = 2.0
    >>> exposure.value
    np.float32(2.0)
    """

    __sterna_global__ = True
    __slots__ = ("__weakref__", "_holders", "_lock", "_word", "dtype", "type", "type_name")

    def __init__(self, value: Any, dtype: DTypeLike | None = None) -> None:
        self.dtype = _dtype_of(value, dtype)
        self.type = from_dtype(self.dtype)
        self.type_name = str(self.type)
        self._word = bit_pattern(value, self.dtype)
        self._lock = threading.RLock()  # a kernel that holds it may be collected inside
        self._holders: list[tuple[weakref.ref[Any], RelocationRecord]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are numbers of their own: no kernel that captures this one reads them."""
        return Global, (self.value, self.dtype)

    @property
    def word(self) -> int:
        """Bits of the value as an unsigned 64-bit word."""
        return self._word

    @property
    def value(self) -> Any:
        """The value, as a NumPy scalar of `dtype`; set it to change what kernels read."""
        return from_bit_pattern(self._word, self.dtype)

    @value.setter
    def value(self, value: Any) -> None:
        self.set(value)

    def set(self, value: Any, stream: Any = None) -> None:
        """Change the value, ordered on `stream` where the device has streams.

        Raises
        ------
        LinkError
            When a loaded kernel has the word baked into its code; all others have the new value then.
        """
        word = bit_pattern(value, self.dtype)
        refused: LinkError | None = None
        with self._lock:
            self._word = word
            for reference, record in self._holders:
                module = reference()
                try:
                    if module is not None:
                        module.write_word(record, word, stream)
                except LinkError as error:
                    refused = error
        if refused is not None:
            raise refused

    def attach(self, module: Any, record: RelocationRecord) -> None:
        """Note that `module` holds the word as `record`, and write the present value there."""
        attach_all(module, [(self, record)], None)

    def detach(self, module: Any, record: RelocationRecord) -> None:
        """Forget what `attach` noted."""
        with self._lock:
            self._holders = [pair for pair in self._holders if pair[0]() is not module or pair[1] is not record]

    def __repr__(self) -> str:
        return f"sterna.Global({self.value!s}, {str(self.dtype)!r})"


def attach_all(
    module: Any, references: Iterable[tuple[Global, RelocationRecord]], delivered: Sequence[int] | None
) -> None:
    """Note that `module` holds the words of Globals, and write those that have changed since they were delivered.

    Parameters
    ----------
    module : LoadedModule
        Referenced weakly.
    references : iterable of (Global, RelocationRecord)
        What it holds, and where.
    delivered : sequence of int, optional
        All words that are there already, by the records' index; without it every word is written.
    """
    reference = weakref.ref(module)
    for value, record in references:
        with value._lock:
            holders = value._holders
            if holders and (len(holders) > _MANY_HOLDERS or holders[0][0]() is None):
                value._holders = [pair for pair in holders if pair[0]() is not None]
            pair = reference, record
            value._holders.append(pair)  # not `holders`: a kernel that was collected meanwhile has left another list
            word = value._word
            if delivered is None or delivered[record.index] != word:
                with contextlib.suppress(LinkError):  # baked: the word is in the code
                    module.write_word(record, word, None)


class RuntimeGlobal:
    """A data symbol of the Python runtime: kernels see its address of this session.

    Made by `runtime_global`.

    Attributes
    ----------
    address : int
        Where the symbol is in this process.
    """

    __slots__ = ("_name", "address")

    def __init__(self, name: str) -> None:
        try:
            self.address = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, name))
        except (ValueError, AttributeError):
            raise LinkError(
                f"the Python runtime has no symbol {name!r}; names are those of the C API, such as 'PyFloat_Type'"
            ) from None
        self._name = name

    @property
    def __sterna_symbol__(self) -> str:
        """Name of the symbol."""
        return self._name

    def __repr__(self) -> str:
        return f"sterna.runtime_global({self._name!r})"


def runtime_global(name: str) -> RuntimeGlobal:
    """A data symbol of the Python runtime, to be captured by kernels.

    Parameters
    ----------
    name : str
        C name, such as ``"PyFloat_Type"`` (whose address is the identity of `float`).

    Raises
    ------
    LinkError
        When this Python has no such symbol.
    TypeError
        When `name` is not a string.
    """
    if not isinstance(name, str):
        raise TypeError(f"a symbol name is a str; given is {name!r}")
    return RuntimeGlobal(name)
