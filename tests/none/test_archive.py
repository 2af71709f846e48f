"""The archive of drivers' machine code: what is found, what is not, room, other drivers, other processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import sterna
from sterna.image import archive as A
from sterna.image.archive import Archive, ArchivePlace, default_archive

HERE = ArchivePlace("opencl", "some CPU", "2025.1", "Linux 6.1")
CODE = b"spirv of a kernel"
WRITER = """
import sys
from sterna.image.archive import Archive, ArchivePlace
place = ArchivePlace("opencl", "some CPU", "2025.1", "Linux 6.1")
archive = Archive(sys.argv[1], 40_000)
for turn in range(60):
    key = f"key {turn % 7}"
    blob = (key * 500).encode()
    found = archive.get(place, key, b"spirv")
    assert found in (None, blob), "another kernel's code, or half of one"
    if found is None:
        archive.put(place, key, b"spirv", blob)
print(archive.counters["hits"], archive.counters["refused"])
"""


@pytest.fixture
def kept(tmp_path):
    return Archive(tmp_path / "archive", 1 << 20)


def blobs(archive: Archive) -> list[Path]:
    return sorted(Path(archive.path).rglob("*.code"))


def age(path: Path | str, seconds: int) -> None:
    facts = os.stat(path)
    os.utime(path, (facts.st_atime - seconds, facts.st_mtime - seconds))


def test_a_miss_then_a_hit(kept):
    assert kept.get(HERE, "key", CODE) is None
    assert kept.put(HERE, "key", CODE, b"machine code")
    assert kept.get(HERE, "key", CODE) == b"machine code"
    assert kept.counters == {"hits": 1, "misses": 1, "stored": 1, "refused": 0, "evicted": 0, "cleaned": 0}


@pytest.mark.parametrize(
    ("place", "key", "code"),
    [
        (ArchivePlace("opencl", "some CPU", "2025.2", "Linux 6.1"), "key", CODE),
        (ArchivePlace("opencl", "some CPU", "2025.1", "Linux 6.2"), "key", CODE),
        (ArchivePlace("opencl", "other CPU", "2025.1", "Linux 6.1"), "key", CODE),
        (ArchivePlace("metal", "some CPU", "2025.1", "Linux 6.1"), "key", CODE),
        (HERE, "another key", CODE),
        (HERE, "key", b"other code under the same key"),
    ],
)
def test_code_for_anything_else_is_a_miss(kept, place, key, code):
    kept.put(HERE, "key", CODE, b"machine code")
    assert kept.get(place, key, code) is None


def test_a_blob_in_another_ones_place_is_not_believed(kept):
    other = ArchivePlace("opencl", "some CPU", "2025.2", "Linux 6.1")
    kept.put(HERE, "key", CODE, b"machine code")
    goal = Path(kept.path) / other.folder / blobs(kept)[0].name
    goal.parent.mkdir()
    blobs(kept)[0].rename(goal)
    assert kept.get(other, "key", CODE) is None
    assert kept.counters["refused"] == 1


@pytest.mark.parametrize("damage", ["flipped", "short", "empty", "longer"])
def test_a_damaged_blob_is_a_miss_and_goes_without_a_word(kept, damage, recwarn):
    kept.put(HERE, "key", CODE, b"machine code")
    (path,) = blobs(kept)
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    changed = {"flipped": data, "short": data[:-4], "empty": b"", "longer": path.read_bytes() + b"x"}
    path.write_bytes(changed[damage])
    assert kept.get(HERE, "key", CODE) is None
    assert not path.exists()
    assert kept.counters["refused"] == 1
    kept.put(HERE, "key", CODE, b"machine code")
    assert kept.get(HERE, "key", CODE) == b"machine code"
    assert not recwarn


def test_what_the_driver_refused_goes(kept):
    kept.put(HERE, "key", CODE, b"machine code")
    kept.reject(HERE, "key")
    assert blobs(kept) == []
    assert kept.counters["refused"] == 1


def test_room_is_made_by_what_was_used_longest_ago(tmp_path):
    archive = Archive(tmp_path, 5000)
    for name in "abc":
        archive.put(HERE, name, CODE, bytes(1000))
    for path, seconds in zip(blobs(archive), (300, 300, 300), strict=True):
        age(path, seconds)
    assert archive.get(HERE, "a", CODE) is not None  # used now, though it is the oldest
    for name in "de":
        archive.put(HERE, name, CODE, bytes(1000))
    found = {name for name in "abcde" if archive.get(HERE, name, CODE) is not None}
    assert {"a", "d", "e"} <= found
    assert archive.counters["evicted"] == 5 - len(found) > 0
    assert archive.describe()["bytes"] <= 5000


def test_more_than_there_is_room_for_is_not_kept(tmp_path):
    archive = Archive(tmp_path / "archive", 1000)
    outcome = archive.put(HERE, "key", CODE, bytes(2000))
    assert not outcome
    assert "more than the archive may hold (1000)" in outcome.reason


def test_code_of_the_driver_before_is_cleaned(kept, tmp_path):
    for key in "ab":
        kept.put(HERE, key, CODE, b"old")
    elsewhere = ArchivePlace("opencl", "other CPU", "2025.1", "Linux 6.1")
    kept.put(elsewhere, "a", CODE, b"of another device")
    after = ArchivePlace("opencl", "some CPU", "2025.2", "Linux 6.1")
    again = Archive(kept.path, 1 << 20)
    again.put(after, "a", CODE, b"new")
    assert again.counters["cleaned"] == 2
    assert not (Path(kept.path) / HERE.folder).exists()
    assert again.get(elsewhere, "a", CODE) == b"of another device"
    assert again.get(after, "a", CODE) == b"new"


def test_code_that_another_machine_uses_stays_for_a_month(kept, monkeypatch):
    monkeypatch.setattr(A.files, "host_digest", lambda: "elsewhere")
    kept.put(HERE, "a", CODE, b"its")
    monkeypatch.undo()
    after = ArchivePlace("opencl", "some CPU", "2025.2", "Linux 6.1")
    Archive(kept.path, 1 << 20).put(after, "a", CODE, b"ours")
    assert kept.get(HERE, "a", CODE) == b"its"
    age(Path(kept.path) / HERE.folder / "used-elsewhere", A.UNUSED_SECONDS + 60)
    Archive(kept.path, 1 << 20).put(after, "b", CODE, b"ours")
    assert kept.get(HERE, "a", CODE) is None


def test_processes_share_an_archive(tmp_path):
    started = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONPATH": str(Path(sterna.__file__).parents[1])},
        )
        for _ in range(2)
    ]  # fmt: skip
    for process in started:
        out, error = process.communicate(timeout=60)
        assert process.returncode == 0, error
        hits, refused = map(int, out.split())
        assert hits > 0
        assert refused == 0


def test_a_place_that_cannot_be_written_is_said_and_nothing_more(tmp_path):
    (tmp_path / "archive").write_text("a file in its place")
    archive = Archive(tmp_path / "archive", 1 << 20)
    assert not archive.put(HERE, "key", CODE, b"x")
    assert archive.get(HERE, "key", CODE) is None


def test_the_archive_lies_in_the_cache_and_can_be_switched_off(tmp_path, monkeypatch):
    monkeypatch.setenv("STERNA_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("STERNA_ARCHIVE", raising=False)
    monkeypatch.setenv("STERNA_ARCHIVE_LIMIT", "2")
    found = default_archive()
    assert found is not None
    assert found.path == str(tmp_path / "archive")
    assert found.limit == 2 << 20
    assert default_archive(by_default=False) is None
    monkeypatch.setenv("STERNA_ARCHIVE", "0")
    assert default_archive() is None
    monkeypatch.setenv("STERNA_ARCHIVE", "1")
    assert default_archive(by_default=False) is found
    sterna.machine_code_archive(False)
    try:
        assert default_archive() is None
        assert sterna.stats()["archive"] == {}
    finally:
        sterna.machine_code_archive(None)
    found.put(HERE, "key", CODE, b"machine code")
    facts = sterna.stats()["archive"]
    assert (facts["entries"], facts["stored"], facts["limit"]) == (1, 1, 2 << 20)
    monkeypatch.setenv("STERNA_CACHE", "off")
    assert default_archive() is None


def test_clearing_the_cache_clears_the_archive(tmp_path, monkeypatch):
    from sterna.cli.cache import clear_cache

    monkeypatch.setenv("STERNA_CACHE_DIR", str(tmp_path / "cache"))
    archive = Archive(tmp_path / "cache" / "archive", 1 << 20)
    archive.put(HERE, "key", CODE, b"machine code")
    clear_cache()
    assert not (tmp_path / "cache" / "archive").exists()
