"""Reading and writing pictures, and the histogram plot (Pillow and matplotlib)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

__all__ = ["default_picture", "plot_histogram", "read_picture", "write_picture"]


def default_picture() -> Path:
    """The portrait of Grace Hopper in matplotlib's sample data, which its wheel ships."""
    from matplotlib import cbook

    return Path(str(cbook.get_sample_data("grace_hopper.jpg", asfileobj=False)))


def read_picture(path: Path) -> np.ndarray:
    """Any image Pillow reads, turned upright, as uint8 of shape (rows, columns, 3)."""
    from PIL import Image, ImageOps

    with Image.open(path) as image:
        return np.array(ImageOps.exif_transpose(image).convert("RGB"), dtype=np.uint8)


def write_picture(picture: np.ndarray, path: Path) -> None:
    """Write a uint8 picture (rows, columns, 3)."""
    from PIL import Image

    Image.fromarray(picture).save(path)


def plot_histogram(before: np.ndarray, counts: np.ndarray, path: Path) -> None:
    """Plot level counts (3, 256) of the negative and of the print, one line a channel."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for axes, title, levels in zip(panels, ("picture", "print"), (before, counts), strict=True):
        for channel, colour in enumerate(("tab:red", "tab:green", "tab:blue")):
            axes.fill_between(np.arange(256), levels[channel], color=colour, alpha=0.25, linewidth=0)
            axes.plot(levels[channel], color=colour, linewidth=1, label=colour.removeprefix("tab:"))
        axes.set(title=title, xlabel="level", xlim=(0, 255))
    highest = max(int(before[:, 1:-1].max()), int(counts[:, 1:-1].max()), 1)  # black and white may be off the scale
    panels[0].set(ylabel="pixels", ylim=(0, 1.05 * highest))
    panels[1].legend(frameon=False)
    figure.savefig(path, dpi=120)
