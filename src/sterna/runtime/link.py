"""Linking: image + this session + one device → a loaded kernel.

Order matters: the code is loaded, every record is resolved, checked against the code and delivered, and only
then is the kernel handed out; a kernel that could run with an unwritten slot does not exist.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping
from types import FunctionType

from sterna.abi import ArgLayout
from sterna.errors import LinkError
from sterna.image.format import KernelImage
from sterna.relocation.record import SLOTS, WORD_BYTES, Manifest, RefKind
from sterna.relocation.resolve import Resolution, resolve_manifest
from sterna.runtime import stats
from sterna.targets.base import Device, LoadedModule

__all__ = ["LoadedKernel", "link"]


class LoadedKernel:
    """One image loaded on one device, with this session's words in place.

    Attributes
    ----------
    image : KernelImage
        What was loaded.
    module : LoadedModule
        The device's handle.
    """

    def __init__(self, image: KernelImage, device: Device, module: LoadedModule, resolution: Resolution) -> None:
        self.image, self.device, self.module = image, device, module
        self._resolution = resolution
        if resolution.globals:
            from sterna.runtime.hostrefs import attach_all  # loaded already, by whoever made them

            attach_all(module, resolution.globals, resolution.flat)
        self._lock = threading.Lock()
        self._loaded = True

    @property
    def words(self) -> Mapping[str, tuple[int, ...]]:
        """Slot name → words delivered when it was linked."""
        return self._resolution.words

    def resolution_for(self, manifest: Manifest) -> Resolution:
        """The words this kernel was linked with, for compiling a ``bake`` job again for inspection."""
        return self._resolution

    def unload(self) -> None:
        """Unload the code and release what its words named; no launch may follow."""
        with self._lock:
            if not self._loaded:
                return
            self._loaded = False
        for value, record in self._resolution.globals:
            value.detach(self.module, record)
        self.module.unload()
        self._resolution.holder.release()

    def __del__(self, _finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if getattr(self, "_loaded", False) and not _finalizing():
            self.unload()


def link(
    image: KernelImage,
    function: FunctionType,
    device: Device,
    layout: ArgLayout,
    resolution: Resolution | None = None,
) -> LoadedKernel:
    """Load `image` on `device` and deliver the words of this session.

    Parameters
    ----------
    image : KernelImage
        For this device's architecture, or one that it can run instead (I10).
    function : function
        The live kernel function its paths start at.
    device : Device
        Where it will run.
    layout : ArgLayout
        Layout of the launch arguments.
    resolution : Resolution, optional
        Words already resolved: those that a ``bake`` compilation wrote into the code.

    Raises
    ------
    LinkError
        When code and manifest disagree, or a reference cannot be resolved (I5).
    """
    target = device.target
    if image.target != target.name or image.arch not in (target.arch, *target.fallbacks):
        raise LinkError(
            f"kernel {image.name}: the image is for {image.target}-{image.arch}, device {device.name} is "
            f"{device.target}"
        )
    module = device.load(image, layout)
    module.function = function
    try:
        if resolution is None:
            resolution = resolve_manifest(image.manifest, function, device, image.name)
        _deliver(image, module, resolution)
    except BaseException:
        module.unload()
        raise
    stats.count("links")
    return LoadedKernel(image, device, module, resolution)


def _deliver(image: KernelImage, module: LoadedModule, resolution: Resolution) -> None:
    manifest, words = image.manifest, resolution.flat
    if manifest.strategy == "table":
        module.set_table(words)
        return
    slots = manifest.records
    if manifest.strategy != "patch":  # the others are baked in
        if hasattr(module, "note_baked"):
            module.note_baked(words)
        slots = tuple([r for r in slots if r.kind is RefKind.GLOBAL])
        words = words if slots else []
    size, wanted = module.slots_size() if slots else 0, WORD_BYTES * len(words)
    if size != wanted:
        found = f"no symbol {SLOTS}" if size is None else f"{size} bytes"
        names = ", ".join([repr(r.path) for r in slots[:3]]) + (" …" if len(slots) > 3 else "")
        raise LinkError(
            f"kernel {image.name}: the words of {len(slots)} references ({names}) should take {wanted} bytes in the "
            f"code; found {found}. The image is damaged or was made by another version; delete it or compile again."
        )
    module.write_slots(words)
