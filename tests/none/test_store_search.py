"""The search path: which places, in which order, under which versions; and where a new image goes."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import sterna.image.places as places
from helpers.images import PLACE, make_image
from sterna.errors import BundleError, SternaWarning
from sterna.image import Request, SearchPath, Store, default_search_path, register_store, unregister_store
from sterna.image.notices import forget_notices
from sterna.image.places import CachePlace, bundle_folder, entry_point_folders, user_cache

NEW, OLD = {"llvmlite": "0.51.0"}, {"llvmlite": "0.50.0"}


def key_of(base: str, versions: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps([base, versions], sort_keys=True).encode()).hexdigest()


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch):
    forget_notices()
    for name in ("STERNA_CACHE", "STERNA_CACHE_DIR", "STERNA_STORE_PATH", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)


def request(base: str = "b0", versions: Mapping[str, str] | None = NEW, module: str = "nowhere") -> Request:
    return Request(module, "blur", PLACE, base, versions)


def image_for(base: str, versions: Mapping[str, str], text: bytes = b"code"):
    return make_image(key=key_of(base, versions), provenance={"versions": dict(versions)}, payloads={"object": text})


def path_with(tmp_path: Path, *registered: Path, **options: Any) -> SearchPath:
    cache = CachePlace(str(tmp_path / "cache"))
    given = {"entry_points": False, "key_of": key_of, **options}
    return SearchPath(tuple(map(str, registered)), cache, **given)


@pytest.fixture
def package(tmp_path: Path) -> Iterator[Path]:
    """A package `darkroom_pkg` with a module `kernels`, loaded."""
    folder = tmp_path / "darkroom_pkg"
    folder.mkdir()
    module, inner = ModuleType("darkroom_pkg"), ModuleType("darkroom_pkg.kernels")
    module.__file__, module.__path__ = str(folder / "__init__.py"), [str(folder)]
    inner.__file__ = str(folder / "kernels.py")
    sys.modules.update({"darkroom_pkg": module, "darkroom_pkg.kernels": inner})
    yield folder
    del sys.modules["darkroom_pkg"], sys.modules["darkroom_pkg.kernels"]


# ---- finding and saving ----------------------------------------------------------------------------


def test_saved_then_found_in_memory_and_on_disk(tmp_path: Path):
    search = path_with(tmp_path)
    missed = search.find(request())
    assert not missed
    assert missed.key == key_of("b0", NEW)
    image = image_for("b0", NEW)
    assert search.save(request(), image) is None
    found = search.find(request())
    assert (found.image, found.label) == (image, "memory")
    search.forget()
    found = search.find(request())
    assert (found.image, found.label) == (image, "user cache")
    assert Path(found.path).is_file()
    assert path_with(tmp_path).find(request()).image == image
    assert not search.find(request("b1"))
    assert search.counters.as_dict() == {
        "hits": {"memory": 1, "user cache": 1}, "misses": 2, "bad_files": 0, "writes": 1, "write_failures": 0,
        "facts_hits": 0, "facts_misses": 0,
    }  # fmt: skip


def test_order_of_places(tmp_path: Path, package: Path):
    first, second = tmp_path / "first", tmp_path / "second"
    bundle = package / "__sterna__"
    search = path_with(tmp_path, first, second)
    ask = request(module="darkroom_pkg.kernels")
    for folder, label in (
        (tmp_path / "cache", "user cache"),
        (second, "registered"),
        (first, "registered"),
        (bundle, "bundle"),
    ):
        Store(folder).put(image_for("b0", NEW, str(folder).encode()))
        search.forget()
        found = search.find(ask)
        assert found.label == label
        assert found.image is not None
        assert found.image.payloads["object"] == str(folder).encode()
    search.forget()
    assert search.find(request(module="elsewhere")).label == "registered"
    assert path_with(tmp_path, bundles=False).find(ask).label == "user cache"


def test_shipped_stores_are_found_without_a_compiler_and_under_other_versions(tmp_path: Path):
    shipped = tmp_path / "shipped"
    Store(shipped).put(image_for("b0", OLD))
    for versions in (None, NEW, OLD):
        assert path_with(tmp_path, shipped).find(request(versions=versions)).label == "registered"


def test_own_versions_come_first(tmp_path: Path):
    shipped = tmp_path / "shipped"
    for versions in (OLD, NEW, {"llvmlite": "0.52"}):
        Store(shipped).put(image_for("b0", versions, json.dumps(versions).encode()))
    found = path_with(tmp_path, shipped).find(request(versions=NEW)).image
    assert found is not None
    assert found.payloads["object"] == json.dumps(NEW).encode()


def test_the_users_cache_is_asked_for_this_environments_versions_only(tmp_path: Path):
    Store(tmp_path / "cache").put(image_for("b0", OLD))
    assert not path_with(tmp_path).find(request(versions=NEW))
    assert path_with(tmp_path).find(request(versions=OLD))
    assert path_with(tmp_path).find(request(versions=None))  # no compiler: nothing better can be had


def test_a_bad_bundle_is_passed_over(tmp_path: Path):
    shipped = tmp_path / "shipped"
    outcome = Store(shipped).put(image_for("b0", NEW))
    Path(outcome.path).write_bytes(b"junk")
    search = path_with(tmp_path, shipped)
    with pytest.warns(SternaWarning, match="registered"):
        missed = search.find(request())
    assert "refused: not a kernel image" in missed.explain()
    search.save(request(), image_for("b0", NEW))
    search.forget()
    assert search.find(request()).label == "user cache"


def test_explain_lists_what_was_found_and_where(tmp_path: Path):
    shipped = tmp_path / "shipped"
    Store(shipped).put(make_image(5, target="cuda", arch="sm_90"))
    text = path_with(tmp_path, shipped).find(request()).explain()
    assert text.splitlines() == [
        f"registered {shipped}: has nothing for {PLACE}; it holds cuda-sm_90",
        f"user cache {tmp_path / 'cache'}: no such folder",
    ]
    assert SearchPath((), entry_points=False, key_of=key_of).find(request()).explain() != ""


def test_keys_are_kernel_keys_by_default(tmp_path: Path):
    from sterna.image.key import kernel_key

    outcome = SearchPath((), CachePlace(str(tmp_path)), entry_points=False).find(request())
    assert outcome.key == kernel_key("b0", NEW)
    assert SearchPath((), entry_points=False).find(request(versions=None)).key == ""


def test_memory_only_images(tmp_path: Path):
    search = path_with(tmp_path)
    search.remember(request(), image_for("b0", NEW))
    assert search.find(request()).label == "memory"
    assert not (tmp_path / "cache").exists()


def test_memory_is_bounded(tmp_path: Path):
    search = path_with(tmp_path)
    for number in range(600):
        search.remember(request(f"b{number}"), image_for("b0", NEW))
    assert not search.find(request("b0"))
    assert search.find(request("b599"))


def test_facts_come_from_bundles_and_cache(tmp_path: Path, package: Path):
    search = path_with(tmp_path)
    assert search.get_facts("aa01", "darkroom_pkg.kernels") is None
    Store(package / "__sterna__").put_facts("aa01", {"digest": "1"})
    assert search.get_facts("aa01", "darkroom_pkg.kernels") == {"digest": "1"}
    assert search.get_facts("aa01") == {"digest": "1"}  # a bundle met before
    assert path_with(tmp_path).get_facts("aa01") is None
    search.put_facts("aa02", {"digest": "2"})
    assert path_with(tmp_path).get_facts("aa02") == {"digest": "2"}


# ---- the user's cache ------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="the XDG custom")
def test_where_the_users_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert user_cache() == CachePlace(str(tmp_path / ".cache" / "sterna"), str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert user_cache().path == str(tmp_path / ".cache" / "sterna")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert user_cache() == CachePlace("/x/sterna")
    monkeypatch.setenv("STERNA_CACHE_DIR", "/y")
    assert user_cache() == CachePlace("/y")
    monkeypatch.setenv("STERNA_CACHE", "0")
    assert user_cache().disabled


@pytest.mark.skipif(sys.platform == "win32", reason="HOME is not used on Windows")
@pytest.mark.parametrize("home", [None, "missing", "file", "relative"])
def test_no_usable_home_is_one_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, home: str | None):
    (tmp_path / "file").write_text("a file in place of the folder")
    if home is None:
        monkeypatch.delenv("HOME")
    else:
        monkeypatch.setenv("HOME", home if home == "relative" else str(tmp_path / home))
    search = SearchPath((), user_cache(), entry_points=False, key_of=key_of)
    assert not search.find(request())
    with pytest.warns(SternaWarning, match=r"memory only.*STERNA_CACHE_DIR") as caught:
        for number in range(3):
            assert search.save(request(f"b{number}"), image_for(f"b{number}", NEW))
            assert search.find(request(f"b{number}")).label == "memory"
            search.put_facts(f"aa{number}", {})
    assert len(caught) == 1
    assert sorted(os.listdir(tmp_path)) == ["file"]


def test_switched_off_without_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("STERNA_CACHE", "0")
    monkeypatch.setenv("STERNA_CACHE_DIR", str(tmp_path))
    search = SearchPath((), user_cache(), entry_points=False, key_of=key_of)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert "STERNA_CACHE" in str(search.save(request(), image_for("b0", NEW)))
    assert search.find(request()).label == "memory"
    assert os.listdir(tmp_path) == []


def test_a_file_in_place_of_the_cache_folder(tmp_path: Path):
    (tmp_path / "cache").write_text("not a folder")
    search = path_with(tmp_path)
    assert not search.find(request())
    with pytest.warns(SternaWarning, match="a file is in the place") as caught:
        search.save(request(), image_for("b0", NEW))
        search.save(request("b1"), image_for("b1", NEW))
    assert len(caught) == 1
    assert (tmp_path / "cache").read_text() == "not a folder"


# ---- bundles, registered folders, entry points -----------------------------------------------------


def test_bundle_of_a_package(package: Path):
    assert bundle_folder("darkroom_pkg.kernels") == str(package / "__sterna__")
    assert bundle_folder("darkroom_pkg") == str(package / "__sterna__")


def test_bundle_of_a_single_file_and_of_namespace_modules(monkeypatch: pytest.MonkeyPatch):
    def module(name: str, file: str | None, is_package: bool = False) -> None:
        made = ModuleType(name)
        if file:
            made.__file__ = file
        if is_package:
            made.__path__ = []
        monkeypatch.setitem(sys.modules, name, made)

    module("single_file", "/p/single_file.py")
    module("space", None, is_package=True)
    module("space.leaf", "/n/space/leaf.py")
    module("space.pkg", "/n/space/pkg/__init__.py", is_package=True)
    module("space.pkg.deep", "/n/space/pkg/deep.py")
    module("no_file", None)
    assert bundle_folder("single_file") == os.path.abspath("/p/__sterna__")
    assert bundle_folder("space.leaf") == os.path.abspath("/n/space/__sterna__")
    assert bundle_folder("space.pkg.deep") == os.path.abspath("/n/space/pkg/__sterna__")
    assert bundle_folder("no_file") == ""
    assert bundle_folder("<exec>") == ""
    assert bundle_folder("") == ""


def test_bundle_of_main(monkeypatch: pytest.MonkeyPatch, package: Path):
    from importlib.machinery import ModuleSpec

    main = ModuleType("__main__")
    main.__file__ = "/scripts/run.py"
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert bundle_folder("__main__") == os.path.abspath("/scripts/__sterna__")
    main.__spec__ = ModuleSpec("darkroom_pkg.kernels", None)
    assert bundle_folder("__main__") == str(package / "__sterna__")
    main.__spec__ = ModuleSpec("darkroom_pkg.__main__", None)
    assert bundle_folder("__main__") == str(package / "__sterna__")
    main.__spec__ = ModuleSpec("run", None)
    assert bundle_folder("__main__") == os.path.abspath("/scripts/__sterna__")


def test_registered_and_environment_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    monkeypatch.setenv("STERNA_CACHE", "0")
    monkeypatch.setenv("STERNA_STORE_PATH", os.pathsep.join((str(two), "", str(tmp_path / "absent"))))
    before = default_search_path()
    assert before is default_search_path()
    register_store(one)
    register_store(one)
    try:
        after = default_search_path()
        assert after is not before
        assert [s.path for s in after.stores()][:3] == [str(one), str(two), str(tmp_path / "absent")]
        assert [s.label for s in after.stores()][:3] == ["registered"] * 3
    finally:
        unregister_store(one)
    assert default_search_path().stores()[0].path == str(two)


def test_registering_what_is_no_folder(tmp_path: Path):
    (tmp_path / "file").write_text("")
    for name in ("absent", "file"):
        with pytest.raises(BundleError, match="not a folder"):
            register_store(tmp_path / name)


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed distribution with entry points into a package that must not be imported."""
    site = tmp_path / "site"
    (site / "sunlight" / "kernels").mkdir(parents=True)
    (site / "sunlight" / "__init__.py").write_text("raise RuntimeError('imported')")
    info = site / "sunlight-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sunlight\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[sterna.stores]\na = sunlight.kernels\nb = sunlight\nc = not_installed_anywhere\nd = sunlight.absent\n"
    )
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setattr("sterna.distributions._listings", {})
    return site


