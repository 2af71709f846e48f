"""What a driver refused is kept, with what it said, so that the message can say where."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

from sterna.errors import ImageRefused

if TYPE_CHECKING:
    from sterna.image.format import KernelImage
    from sterna.targets.base import Device

__all__ = ["keep_refused", "refusal"]


def refusal(
    device: Device, image: KernelImage, reason: str, log: str, what_it_said: str = "the driver's log"
) -> ImageRefused:
    """The error for an image that a device cannot run; the image and the log are kept, and the message says where."""
    found = ", ".join(f"{name} ({len(data)} bytes)" for name, data in sorted(image.payloads.items())) or "nothing"
    where = keep_refused(image, log)
    return ImageRefused(
        f"kernel {image.name}: {device.name} ({device.target}) cannot run the image, which is for "
        f"{image.target}-{image.arch} and holds {found}: {reason}. The image and {what_it_said} are kept in {where}"
    )


def keep_refused(image: KernelImage, log: str) -> str:
    """Write an image, its payloads and the driver's log to a new folder; the folder, or why there is none."""
    try:
        folder = tempfile.mkdtemp(prefix="sterna-refused-")
        for name, data in {"kernel.image": image.to_bytes(), "driver.log": log.encode(), **image.payloads}.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(data)
    except OSError as error:
        return f"no file ({error})"
    return folder
