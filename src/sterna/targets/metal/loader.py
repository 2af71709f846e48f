"""Getting an image's kernel into a device: a library from its ``metallib`` or its text, the function, the pipeline.

Libraries, functions and pipelines belong to one device and are never stored; what is stored is the image, and the
device's own machine code in an archive (`sterna.targets.metal.archive`).  Whatever Metal refuses is kept, with what it
said, and the message says where.
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any

from sterna.runtime.refused import refusal
from sterna.targets.metal.api import MetalError, check, metal
from sterna.targets.metal.archive import archived_pipeline, plain_pipeline

if TYPE_CHECKING:
    from sterna.image.format import KernelImage
    from sterna.targets.metal.device import MetalDevice

__all__ = ["load_pipeline"]


def load_pipeline(device: MetalDevice, image: KernelImage) -> Any:
    """The pipeline state of an image's kernel on a device.

    Raises
    ------
    ImageRefused
        When Metal takes none of the payloads; names the folder they are kept in.
    """
    said: list[str] = []
    with metal().autorelease_pool():
        for payload, make in (("metallib", _from_metallib), ("msl", _from_text)):
            code = image.payloads.get(payload)
            if code is None:
                continue
            try:
                function = _function(make(device.handle, code, image), image)
                made = archived_pipeline(device, image, payload, function)
                return plain_pipeline(device.handle, function) if made is None else made
            except MetalError as error:
                said.append(f"{payload}: {error}")
    reason = "; ".join(said) or "no payload for Metal"
    raise refusal(device, image, reason, "\n".join(said), "what Metal said")


def _from_text(device: Any, code: bytes, image: KernelImage) -> Any:
    api = metal()
    options = api.MTLCompileOptions.new()
    is_fast = bool(image.facts.get("fastmath", False))
    if hasattr(options, "setMathMode_"):
        options.setMathMode_(api.MTLMathModeFast if is_fast else api.MTLMathModeSafe)
        precision = "Fast" if is_fast else "Precise"
        options.setMathFloatingPointFunctions_(getattr(api, f"MTLMathFloatingPointFunctions{precision}"))
    else:  # before macOS 15
        options.setFastMathEnabled_(is_fast)
    language = str(image.facts.get("language", "")).replace(".", "_")
    if language:  # the text means the same whatever the newest version is
        options.setLanguageVersion_(getattr(api, f"MTLLanguageVersion{language}"))
    text = code.decode()
    return check(device.newLibraryWithSource_options_error_(text, options, None), "the Metal compiler refuses the text")


def _from_metallib(device: Any, code: bytes, image: KernelImage) -> Any:
    with tempfile.TemporaryDirectory(prefix="sterna-metal-") as folder:
        path = os.path.join(folder, "kernel.metallib")
        with open(path, "wb") as file:
            file.write(code)
        url = metal().NSURL.fileURLWithPath_(path)
        return check(device.newLibraryWithURL_error_(url, None), "the library is refused")


def _function(library: Any, image: KernelImage) -> Any:
    found = library.newFunctionWithName_(image.entry)
    if found is None:
        names = ", ".join(map(str, library.functionNames())) or "none"
        raise MetalError(f"the library has no function {image.entry}; it has {names}")
    return found
