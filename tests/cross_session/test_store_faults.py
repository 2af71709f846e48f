"""Stores under killed writers, racing processes, read-only folders and full disks, in real processes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from helpers.images import PLACE, make_image, make_key
from sterna.errors import SternaWarning
from sterna.image import Request, SearchPath, Store
from sterna.image.notices import forget_notices
from sterna.image.places import CachePlace

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture(autouse=True)
def _fresh_notices():
    forget_notices()


def in_child(work: Callable[[], None]) -> int:
    """Start `work` in a forked process, which ends with status 0 if it returned; its process id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        warnings.simplefilter("error")
        work()
        status = 0
    except BaseException as error:
        os.write(2, f"child: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(status)


def status_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def check_whole(folder: Path, number: int) -> bool:
    """The store holds either the right image or none, and nobody complains; which of the two."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = Store(folder).get(PLACE, make_key(number), "blur")
    assert found in (None, make_image(number))
    return found is not None


# ---- kill -9 ---------------------------------------------------------------------------------------


def write_slowly(folder: Path, number: int, kill_at: int) -> None:
    """Put one image in pieces of 256 bytes and die without a word at a chosen system call."""
    calls = 0

    def counted(real: Callable[..., object], cut: int = 0) -> Callable[..., object]:
        def call(*args: object, **more: object) -> object:
            nonlocal calls
            calls += 1
            if calls == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            if cut:
                return real(args[0], args[1][:cut])  # type: ignore[index]
            return real(*args, **more)

        return call

    os.write = counted(os.write, 256)
    for name in ("fsync", "replace", "open", "close"):
        setattr(os, name, counted(getattr(os, name)))
    Store(folder).put(make_image(number))


def test_killed_at_every_step_of_a_write(tmp_path: Path):
    outcomes = []
    for step in range(1, 60):
        child = in_child(lambda step=step: write_slowly(tmp_path / "store", 1, step))
        status = status_of(child)
        assert status in (0, -signal.SIGKILL)
        outcomes.append((status, check_whole(tmp_path / "store", 1)))
        if status == 0:
            break
    assert outcomes[0] == (-signal.SIGKILL, False)
    assert outcomes[-1] == (0, True)
    assert len(outcomes) > 15
    assert not list(tmp_path.rglob(".writing-*")), "the next whole write sweeps what killed writers left"


def test_killed_at_random_times(tmp_path: Path):
    chosen = random.Random(9)
    folder = tmp_path / "store"

    def keep_writing() -> None:
        store = Store(folder)
        while True:
            for number in range(4):
                store.put(make_image(number))
                store.put_facts(f"ab{number}", {"number": number})

    for _ in range(25):
        child = in_child(keep_writing)
        time.sleep(chosen.uniform(0.001, 0.02))
        os.kill(child, signal.SIGKILL)
        assert status_of(child) == -signal.SIGKILL
        for number in range(4):
            check_whole(folder, number)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert Store(folder).get_facts(f"ab{number}") in (None, {"number": number})
    after = Store(folder)
    for number in range(4):
        assert after.put(make_image(number))
        assert after.put_facts(f"ab{number}", {"number": number})
        assert check_whole(folder, number)
    assert not list(tmp_path.rglob(".writing-*"))


# ---- many processes --------------------------------------------------------------------------------


def test_sixteen_processes_write_the_same_images(tmp_path: Path):
    folder = tmp_path / "store"

    def work(seed: int) -> None:
        store, order = Store(folder), list(range(8))
        random.Random(seed).shuffle(order)
        for number in order * 2:
            found = store.get(PLACE, make_key(number), "blur")
            assert found in (None, make_image(number))
            outcome = store.put(make_image(number), {"writer": str(seed)})
            assert outcome, outcome.reason
            assert store.get(PLACE, make_key(number), "blur") == make_image(number)
            assert store.put_facts(f"ab{number}", {"number": number})
            assert store.get_facts(f"ab{number}") == {"number": number}
        assert store.counters.bad_files == 0

    children = [in_child(lambda seed=seed: work(seed)) for seed in range(16)]
    assert [status_of(child) for child in children] == [0] * 16
    store = Store(folder)
    assert sorted(v["writer"] for v in store.declared_versions(PLACE)) == sorted(map(str, range(16)))
    assert len(store.image_names(PLACE)) == 8
    assert not list(folder.rglob(".writing-*"))
    assert not (folder / "refused").exists()


def test_sixteen_processes_repair_one_bad_file(tmp_path: Path):
    folder = tmp_path / "store"
    path = Path(Store(folder).put(make_image()).path)
    path.write_bytes(b"junk")

    def work() -> None:
        warnings.simplefilter("ignore")
        store = Store(folder)
        if store.get(PLACE, make_key(1), "blur") is None:
            assert store.put(make_image())

    children = [in_child(work) for _ in range(16)]
    assert [status_of(child) for child in children] == [0] * 16
    Store(folder).put(make_image())
    assert check_whole(folder, 1)


def test_writers_and_one_who_deletes(tmp_path: Path):
    folder = tmp_path / "store"

    def write() -> None:
        store = Store(folder)
        for number in range(40):
            store.put(make_image(number % 3))  # may fail, never raises
            found = store.get(PLACE, make_key(number % 3), "blur")
            assert found in (None, make_image(number % 3))

    def delete() -> None:
        import shutil

        for _ in range(40):
            shutil.rmtree(folder, ignore_errors=True)
            time.sleep(0.001)

    children = [in_child(write) for _ in range(4)] + [in_child(delete)]
    assert [status_of(child) for child in children] == [0] * 5
    assert Store(folder).put(make_image())
    assert check_whole(folder, 1)


# ---- file systems ----------------------------------------------------------------------------------


def mounted(folder: Path, *options: str) -> bool:
    return subprocess.run(["mount", *options, str(folder)], capture_output=True).returncode == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 64 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if sys.platform != "linux" or not mounted(folder, "-t", "tmpfs", "-o", "size=64k", "tmpfs"):
        pytest.skip("mounting a small file system is not permitted here")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.fixture
def lockable(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Path, Callable[[], None]]]:
    """A folder, and what takes the right to write there: for root a mount, for others permissions."""
    if os.geteuid() == 0:
        disk = request.getfixturevalue("small_disk")
        yield disk, lambda: subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True) and None
        return
    folder = tmp_path / "lockable"
    folder.mkdir()

    def allow(writing: bool) -> None:
        for place in sorted((folder, *folder.rglob("*")), reverse=not writing):
            place.chmod((0o755 if writing else 0o555) if place.is_dir() else 0o444)

    yield folder, lambda: allow(False)
    allow(True)


def key_of(base: str, versions: object) -> str:
    return base


def search_in(folder: Path) -> SearchPath:
    return SearchPath((), CachePlace(str(folder)), entry_points=False, key_of=key_of)


def request(number: int) -> Request:
    return Request("nowhere", "blur", PLACE, make_key(number), {"llvmlite": "0.50.0"})


def test_a_full_disk_is_one_warning_and_memory_only(small_disk: Path):
    search = search_in(small_disk / "cache")
    big = {"object": bytes(20_000)}
    with pytest.warns(SternaWarning, match="no space left") as caught:
        reasons = [search.save(request(n), make_image(n, payloads=big)) for n in range(12)]
    assert len(caught) == 1
    assert reasons[0] is None
    assert reasons[-1] is not None
    for number, reason in enumerate(reasons):
        assert search.find(request(number)).image == make_image(number, payloads=big)
        fresh = search_in(small_disk / "cache").find(request(number))
        assert fresh.image == (make_image(number, payloads=big) if reason is None else None)
    assert not list(small_disk.rglob(".writing-*")), "what did not fit is not left behind"


def test_a_disk_without_room_for_one_folder(small_disk: Path):
    with (small_disk / "filler").open("wb", buffering=0) as filler, pytest.raises(OSError, match="space"):
        while True:
            filler.write(bytes(4096))
    search = search_in(small_disk / "cache")
    with pytest.warns(SternaWarning) as caught:
        assert search.save(request(1), make_image(1))
        assert search.save(request(2), make_image(2))
        search.put_facts("ab12", {})
    assert len(caught) == 1
    assert search.find(request(1)).label == "memory"


def test_a_quota_is_one_warning_and_memory_only(tmp_path: Path):
    folder = tmp_path / "cache"

    def work() -> None:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        warnings.simplefilter("always")
        search = search_in(folder)
        with warnings.catch_warnings(record=True) as caught:
            assert search.save(request(1), make_image(1)) is None
            for number in (2, 3):
                assert search.save(request(number), make_image(number, payloads={"object": bytes(9000)}))
                assert search.find(request(number)).label == "memory"
        assert len(caught) == 1

    assert status_of(in_child(work)) == 0
    assert check_whole(folder, 1)
    assert Store(folder).get(PLACE, make_key(2), "blur") is None
    assert not list(tmp_path.rglob(".writing-*"))


def test_a_read_only_folder_is_read(lockable: tuple[Path, Callable[[], None]]):
    place, lock = lockable
    folder = place / "cache"
    Store(folder).put(make_image(1))
    Store(folder).put_facts("ab12", {"digest": "1"})
    bad = Path(Store(folder).put(make_image(3)).path)
    bad.write_bytes(b"junk")
    lock()
    search = search_in(folder)
    assert search.find(request(1)).label == "user cache"
    assert search.get_facts("ab12") == {"digest": "1"}
    assert not search.find(request(2))
    with pytest.warns(SternaWarning, match="memory only.*read-only|memory only.*permission") as caught:
        assert search.save(request(2), make_image(2))
        assert search.save(request(4), make_image(4))
    assert len(caught) == 1
    assert search.find(request(2)).label == "memory"
    with pytest.warns(SternaWarning, match="damaged file.*it is ignored") as caught:
        assert not search.find(request(3))
        assert not search.find(request(3))
    assert len(caught) == 1


def test_an_unreadable_folder_is_a_miss(tmp_path: Path):
    folder = tmp_path / "cache"
    Store(folder).put(make_image(1))
    folder.chmod(0)
    tmp_path.chmod(0o755)

    def work() -> None:
        if os.geteuid() == 0:
            os.chdir(tmp_path)
            os.setuid(65534)
        relative = Store("cache") if os.getcwd() == str(tmp_path) else Store(folder)
        assert relative.get(PLACE, make_key(1), "blur") is None
        assert not relative.put(make_image(1))
        assert relative.declared_versions(PLACE) == ()
        assert relative.get_facts("ab12") is None

    try:
        assert status_of(in_child(work)) == 0
    finally:
        folder.chmod(0o755)


def test_clocks_decide_nothing(tmp_path: Path):
    folder = tmp_path / "store"
    path = Path(Store(folder).put(make_image(1)).path)
    for stamp in (0, 2**33):
        os.utime(path, (stamp, stamp))
        assert check_whole(folder, 1)
        assert Store(folder).put(make_image(2))
        assert check_whole(folder, 2)
