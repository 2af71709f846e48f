"""``sterna cache``: where the user's cache is, and emptying it.

Only files that Sterna itself lays down are removed, never the rest of a folder that STERNA_CACHE_DIR names.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["cache_folder", "clear_cache", "our_files"]

_PATTERNS = (
    "*/*.image", "facts/*/*.json", "*/versions/*.json", "refused/*", "history.jsonl", "**/.writing-*",
    "archive/*/*/*/*.code", "archive/*/*/*/used-*",
)  # fmt: skip


def cache_folder() -> str:
    """The folder of the user's cache, or an empty string when there is none."""
    from sterna.image.places import user_cache

    return user_cache().path


def our_files(folder: Path) -> list[Path]:
    """The files of a store in `folder`."""
    return sorted({path for pattern in _PATTERNS for path in folder.glob(pattern) if path.is_file()})


def clear_cache() -> tuple[int, str]:
    """Remove the cache's files; how many, and the folder (empty when there is no cache)."""
    name = cache_folder()
    if not name:
        return 0, ""
    folder, removed = Path(name), 0
    files = our_files(folder)
    for path in files:
        try:
            path.unlink()
            removed += 1
        except OSError:
            continue
    for parent in sorted({p for path in files for p in path.parents if folder in p.parents}, reverse=True):
        try:
            parent.rmdir()
        except OSError:
            continue  # not empty: something else lies there
    return removed, name
