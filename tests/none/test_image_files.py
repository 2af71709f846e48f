"""Reading and atomic writing of files: every trouble is an outcome, none an exception."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sterna.image import files
from sterna.image.files import atomic_write, ensure_folder, list_folder, move_aside, read_file, sweep_temporaries

TROUBLES = (errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EIO, errno.EDQUOT, errno.ELOOP)


def failing(real: Callable[..., Any], number: int, times: int = 1000) -> Callable[..., Any]:
    left = [times]

    def call(*args: Any, **more: Any) -> Any:
        if left[0] > 0:
            left[0] -= 1
            raise OSError(number, os.strerror(number))
        return real(*args, **more)

    return call


def test_write_then_read(tmp_path: Path):
    path = tmp_path / "a" / "b" / "file"
    for data in (b"one", b"", bytes(100_000)):
        for durable in (True, False):
            assert atomic_write(str(path), data, durable=durable)
            assert read_file(str(path)).data == data
    assert os.listdir(path.parent) == ["file"]


@pytest.mark.parametrize("call", ["open", "write", "fsync", "replace"])
@pytest.mark.parametrize("number", TROUBLES)
def test_a_failing_call_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing(getattr(os, call), number))
        outcome = atomic_write(str(path), b"new")
    assert (outcome.stored, outcome.reason) == (False, os.strerror(number).lower())
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


@pytest.mark.parametrize("call", ["open", "write", "replace"])
@pytest.mark.parametrize("number", [errno.ENOENT, errno.EEXIST])
def test_a_folder_or_temporary_that_vanishes_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
):
    path = tmp_path / "file"
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing(getattr(os, call), number, times=2))
        assert atomic_write(str(path), b"new")
    assert path.read_bytes() == b"new"
    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing(getattr(os, call), number))
        assert not atomic_write(str(path), b"newer")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_an_interrupt_leaves_no_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            atomic_write(str(tmp_path / "file"), b"new")
    assert os.listdir(tmp_path) == []


def test_short_writes_and_short_reads_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, data, write, read = tmp_path / "file", bytes(range(256)) * 40, os.write, os.read
    monkeypatch.setattr(os, "write", lambda handle, view: write(handle, view[:100]))
    monkeypatch.setattr(os, "read", lambda handle, size: read(handle, min(size, 77)))
    assert atomic_write(str(path), data)
    assert read_file(str(path)).data == data


def test_reading_trouble_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "file"
    assert read_file(str(path)) == files.ReadOutcome(None, "")
    assert read_file(str(path / "below")) == files.ReadOutcome(None, "")
    assert read_file(str(tmp_path)).reason == "not a regular file"
    assert "null" in read_file("a\0b").reason
    path.write_bytes(b"12345")
    assert read_file(str(path / "below")) == files.ReadOutcome(None, "")
    for call in ("open", "read", "fstat"):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, failing(getattr(os, call), errno.EIO))
            assert read_file(str(path)) == files.ReadOutcome(None, "input/output error")
    monkeypatch.setattr(files, "_MAX_BYTES", 4)
    assert read_file(str(path)).reason == "larger than any image"


def test_folders(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"")
    assert ensure_folder(str(tmp_path / "a" / "b"))
    assert ensure_folder(str(tmp_path / "a" / "b"))
    assert ensure_folder(str(tmp_path / "file")).reason == "a file is in the place of the folder"
    assert ensure_folder(str(tmp_path / "file" / "c")).reason == "not a directory"
    assert list_folder(str(tmp_path)) == ["a", "file"]
    assert list_folder(str(tmp_path / "absent")) == list_folder("a\0b") == []


def test_moving_aside_keeps_a_few(tmp_path: Path):
    for number in range(6):
        path = tmp_path / f"f{number}"
        path.write_bytes(b"bad")
        assert move_aside(str(path), str(tmp_path / "kept"), 3) == str(tmp_path / "kept" / path.name)
    assert os.listdir(tmp_path) == ["kept"]
    assert sorted(os.listdir(tmp_path / "kept"))[-1] == "f5"
    assert len(os.listdir(tmp_path / "kept")) == 3
    assert move_aside(str(tmp_path / "absent"), str(tmp_path / "kept"), 3) == ""
    (tmp_path / "file").write_bytes(b"bad")
    assert move_aside(str(tmp_path / "file"), str(tmp_path / "file" / "kept"), 3) == ""


def test_sweeping_a_folder_that_is_gone(tmp_path: Path):
    assert sweep_temporaries(str(tmp_path / "absent"), str(tmp_path / "absent" / "file")) == 0
    (tmp_path / ".writing-00000000-1-00").write_bytes(b"")
    assert sweep_temporaries(str(tmp_path), str(tmp_path / "absent")) == 0
