"""One store: what goes in comes out, and nothing else does."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path

import pytest

from helpers.images import PLACE, make_image, make_key
from sterna.errors import SternaWarning
from sterna.image import Store
from sterna.image.notices import forget_notices
from sterna.image.store import KEEP_REFUSED, image_file_name


@pytest.fixture(autouse=True)
def _fresh_notices():
    forget_notices()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def path_of(store: Store, number: int = 1) -> Path:
    return Path(store.image_path(PLACE, make_key(number), "blur"))


def get(store: Store, number: int = 1):
    return store.get(PLACE, make_key(number), "blur")


def test_an_image_comes_back(store: Store):
    assert get(store) is None
    assert store.put(make_image())
    assert get(store) == make_image()
    assert get(store, 2) is None
    assert store.get("cpu-x86-64-v2", make_key(1), "blur") is None
    assert store.get(PLACE, make_key(1), "sharpen") is None
    assert get(Store(store.path)) == make_image()


def test_one_file_named_by_kernel_and_full_key(store: Store):
    store.put(make_image())
    files = [p.relative_to(store.path).as_posix() for p in Path(store.path).rglob("*.image")]
    assert files == [f"cpu-x86-64-v3/blur-{'0' * 63}1.image"]


@pytest.mark.parametrize(
    ("name", "readable"),
    [
        ("blur", "blur"), ("make.<locals>.blur", "make_blur"), ("<lambda>", "lambda"), ("bräunung", "br_unung"),
        ("", "kernel"), ("../../etc/passwd", "etc_passwd"), ("a" * 90, "a" * 40),
    ],
)  # fmt: skip
def test_file_names_are_plain(name: str, readable: str):
    assert image_file_name(name, "12ab") == f"{readable}-12ab.image"


def test_put_replaces(store: Store):
    store.put(make_image())
    other = make_image(payloads={"object": b"other"})
    store.put(other)
    assert get(store) == other


def damage_cases() -> dict[str, bytes]:
    good, other = make_image(1).to_bytes(), make_image(2).to_bytes()
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 16
    foreign = make_image(1, arch="x86-64-v2").to_bytes()
    return {
        "empty": b"", "half": good[: len(good) // 2], "flipped": bytes(flipped), "swapped": other,
        "other architecture": foreign, "text": b"hello\n" * 50,
    }  # fmt: skip


@pytest.mark.parametrize("case", damage_cases())
def test_a_bad_file_is_a_miss_reported_once_and_replaced(store: Store, case: str):
    store.put(make_image())
    path_of(store).write_bytes(damage_cases()[case])
    with pytest.warns(SternaWarning, match="damaged file") as caught:
        assert get(store) is None
    assert len(caught) == 1
    kept = Path(store.path, "refused", path_of(store).name)
    assert str(kept) in str(caught[0].message)
    assert kept.read_bytes() == damage_cases()[case]
    assert not path_of(store).exists()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert get(store) is None
        path_of(store).write_bytes(damage_cases()[case])  # again: no second message
        assert get(store) is None
        assert store.put(make_image())
        assert get(store) == make_image()
    assert store.counters.bad_files == 2


def test_a_store_that_is_only_read_is_left_as_it_is(store: Store):
    store.put(make_image())
    path_of(store).write_bytes(b"junk")
    reader = Store(store.path, "bundle", writable=False)
    before = sorted(map(str, Path(store.path).rglob("*")))
    with pytest.warns(SternaWarning, match="bundle"):
        assert get(reader) is None
    assert not reader.put(make_image())
    assert not reader.put_facts("ab12", {})
    assert sorted(map(str, Path(store.path).rglob("*"))) == before
    assert path_of(store).read_bytes() == b"junk"


def test_few_refused_files_are_kept(store: Store):
    with pytest.warns(SternaWarning):
        for number in range(3 * KEEP_REFUSED):
            store.put(make_image(number))
            path_of(store, number).write_bytes(b"junk")
            assert get(store, number) is None
    assert len(os.listdir(Path(store.path, "refused"))) == KEEP_REFUSED


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs on this system")
def test_odd_things_in_a_files_place(store: Store):
    store.put(make_image())
    path_of(store).unlink()
    os.mkfifo(path_of(store))
    found = store.lookup(PLACE, make_key(1), "blur")
    assert (found.image, found.reason) == (None, "cannot be read: not a regular file")
    path_of(store).unlink()
    path_of(store).symlink_to(path_of(store))
    assert "symbolic" in store.lookup(PLACE, make_key(1), "blur").reason
    assert store.put(make_image())
    assert get(store) == make_image()


def test_a_folder_in_a_files_place_fails_softly(store: Store):
    path_of(store).mkdir(parents=True)
    assert get(store) is None
    outcome = store.put(make_image())
    assert not outcome
    assert outcome.reason
    assert not list(Path(store.path).rglob(".writing-*"))


@pytest.mark.parametrize("path", ["nul\0byte", "x" * 5000])
def test_impossible_paths_fail_softly(path: str):
    store = Store("/" + path)
    assert get(store) is None
    outcome = store.put(make_image())
    assert not outcome
    assert outcome.reason
    assert store.counters.write_failures == 1


def test_unwritable_images_fail_softly(store: Store):
    outcome = store.put(make_image(facts={"x": object()}))
    assert not outcome
    assert "plain" in outcome.reason or "cannot be written" in outcome.reason


def test_a_missing_anchor_is_not_made(tmp_path: Path):
    store = Store(tmp_path / "home" / ".cache", anchor=str(tmp_path / "home"))
    outcome = store.put(make_image())
    assert not outcome
    assert "home" in outcome.reason
    assert not (tmp_path / "home").exists()
    (tmp_path / "home").mkdir()
    assert store.put(make_image())


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
def test_a_private_store_is_its_owners(tmp_path: Path):
    store = Store(tmp_path / "cache", private=True)
    store.put(make_image())
    assert os.stat(store.path).st_mode & 0o777 == 0o700


def test_version_sets_are_declared_once_each(store: Store):
    sets = [{"llvmlite": "0.50.0"}, {"llvmlite": "0.51.0", "ptx": "8.8"}]
    assert store.declared_versions(PLACE) == ()
    store.put(make_image(1), sets[0])
    assert store.declared_versions(PLACE) == (sets[0],)
    store.put(make_image(2), sets[1])
    store.put(make_image(3), dict(reversed(sets[1].items())))
    assert sorted(map(str, store.declared_versions(PLACE))) == sorted(map(str, sets))
    assert store.declared_versions("cuda-sm_90") == ()
    assert sorted(map(str, Store(store.path).declared_versions(PLACE))) == sorted(map(str, sets))


def test_versions_come_from_provenance_by_default(store: Store):
    store.put(make_image())
    assert store.declared_versions(PLACE) == ({"llvmlite": "0.50.0"},)


def test_a_damaged_version_set_is_not_tried_and_repaired(store: Store):
    store.put(make_image())
    (path,) = Path(store.path, PLACE, "versions").iterdir()
    path.write_text(json.dumps({"llvmlite": "9"}))
    assert Store(store.path).declared_versions(PLACE) == ()
    store.put(make_image())
    assert Store(store.path).declared_versions(PLACE) == ({"llvmlite": "0.50.0"},)


def test_the_store_deleted_while_running(store: Store):
    import shutil

    store.put(make_image())
    store.put_facts("ab12", {"x": 1})
    shutil.rmtree(store.path)
    assert get(store) is None
    assert store.get_facts("ab12") is None
    assert store.declared_versions(PLACE) == ()
    assert store.put(make_image())
    assert get(store) == make_image()
    assert store.declared_versions(PLACE) == ({"llvmlite": "0.50.0"},)


def test_facts_come_back(store: Store):
    facts = {"digest": "0f" * 32, "names": ["TABLE", "math.sin"], "ü": None}
    assert store.get_facts("ab12cd") is None
    assert store.put_facts("ab12cd", facts)
    assert store.get_facts("ab12cd") == facts
    assert Store(store.path).get_facts("ab12cd") == facts
    assert store.get_facts("ab12ce") is None
    text = Path(store.path, "facts", "ab", "ab12cd.json").read_bytes()
    assert json.loads(text)["entry"]["facts"] == facts


def test_odd_fingerprints_and_facts_fail_softly(store: Store):
    for fingerprint in ("", "../x", "a/b", "a\0"):
        assert store.get_facts(fingerprint) is None
        assert not store.put_facts(fingerprint, {})
    assert not store.put_facts("ab12", {"x": object()})
    assert not Path(store.path).exists()


def test_every_flipped_bit_of_facts_is_a_miss(store: Store):
    store.put_facts("ab12", {"digest": "00"})
    path = Path(store.path, "facts", "ab", "ab12.json")
    good = path.read_bytes()
    with pytest.warns(SternaWarning) as caught:
        for position in range(len(good)):
            path.write_bytes(good[:position] + bytes([good[position] ^ 1 << position % 8]) + good[position + 1 :])
            assert store.get_facts("ab12") is None
        for size in range(len(good)):
            path.write_bytes(good[:size])
            assert store.get_facts("ab12") is None
    assert len(caught) == 1
    store.put_facts("ab12", {"digest": "00"})
    assert store.get_facts("ab12") == {"digest": "00"}
    Path(store.path, "facts", "cd").mkdir()
    Path(store.path, "facts", "cd", "cd12.json").write_bytes(good)  # another function's
    with pytest.warns(SternaWarning):
        assert store.get_facts("cd12") is None


def test_why_missing_lists_what_there_is(store: Store):
    assert store.why_missing(PLACE, "blur") == "no such folder"
    store.put(make_image(1, arch="x86-64-v2"))
    store.put(make_image(2, target="cuda", arch="sm_90"))
    assert store.architectures() == ("cpu-x86-64-v2", "cuda-sm_90")
    assert store.why_missing(PLACE, "blur") == f"has nothing for {PLACE}; it holds cpu-x86-64-v2, cuda-sm_90"
    store.put(make_image(3))
    store.put(make_image(4))
    assert "holds 2 images named blur" in store.why_missing(PLACE, "blur")
    assert "none named sharpen" in store.why_missing(PLACE, "sharpen")


def test_left_overs_of_killed_writers_are_swept(store: Store):
    from sterna.image import files

    folder = path_of(store).parent
    folder.mkdir(parents=True)
    dead = folder / f".writing-{files.host_digest()}-{2**22 + 12345}-00"  # beyond the largest process id
    alive = folder / f".writing-{files.host_digest()}-{os.getpid()}-01"
    elsewhere = folder / ".writing-00000000-1-02"
    ancient = folder / ".writing-00000000-1-03"
    for path in (dead, alive, elsewhere, ancient):
        path.write_bytes(b"partial")
    os.utime(ancient, (0, 0))
    assert store.put(make_image())
    left = {p.name for p in folder.glob(".writing-*")}
    assert left == ({alive.name, elsewhere.name} if os.name == "posix" else {dead.name, alive.name, elsewhere.name})
