"""The `kernel` decorator and what it gives: the facade that ties the runtime to the compiler.

This is the only module of the launch path that may reach the compiler, and it does so by name, when an image
is missing and compiling is allowed.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Sequence
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, TextIO, overload

import sterna.language.index  # noqa: F401 - nearly every kernel names it, and its first launch should not wait for that
from sterna.array.staging import Staging, holds_host_arrays
from sterna.errors import (
    CompileError,
    CompilerUnavailable,
    DeviceOnlyError,
    LaunchError,
    SignatureError,
    UnsupportedError,
)
from sterna.image.format import KernelImage
from sterna.options import CompileOptions
from sterna.relocation.record import RelocationRecord
from sterna.runtime import stats
from sterna.runtime.config import LaunchConfig, LaunchKey, launch_key, make_config, over_shape
from sterna.runtime.devices import active_stream, current_device, device_of
from sterna.runtime.dispatch import CompileRequest, Dispatcher, Specialisation
from sterna.runtime.lookup import CacheReport
from sterna.runtime.signature import adapt_argument, are_plain, common_device, signature_text
from sterna.source.locate import note_import
from sterna.targets.base import Device, ModuleLost, Target
from sterna.targets.registry import target as find_target
from sterna.typeof import type_of
from sterna.types import Type
from sterna.typespec import type_from

if TYPE_CHECKING:
    from sterna.compiler import Compilation
    from sterna.runtime.fast_launch import FastLaunch

__all__ = ["CompiledKernel", "Kernel", "Launcher", "kernel"]

_CO_VARARGS, _CO_VARKEYWORDS = 0x04, 0x08
_COMPILER = "sterna.compiler"
_KEPT_LAUNCHERS = 256
_INT = frozenset({int})
_NOTED = frozenset({4, 64, 1024})
"""Launches of a launcher, made the general way, after which a function for the next ones of the kind is made."""


def _load_compiler(what: str, target: Target) -> Any:
    """The compiler, with the packages that its half of `target` needs."""
    try:
        compiler = importlib.import_module(_COMPILER)
        target.compiler()
        return compiler
    except ImportError as error:
        raise CompilerUnavailable(
            f"{what} is not in any store and has to be compiled, but the compiler cannot be imported ({error}). "
            'Install it (pip install "sterna[compiler]"), or ship this signature in a bundle.'
        ) from error


def _compile(request: CompileRequest) -> KernelImage:
    return _build(request).image


def _build(request: CompileRequest) -> Compilation:
    what = f"kernel {request.name}{signature_text(request.types)} for {request.device.target}"
    stats.check_compiling_allowed(what)
    compiler = _load_compiler(what, request.device.target)
    stats.count("compiles")
    try:
        made: Compilation = compiler.compile_kernel(request)
    except CompileError as error:  # the user's line is in the message; the compiler's own frames help nobody
        raise error.with_traceback(None) from None
    return made


class Kernel:
    """A Python function as an entry for launches; made by the `kernel` decorator.

    Parameters
    ----------
    function : function
        A plain Python function with named parameters.
    options : CompileOptions
        How to compile it.

    Examples
    --------
    >>> import numpy as np, sterna
    >>> @sterna.kernel
    ... def double(x):
    ...     i = sterna.grid(1)
    ...     x[i] = 2 * x[i]
    """

    def __init__(self, function: FunctionType, options: CompileOptions) -> None:
        self.function = function
        self.options = options
        functools.update_wrapper(self, function)
        code = function.__code__
        self._names = _parameter_names(function, code)
        self._positional = code.co_argcount
        self._dispatcher = Dispatcher(function, self._names, options, _compile)
        self._launchers: dict[LaunchKey | None, Launcher] = {}
        note_import(function)

    @property
    def __sterna_kernel__(self) -> FunctionType:
        return self.function

    def __repr__(self) -> str:
        return f"<sterna.kernel {self.function.__module__}.{self.function.__qualname__}>"

    def __reduce__(self) -> str:
        """Pickled and copied as functions are: by name, and as itself."""
        return self.function.__qualname__

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        raise DeviceOnlyError(
            f"kernel {self.function.__qualname__} is launched, not called: "
            f"{self.function.__name__}[blocks, threads](…) or {self.function.__name__}.over(shape)(…)"
        )

    def __getitem__(self, config: Any) -> Launcher:
        """``kernel[blocks, threads, stream, shared_bytes]``: a launch with explicit blocks and threads."""
        if not isinstance(config, tuple) or not 2 <= len(config) <= 4:
            raise LaunchError(
                f"kernel {self.function.__qualname__}: a launch is written kernel[blocks, threads], with an optional "
                f"stream and shared_bytes behind; given {config!r}"
            )
        key = launch_key(*config) if len(config) == 2 else None
        kept = self._launchers.get(key)
        if kept is not None:
            return kept
        blocks, threads, *rest = config
        stream = rest[0] if rest else None
        return self._keep(key, Launcher(self, blocks, threads, stream, rest[1] if len(rest) > 1 else 0))

    def over(self, shape: int | Sequence[int], stream: Any = None, shared_bytes: int = 0) -> Launcher:
        """A launch of one thread per element of `shape` (1 to 3 axes); blocks and threads are chosen.

        ``grid(ndim)`` then gives an index below `shape` on every axis, the last axis running fastest, and
        threads past the end never enter the body.  An extent of 0 launches nothing.

        Raises
        ------
        LaunchError
            For more than three axes, a negative extent, or something that is not an integer.
        """
        key: LaunchKey | None = None
        if stream is None and shared_bytes == 0:
            given: Any = shape
            is_plain = type(given) is int or (type(given) is tuple and _INT.issuperset(map(type, given)))
            key = (given,) if is_plain else None  # as `launch_key` has it
        kept = self._launchers.get(key)
        if kept is not None:
            return kept
        extents = over_shape(shape, self.function.__qualname__)
        return self._keep(key, Launcher(self, None, None, stream, shared_bytes, extents))

    def _keep(self, key: LaunchKey | None, launcher: Launcher) -> Launcher:
        """Keep a launcher whose configuration is only numbers, for the next launch that is written the same."""
        if key is not None:
            if len(self._launchers) >= _KEPT_LAUNCHERS:
                self._launchers.clear()
            self._launchers[key] = launcher
        return launcher

    def specialize(self, *given: Any, device: Device | str | None = None, over: int = 0) -> CompiledKernel:
        """Compile (or find) the kernel for argument types, without launching.

        Parameters
        ----------
        *given
            One per parameter: a value, a dtype, or a spelling such as ``"float32[:]"`` or ``"int"``.
        device : Device or str, optional
            Default: the current device.
        over : int
            Axes of the ``over`` launch meant, 0 for explicit blocks and threads.

        Returns
        -------
        CompiledKernel
        """
        types = tuple(type_from(item) for item in given)
        self._check_count(len(types))
        target = current_device() if device is None else device_of(device)
        key = (target, over, *types)
        return CompiledKernel(self, self._dispatcher.prepare(key, target, over, types))

    def build(self, *given: Any, target: str, over: int = 0) -> Compilation:
        """Compile for argument types and an architecture, with no device; nothing is stored or loaded.

        Parameters
        ----------
        *given
            As for `specialize`.
        target : str
            Such as ``"cuda-sm_90"``.
        over : int
            Axes of the ``over`` launch meant, 0 for explicit blocks and threads.

        Returns
        -------
        Compilation
            With ``.image``, ``.ir`` and ``.text("llvm")``, ``.text("ptx")``…
        """
        types = tuple(type_from(item) for item in given)
        self._check_count(len(types))
        return _build(self._dispatcher.request_for(find_target(target), over, types))

    def explain_cache(self) -> CacheReport:
        """Where the (latest 1024) specialisations came from: hit, miss and why, or why not storable."""
        return CacheReport(self.function.__qualname__, tuple(self._dispatcher.events))

    def inspect_types(self, file: TextIO | None = None) -> None:
        """Print the source with the inferred types beside each line, for every specialisation of this process.

        Parameters
        ----------
        file : text file, optional
            Default: standard output.
        """
        found = self._dispatcher.specialisations()
        parts = [CompiledKernel(self, one).types for one in found] or [f"{self!r} has not been launched or specialised"]
        print("\n\n".join(parts), file=file)

    def launch(self, launcher: Launcher, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Start the kernel; what `Launcher` calls."""
        if kwargs or len(args) != len(self._names):
            args = self._bind(args, kwargs)
        device = common_device(args)
        if device is not None:
            self._start(device, launcher, args)
            return
        if are_plain(args):
            device = current_device()
        else:
            args = tuple([adapt_argument(arg) for arg in args])
            device = self._device(args)
        if not device.reads_host_memory and holds_host_arrays(args):
            staging = Staging(device, self.function.__qualname__)
            self._start(device, launcher, staging.take(args))
            staging.give_back()
        else:
            self._start(device, launcher, args)

    def _start(self, device: Device, launcher: Launcher, args: tuple[Any, ...]) -> None:
        config = launcher.config_for(device)
        found = self._dispatcher.get(device, len(config.over), args, self._types)
        if config.is_empty:
            return
        stream = launcher.stream
        if stream is None:
            stream = active_stream(device)
        try:
            found.launch(config, found.packer.pack(args), stream)
        except ModuleLost:
            self._dispatcher.forget(device)
            found = self._dispatcher.get(device, len(config.over), args, self._types)
            found.launch(config, found.packer.pack(args), stream)
        if stream is not None and hasattr(stream, "keep"):
            stream.keep((found, args))
        elif found.keep is not None:
            found.keep((found, args))
        if stream is None:
            launcher.note(config, found, device, args, self._dispatcher)
        stats.count_launch()

    def _device(self, args: tuple[Any, ...]) -> Device:
        device = None
        for name, arg in zip(self._names, args, strict=True):
            if getattr(type(arg), "__sterna_array__", False):
                if device is None:
                    device = arg.device
                elif arg.device is not device:
                    raise SignatureError(
                        f"kernel {self.function.__qualname__}: argument {name} lives on {arg.device.name}, and another "
                        f"argument on {device.name}; copy one of them with sterna.to_device"
                    )
        return current_device() if device is None else device

    def _types(self, args: tuple[Any, ...]) -> tuple[Type, ...]:
        types = []
        for name, arg in zip(self._names, args, strict=True):
            try:
                types.append(type_of(arg))
            except TypeError as error:
                raise SignatureError(f"kernel {self.function.__qualname__}: argument {name}: {error}") from None
        return tuple(types)

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        values = dict(zip(self._names[: self._positional], args, strict=False))
        for name, value in kwargs.items():
            if name not in self._names or name in values:
                problem = "was given twice" if name in values else "does not exist"
                raise SignatureError(f"{self._usage()}; argument {name!r} {problem}")
            values[name] = value
        defaults = self.function.__defaults__ or ()
        for name, value in zip(self._names[self._positional - len(defaults) : self._positional], defaults, strict=True):
            values.setdefault(name, value)
        for name, value in (self.function.__kwdefaults__ or {}).items():
            values.setdefault(name, value)
        missing = [name for name in self._names if name not in values]
        if missing or len(args) > self._positional:
            detail = f"missing: {', '.join(missing)}" if missing else f"{len(args)} positional arguments were given"
            raise SignatureError(f"{self._usage()}; {detail}")
        return tuple(values[name] for name in self._names)

    def _check_count(self, given: int) -> None:
        if given != len(self._names):
            raise SignatureError(f"{self._usage()}; {given} were given")

    def _usage(self) -> str:
        return f"kernel {self.function.__qualname__}({', '.join(self._names)}) takes {len(self._names)} arguments"


