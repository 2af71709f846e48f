"""Machine code of Metal devices between processes: `MTLBinaryArchive`, one a kernel, in Sterna's archive.

Metal compiles a library's code for the GPU when a pipeline is made, the most expensive step of a first launch.  A
binary archive holds the result.  Metal finds a function in it by the bytes of its library, so it serves only where the
same job gives the same bytes in every process.  That holds for the text of our images (I4), and a test shows it; for
those with a ``metallib``, made by Apple's tools, the archive has to be asked for (``STERNA_ARCHIVE=1``).

The archive is a shortcut, never a need: whatever goes wrong here ends in plain creation.
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any

from sterna.image.archive import Archive, ArchivePlace, default_archive
from sterna.targets.metal.api import MetalError, check, metal, system_build

if TYPE_CHECKING:
    from sterna.image.format import KernelImage
    from sterna.targets.metal.device import MetalDevice

__all__ = ["archived_pipeline", "plain_pipeline"]

_STABLE_PAYLOADS = frozenset({"msl"})
"""Payloads of which two processes make the same bytes, as tests show."""


def plain_pipeline(device: Any, function: Any) -> Any:
    """A pipeline state by Metal's own compiler.

    Raises
    ------
    MetalError
        When it cannot be made.
    """
    made = device.newComputePipelineStateWithFunction_error_(function, None)
    return check(made, "Metal makes no pipeline of the function")


def archived_pipeline(device: MetalDevice, image: KernelImage, payload: str, function: Any) -> Any:
    """A pipeline state whose machine code comes from the archive, or goes there; None where there is no archive for it.

    Code with words of this session baked in is not for another one.

    Raises
    ------
    MetalError
        When Metal cannot compile the function at all.
    """
    archive = default_archive(payload in _STABLE_PAYLOADS)
    if archive is None or (image.manifest.strategy == "bake" and image.manifest.records):
        return None
    place = ArchivePlace("metal", device.device_name, "", system_build())
    code = image.payloads[payload]
    blob = archive.get(place, image.key, code)
    if blob is not None:
        found = _look_up(device.handle, function, blob)
        if found is not None:
            return found
        archive.reject(place, image.key)
    made = plain_pipeline(device.handle, function)
    _harvest(device.handle, function, archive, place, image.key, code)
    return made


def _look_up(device: Any, function: Any, blob: bytes) -> Any:
    """The pipeline, if the archive has this very function; None otherwise."""
    api = metal()
    try:
        with tempfile.TemporaryDirectory(prefix="sterna-metal-") as folder:
            path = os.path.join(folder, "kernel.archive")
            with open(path, "wb") as file:
                file.write(blob)
            opened = _descriptor(function, _open(device, path))
            found = device.newComputePipelineStateWithDescriptor_options_reflection_error_(
                opened, api.MTLPipelineOptionFailOnBinaryArchiveMiss, None, None
            )
            return found[0]
    except Exception:  # of a shortcut that does not work, whatever the reason: Metal compiles instead
        return None


def _harvest(device: Any, function: Any, archive: Archive, place: ArchivePlace, key: str, code: bytes) -> None:
    """Keep the machine code that Metal has just made."""
    try:
        made = _open(device, None)
        descriptor = _descriptor(function, None)
        check(made.addComputePipelineFunctionsWithDescriptor_error_(descriptor, None), "nothing can be archived")
        with tempfile.TemporaryDirectory(prefix="sterna-metal-") as folder:
            path = os.path.join(folder, "kernel.archive")
            check(made.serializeToURL_error_(metal().NSURL.fileURLWithPath_(path), None), "the archive is not written")
            with open(path, "rb") as file:
                archive.put(place, key, code, file.read())
    except Exception:  # as above: the pipeline is there
        return


def _open(device: Any, path: str | None) -> Any:
    """A binary archive, empty or from a file."""
    api = metal()
    descriptor = api.MTLBinaryArchiveDescriptor.new()
    if path is not None:
        descriptor.setUrl_(api.NSURL.fileURLWithPath_(path))
    found = device.newBinaryArchiveWithDescriptor_error_(descriptor, None)
    if found[0] is None:
        raise MetalError("the binary archive is refused")
    return found[0]


def _descriptor(function: Any, archive: Any) -> Any:
    """What a pipeline is made of: the function, and where its machine code may be."""
    made = metal().MTLComputePipelineDescriptor.new()
    made.setComputeFunction_(function)
    if archive is not None:
        made.setBinaryArchives_([archive])
    return made