def test_entry_points_are_read_as_data(distribution: Path, tmp_path: Path):
    kernels, bundle = distribution / "sunlight" / "kernels", distribution / "sunlight" / "__sterna__"
    found = [pair for pair in entry_point_folders() if pair[1].startswith(str(tmp_path))]
    assert found == [("a", str(kernels)), ("b", str(distribution / "sunlight"))]
    Store(bundle).put(image_for("b0", OLD))
    assert ("b", str(bundle)) in entry_point_folders()
    search = path_with(tmp_path, entry_points=True)
    found_image = search.find(request())
    assert (found_image.label, Path(found_image.path).parents[1]) == ("entry point", bundle)
    assert "sunlight" not in sys.modules
    Store(bundle).put_facts("aa07", {"digest": "7"})
    assert path_with(tmp_path, entry_points=True).get_facts("aa07") is None
    assert path_with(tmp_path, entry_points=True).get_facts("aa07", entry_points=True) == {"digest": "7"}


def test_entry_points_are_asked_last(distribution: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def refuse() -> Any:
        raise AssertionError("metadata was read though a cheaper place had the image")

    search = path_with(tmp_path, entry_points=True)
    Store(tmp_path / "cache").put(image_for("b0", NEW))
    monkeypatch.setattr(places, "entry_point_folders", refuse)
    monkeypatch.setattr("sterna.image.search.entry_point_folders", refuse)
    assert search.find(request()).label == "user cache"
    with pytest.raises(AssertionError):
        search.find(request("b1"))
