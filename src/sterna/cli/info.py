"""``sterna info``: what is installed, where kernels can run, where images are looked for, what happened so far."""

from __future__ import annotations

import importlib.metadata
import platform
from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["gather", "show"]

_PACKAGES = ("sterna", "numpy", "llvmlite", "typer", "rich", "cuda-bindings", "nvidia-nvjitlink", "pyopencl")


def gather() -> dict[str, Any]:
    """Everything ``sterna info`` says, as plain data.

    Returns
    -------
    dict
        ``versions`` (package → version or None), ``targets`` (list of name, architecture, strategies),
        ``devices`` (list of str), ``stores`` (list of label, path, writable, images), ``stats`` (counters).
    """
    import sterna

    return {
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in _PACKAGES}},
        "targets": _targets(),
        "devices": [str(getattr(device, "name", device)) for device in sterna.devices()],
        "stores": _stores(),
        "stats": sterna.stats(),
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _targets() -> list[dict[str, Any]]:
    from sterna.targets.registry import TARGETS, target

    found = []
    for name in sorted(TARGETS):
        known = target(name)
        found.append({"name": known.name, "arch": known.arch, "strategies": list(known.strategies)})
    return found


def _stores() -> list[dict[str, Any]]:
    from pathlib import Path

    from sterna.cli.cache import our_files
    from sterna.image.search import default_search_path

    found = []
    for store in default_search_path().stores():
        folder = Path(store.path)
        images = [path for path in our_files(folder) if path.suffix == ".image"] if folder.is_dir() else []
        size = sum(path.stat().st_size for path in images)
        found.append(
            {
                "label": store.label,
                "path": str(folder),
                "writable": store.writable,
                "images": len(images),
                "bytes": size,
            }
        )
    return found


def show(facts: dict[str, Any], console: Console) -> None:
    """Print what `gather` found as tables."""
    versions = Table("package", "version", title="versions", title_justify="left")
    for name, version in facts["versions"].items():
        versions.add_row(name, version or "[dim]not installed[/dim]")
    console.print(versions)
    targets = Table("target", "architecture", "relocation strategies", title="targets", title_justify="left")
    for known in facts["targets"]:
        targets.add_row(known["name"], known["arch"], ", ".join(known["strategies"]))
    console.print(targets)
    console.print("devices:", ", ".join(facts["devices"]) or "none")
    stores = Table("store", "folder", "writable", "images", "KiB", title="stores", title_justify="left")
    for store in facts["stores"]:
        writable = "yes" if store["writable"] else "no"
        kib = f"{store['bytes'] / 1024:.0f}"
        stores.add_row(store["label"], store["path"], writable, str(store["images"]), kib)
    console.print(stores)
    counters = Table("counter", "value", title="this process", title_justify="left")
    for name, value in facts["stats"].items():
        counters.add_row(name, str(value))
    console.print(counters)
