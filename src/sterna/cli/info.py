"""``sterna info``: what is installed, where kernels can run, where images are looked for, what happened so far."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["show"]


def show(facts: dict[str, Any], console: Console) -> None:
    """Print what `sterna.stats` gives as tables."""
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
    if facts["archive"]:
        archive = Table("machine code", "value", title="archive of drivers' machine code", title_justify="left")
        for name, value in facts["archive"].items():
            archive.add_row(name, str(value))
        console.print(archive)
    history = Table("counter", "value", title="processes that used the cache", title_justify="left")
    for name, value in facts["history"].items():
        history.add_row(name, str(value))
    console.print(history)
    counters = Table("counter", "value", title="this process", title_justify="left")
    for name, value in facts.items():
        if not isinstance(value, list) and name not in ("versions", "history", "archive"):
            counters.add_row(name, str(value))
    console.print(counters)
