"""Dispatch: from a launch to a loaded kernel, along the shortest path that is still right.

A warm launch looks its argument types up in a table, checks that no captured name was rebound (guards), packs
the arguments and starts the kernel.  Everything else is the slow path: scan the captures, compute the key, find
the image in memory or in a store, or ask the compiler (a callback, I1), then link.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any

from sterna.errors import CompilerUnavailable, ImageRefused
from sterna.frozen import frozen
from sterna.image.format import KernelImage
from sterna.image.key import base_key, kernel_key
from sterna.options import CompileOptions
from sterna.overlays import tables_for
from sterna.relocation.record import Manifest
from sterna.relocation.resolve import Resolution, resolve_manifest
from sterna.runtime.disjoint import DisjointPacker
from sterna.runtime.link import LoadedKernel, link
from sterna.runtime.lookup import CacheEvent, find_image, keep_image
from sterna.runtime.signature import ArgumentPacker, argument_key
from sterna.source.captures import Scan, scan
from sterna.targets.base import Device, Target
from sterna.targets.registry import compiler_versions
from sterna.types import OPAQUE, TYPE_TAG, ArrayType, StructType, TupleType, Type

__all__ = ["CompileRequest", "Dispatcher", "Specialisation"]

_KEPT_PER_SIGNATURE = 8
_KEPT_EVENTS = 1024


@frozen
class CompileRequest:
    """What the compiler is asked for: one job, its key, and how to resolve words for ``bake``."""

    name: str
    scan: Scan
    types: tuple[Type, ...]
    device: Device | _Place
    options: CompileOptions
    strategy: str
    key: str
    resolve: Callable[[Manifest], Resolution]


@frozen
class _Place:
    """Where a job without a device is for."""

    target: Target


def _no_words(manifest: Manifest) -> Resolution:
    raise ValueError("words of this session are asked for, and the job is for no device")


Compile = Callable[[CompileRequest], KernelImage]


@dataclass(slots=True)
class Specialisation:
    """A loaded kernel with what a launch needs: the scan whose guards it depends on, and the packer.

    `keep` is the device's method that keeps a launch's arguments alive until it is done, where launches return before.
    """

    scan: Scan
    types: tuple[Type, ...]
    options: CompileOptions
    loaded: LoadedKernel
    packer: ArgumentPacker
    event: CacheEvent
    launch: Callable[..., None] = field(init=False)
    keep: Callable[[Any], None] | None = field(init=False)

    def __post_init__(self) -> None:
        self.launch = self.loaded.module.launch
        device = self.loaded.device
        if any(_is_fleeting(t, device) for t in self.types):
            self.keep = getattr(device, "keep", None)
        else:
            self.keep = None


def _is_fleeting(t: Type, device: Device) -> bool:
    """Whether an argument of this type may be gone when the kernel runs, if nobody keeps it.

    An object that has died could lend its identity to another; memory lives on where the device frees it in order, but
    not the host's.
    """
    if isinstance(t, TupleType | StructType):
        return any(_is_fleeting(item, device) for item in t.items)
    if isinstance(t, ArrayType):
        return device.reads_host_memory or not getattr(device, "frees_in_order", False)
    return t in (OPAQUE, TYPE_TAG)


class Dispatcher:
    """All specialisations of one kernel in this process.

    Parameters
    ----------
    function : function
        The kernel's Python function.
    names : sequence of str
        Its parameter names.
    options : CompileOptions
        Options of the decorator and the environment.
    compile : callable
        Called with a `CompileRequest` when no image is found.

    Attributes
    ----------
    epoch : object
        Another one after specialisations were dropped.
    """

    def __init__(self, function: FunctionType, names: Sequence[str], options: CompileOptions, compile: Compile) -> None:
        self.function, self.names, self.options = function, tuple(names), options
        self.name = function.__qualname__
        self.events: deque[CacheEvent] = deque(maxlen=_KEPT_EVENTS)
        self._compile = compile
        self._lock = threading.RLock()
        self.epoch: object = object()
        self._table: dict[Hashable, list[Specialisation]] = {}
        self._last: tuple[Device | None, int, list[Hashable], Specialisation | None] = (None, 0, [], None)

    def get(
        self, device: Device, over: int, args: tuple[Any, ...], types_of: Callable[[tuple[Any, ...]], tuple[Type, ...]]
    ) -> Specialisation:
        """The specialisation for these arguments, prepared if need be.

        Parameters
        ----------
        device : Device
            Where it will run.
        over : int
            Axes of an ``over`` launch, 0 for explicit blocks.
        args : tuple
            Launch arguments.
        types_of : callable
            Gives their types; called on the slow path only.
        """
        try:
            keys = [argument_key(arg) for arg in args]
        except TypeError:
            types_of(args)  # says which argument of which kernel it is
            raise
        where, axes, known, last = self._last  # most launches are like the one before: nothing to hash then
        if last is not None and where is device and axes == over and known == keys and last.scan.holds():
            return last
        key: tuple[Any, ...] = (device, over, *keys)
        found = next((one for one in self._table.get(key, ()) if one.scan.holds()), None)
        if found is None:
            found = self.prepare(key, device, over, types_of(args))
        self._last = device, over, keys, found
        return found

    def prepare(self, key: Hashable, device: Device, over: int, types: tuple[Type, ...]) -> Specialisation:
        """The slow path; threads that ask for the same kernel at once compile once."""
        with self._lock:
            kept = self._table.get(key, [])
            for found in kept:
                if found.scan.holds():
                    return found
            made = self._make(device, types, self.options.with_(over=over))
            self._table[key] = [made, *kept][:_KEPT_PER_SIGNATURE]
            return made

    def _make(self, device: Device, types: tuple[Type, ...], options: CompileOptions) -> Specialisation:
        captures = scan(self.function, tables=tables_for(device.target))
        packer = ArgumentPacker(self.name, self.names, types)
        strategy = options.strategy or device.target.strategies[0]
        if strategy not in device.target.strategies:
            raise ValueError(
                f"kernel {self.name}: target {device.target} has no strategy {strategy!r}; "
                f"it has {', '.join(device.target.strategies)}"
            )
        options = options.with_(strategy=strategy)
        image, event, resolution = self._image(captures, types, device, options, strategy)
        self.events.append(event)
        if resolution is None:
            resolution = resolve_manifest(image.manifest, self.function, device, self.name, captures.values())
        try:
            loaded = link(image, self.function, device, packer.layout, resolution)
        except ImageRefused as refusal:
            if event.outcome != "hit":
                raise
            image, event, resolution = self._image(captures, types, device, options, strategy, refusal)
            self.events.append(event)
            if resolution is None:
                resolution = resolve_manifest(image.manifest, self.function, device, self.name, captures.values())
            loaded = link(image, self.function, device, packer.layout, resolution)
        if options.noalias:
            written = image.facts.get("written", range(len(types)))
            packer = DisjointPacker(self.name, self.names, types, written)
        return Specialisation(captures, types, options, loaded, packer, event)

    def _image(
        self,
        captures: Scan,
        types: tuple[Type, ...],
        device: Device,
        options: CompileOptions,
        strategy: str,
        refusal: ImageRefused | None = None,
    ) -> tuple[KernelImage, CacheEvent, Resolution | None]:
        found = find_image(self.function, captures, types, device.target, options, strategy != "bake")
        if found.image is not None and refusal is None:
            return found.image, found.event, None
        baked: list[Resolution] = []

        def resolve(manifest: Manifest) -> Resolution:
            baked.append(resolve_manifest(manifest, self.function, device, self.name, captures.values()))
            return baked[0]

        request = CompileRequest(self.name, captures, types, device, options, strategy, found.key, resolve)
        try:
            image = self._compile(request).canonical()
        except CompilerUnavailable as missing:
            raise missing from refusal
        return image, keep_image(image, found, captures), baked[0] if baked else None

    def request_for(self, target: Target, over: int, types: tuple[Type, ...]) -> CompileRequest:
        """The job of one specialisation for a target, with no device.

        Raises
        ------
        ValueError
            For the strategy ``bake``, whose words are a device's, and one that the target does not have.
        """
        strategy = self.options.strategy or target.strategies[0]
        if strategy == "bake" or strategy not in target.strategies:
            others = " or ".join(repr(name) for name in target.strategies if name != "bake")
            problem = "needs a device" if strategy in target.strategies else f"is none of target {target.name}'s"
            raise ValueError(f"kernel {self.name}: the strategy {strategy!r} {problem}; build with {others}")
        options = self.options.with_(over=over, strategy=strategy)
        captures = scan(self.function, tables=tables_for(target))
        base = base_key(captures, types, target, options)
        key = kernel_key(base, compiler_versions(target) or {})
        return CompileRequest(self.name, captures, types, _Place(target), options, strategy, key, _no_words)

    def forget(self, device: Device) -> None:
        """Drop what is loaded on a device whose context is gone."""
        with self._lock:
            self._last, self.epoch = (None, 0, [], None), object()
            self._table = {
                key: kept for key, kept in self._table.items() if kept and kept[0].loaded.device is not device
            }

    def specialisations(self) -> tuple[Specialisation, ...]:
        """The specialisations at hand, in the order their signatures were first asked for."""
        with self._lock:
            return tuple(found for kept in self._table.values() for found in kept)

    def unload(self) -> None:
        """Forget all specialisations; the next launch looks for its image again."""
        with self._lock:
            self._last, self.epoch = (None, 0, [], None), object()
            self._table.clear()
