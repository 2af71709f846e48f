"""What a driver refused is kept, with what it said, so that the message can say where."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sterna.image.format import KernelImage

__all__ = ["keep_refused"]


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