class Launcher:
    """A kernel with a launch configuration; calling it starts the kernel."""

    __slots__ = ("_blocks", "_config", "_epoch", "_fast", "_kernel", "_over", "_seen", "_shared", "_threads", "stream")

    def __init__(
        self, kernel: Kernel, blocks: Any, threads: Any, stream: Any, shared_bytes: Any, over: tuple[int, ...] = ()
    ) -> None:
        self._kernel, self._blocks, self._threads = kernel, blocks, threads
        self._shared, self._over, self.stream = shared_bytes, over, stream
        self._config: tuple[Device, LaunchConfig] | None = None
        self._fast: FastLaunch | None = None
        self._epoch: object = None
        self._seen = 0

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Launch; a failure on the device is raised by the next synchronise."""
        fast = self._fast
        if fast is None or kwargs or not fast(args):
            self._kernel.launch(self, args, kwargs)

    def note(
        self, config: LaunchConfig, found: Specialisation, device: Device, args: tuple[Any, ...], dispatcher: Dispatcher
    ) -> None:
        """A launch was made the general way; after some, the next ones of its kind get a function of their own."""
        if self._epoch is not dispatcher.epoch:  # unloaded since: the function must not keep the code
            self._epoch, self._fast, self._seen = dispatcher.epoch, None, 0
        self._seen += 1
        if self._seen in _NOTED:
            from sterna.runtime.fast_launch import make_fast_launch

            self._fast = make_fast_launch(config, found, device, args, dispatcher)

    def config_for(self, device: Device) -> LaunchConfig:
        """The configuration on `device`, checked against its limits (kept for the next call)."""
        if self._config is None or self._config[0] is not device:
            self._config = device, self._make(device)
        return self._config[1]

    def _make(self, device: Device) -> LaunchConfig:
        name = self._kernel.function.__qualname__
        if self._blocks is not None:
            return make_config(device.limits, self._blocks, self._threads, self._shared, name)
        blocks, threads = device.suggest(self._over)
        limits = make_config(device.limits, 1, threads, self._shared, name)
        return LaunchConfig(blocks, limits.threads, self._over, limits.shared_bytes)


class CompiledKernel:
    """One specialisation, for reading: what was built and how it is linked."""

    def __init__(self, kernel: Kernel, specialisation: Specialisation) -> None:
        self._kernel, self._found = kernel, specialisation
        self._texts: Compilation | None = None

    @property
    def image(self) -> KernelImage:
        """The persistent result: payloads, entry, manifest, launch facts."""
        return self._found.loaded.image

    @property
    def relocations(self) -> tuple[RelocationRecord, ...]:
        """The host references of the image, in order."""
        return self.image.manifest.records

    @property
    def words(self) -> dict[str, tuple[int, ...]]:
        """Slot name → the words of this session."""
        return dict(self._found.loaded.words)

    @property
    def signature(self) -> str:
        """Argument types as text."""
        return signature_text(self._found.types)

    @property
    def types(self) -> str:
        """The source of the kernel and of the functions it calls, with the inferred types beside each line."""
        text: str = self._compiler("types").annotated_source(self._request())
        return f"{self!r}\n\n{text}"

    @property
    def ir(self) -> str:
        """Kernel IR, after inference."""
        return self._inspect().ir

    @property
    def llvm(self) -> str:
        """LLVM IR, optimised."""
        return self._inspect().text("llvm")

    @property
    def asm(self) -> str:
        """Assembly of the target."""
        return self._inspect().text("asm")

    @property
    def ptx(self) -> str:
        """The PTX that goes with the image (cuda)."""
        found = self.image.payloads.get("ptx")
        return self._inspect().text("ptx") if found is None else found.decode()

    @property
    def sass(self) -> str:
        """Machine code as text, by nvdisasm or cuobjdump where one is installed (cuda)."""
        return self._inspect().text("sass")

    @property
    def spirv(self) -> str:
        """The SPIR-V of the image, as text (opencl)."""
        return self._inspect().text("spirv")

    @property
    def msl(self) -> str:
        """The text in Metal's language that goes with the image (metal)."""
        found = self.image.payloads.get("msl")
        return self._inspect().text("msl") if found is None else found.decode()

    @property
    def registers(self) -> int:
        """Registers of a thread (cuda)."""
        return self._fact("registers")

    @property
    def local_bytes(self) -> int:
        """Bytes of memory of its own that a thread uses (cuda)."""
        return self._fact("local_bytes")

    @property
    def shared_bytes(self) -> int:
        """Bytes of static shared memory of a block."""
        return self._fact("shared_bytes")

    @property
    def max_threads(self) -> int:
        """Threads that a block of this kernel may have on its device."""
        facts = getattr(self._found.loaded.module, "facts", None)
        return self._found.loaded.device.limits.max_threads if facts is None else int(facts()["max_threads"])

    def suggest(self, shared_bytes: int = 0) -> tuple[int, int]:
        """Blocks and threads that fill the device, by its occupancy calculator (cuda).

        Parameters
        ----------
        shared_bytes : int
            Dynamic shared memory of a block.
        """
        found = getattr(self._found.loaded.module, "suggest", None)
        if found is None:
            raise UnsupportedError(
                f"device {self._found.loaded.device.name} has no occupancy calculator; use kernel.over(shape)"
            )
        blocks, threads = found(shared_bytes)
        return int(blocks), int(threads)

    def _fact(self, name: str) -> int:
        if name not in self.image.facts:
            raise UnsupportedError(f"an image for {self.image.target}-{self.image.arch} does not say {name}")
        return int(self.image.facts[name])

    def _inspect(self) -> Compilation:
        if self._texts is None:
            self._texts = self._compiler("text").compile_kernel(self._request())
        return self._texts

    def _compiler(self, part: str) -> Any:
        return _load_compiler(f"the {part} of kernel {self.image.name}", self._found.loaded.device.target)

    def _request(self) -> CompileRequest:
        found, dispatcher = self._found, self._kernel._dispatcher
        return CompileRequest(
            dispatcher.name, found.scan, found.types, found.loaded.device, found.options, found.options.strategy,
            self.image.key, found.loaded.resolution_for,
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<CompiledKernel {self.image.name}{self.signature} for {self.image.target}-{self.image.arch}>"


def _parameter_names(function: FunctionType, code: CodeType) -> tuple[str, ...]:
    if code.co_flags & (_CO_VARARGS | _CO_VARKEYWORDS):
        raise SignatureError(
            f"kernel {function.__qualname__}: *args and **kwargs are not possible in a kernel's own parameters; "
            "name each parameter (device functions may take *args)"
        )
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


@overload
def kernel(function: Callable[..., Any], /) -> Kernel: ...
@overload
def kernel(
    *,
    boundscheck: bool = ...,
    fastmath: bool = ...,
    contract: bool = ...,
    noalias: bool = ...,
    debug: bool = ...,
    opt: int = ...,
    strategy: str = ...,
    launch_bounds: int | tuple[int, ...] = ...,
    cluster: int | tuple[int, ...] = ...,
    cooperative: bool = ...,
) -> Callable[[Callable[..., Any]], Kernel]: ...


def kernel(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Mark a Python function as a kernel.

    Parameters
    ----------
    function : function
        When used as ``@sterna.kernel`` without options.
    **options
        `boundscheck` (default True), `fastmath`, `contract`, `noalias`, `debug`, `opt` (0-3), `strategy` (``bake``,
        ``patch``, ``table``), `launch_bounds`, `cluster`, `cooperative` (cuda); see `sterna.options.CompileOptions`.
        ``STERNA_*`` variables give defaults.

    Returns
    -------
    Kernel

    Raises
    ------
    TypeError
        For something that is not a plain function, or an unknown option.

    Examples
    --------
    >>> import numpy as np, sterna
    >>> @sterna.kernel
    ... def saxpy(a, x, y):
    ...     i = sterna.grid(1)
    ...     y[i] = a * x[i] + y[i]
    >>> x, y = np.ones(1000, np.float32), np.zeros(1000, np.float32)
    >>> saxpy.over(1000)(2.0, x, y)
    >>> sterna.synchronize()
    >>> float(y[0])
    2.0
    """
    if function is None:
        return functools.partial(_decorate, CompileOptions.from_environment(**options))
    if options:
        raise TypeError("write @sterna.kernel or @sterna.kernel(option=value)")
    return _decorate(CompileOptions.from_environment(), function)


def _decorate(options: CompileOptions, function: Any) -> Kernel:
    if isinstance(function, Kernel):
        function = function.function
    if not isinstance(function, FunctionType):
        raise TypeError(
            f"a kernel is made from a plain Python function; given {type(function).__name__} "
            "(for a method, move its body into a function)"
        )
    return Kernel(function, options)
