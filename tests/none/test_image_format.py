"""The bytes of a kernel image: canonical, complete, and refused when anything is off."""

from __future__ import annotations

import hashlib
import json
import os
import random
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.images import CODE, make_image
from sterna.digest import sha256_bytes, sha256_hex
from sterna.errors import ImageError
from sterna.image import KernelImage
from sterna.relocation.record import Manifest, RefKind, RelocationRecord

ROOT = Path(__file__).parents[2]


def file_of(header: Any, payload: bytes, version: int = 1, magic: bytes = b"\x89STERNA\n") -> bytes:
    """A file written from the documented layout alone."""
    text = header if isinstance(header, bytes) else json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    body = struct.pack("<I", len(text)) + text + payload
    return magic + struct.pack("<I", version) + hashlib.sha256(body).digest() + body


def header_of(data: bytes) -> dict[str, Any]:
    (length,) = struct.unpack_from("<I", data, 44)
    return json.loads(data[48 : 48 + length])  # type: ignore[no-any-return]


def test_bytes_are_the_documented_layout():
    record = {
        "slot": "s0", "index": 0, "kind": "type", "path": "globals:Frame", "addend": 0, "extent": 0, "words": 1,
        "type": "type",
    }  # fmt: skip
    header = {
        "key": "00ff", "name": "f.<locals>.g", "module": "m", "target": "cpu", "arch": "aarch64", "entry": "e",
        "signature": "int", "manifest": {"strategy": "table", "records": [record]}, "facts": {"b": 1, "a": [2, None]},
        "errors": [{"kind": "ValueError"}], "sources": [["", "d1"]], "provenance": {"π": "ü"},
        "payloads": [["a", 2], ["z", 3]],
    }  # fmt: skip
    image = KernelImage(
        key="00ff", name="f.<locals>.g", module="m", target="cpu", arch="aarch64", entry="e", signature="int",
        manifest=Manifest("table", (RelocationRecord("s0", 0, RefKind.TYPE, "globals:Frame", type="type"),)),
        facts={"a": [2, None], "b": 1}, errors=({"kind": "ValueError"},), sources=(("", "d1"),),
        provenance={"π": "ü"}, payloads={"z": b"zzz", "a": b"aa"},
    )  # fmt: skip
    expected = file_of(header, b"aazzz")
    assert image.to_bytes() == expected
    assert KernelImage.from_bytes(expected) == image


def test_round_trip_gives_every_field_back():
    image = make_image()
    again = KernelImage.from_bytes(image.to_bytes())
    assert again == image
    assert again.payloads["object"].startswith(CODE)
    assert again.place == "cpu-x86-64-v3"
    assert [r.kind for r in again.manifest] == [RefKind.BUFFER, RefKind.OBJECT, RefKind.GLOBAL]


@pytest.mark.parametrize(
    "changes",
    [{"payloads": {}}, {"payloads": {"object": b""}}, {"manifest": Manifest("bake")}, {"errors": (), "sources": ()}],
)
def test_round_trip_of_sparse_images(changes: dict[str, Any]):
    image = make_image(**changes)
    assert KernelImage.from_bytes(image.to_bytes()) == image


def test_order_of_dictionaries_does_not_show():
    image = make_image()
    swapped = make_image(payloads=dict(reversed(image.payloads.items())), facts={"b": 1, "a": 2})
    assert make_image(facts={"a": 2, "b": 1}).to_bytes() == swapped.to_bytes()


def test_hash_seed_does_not_show():
    code = "from helpers.images import make_image; import sys; sys.stdout.buffer.write(make_image(7).to_bytes())"
    paths = os.pathsep.join((str(ROOT / "src"), str(ROOT / "tests")))
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": seed}, capture_output=True, check=True,
        ).stdout
        for seed in ("0", "1")
    }  # fmt: skip
    assert outputs == {make_image(7).to_bytes()}


def test_canonical_form_is_what_a_store_returns():
    image = make_image(facts={"shape": (1, 2)})
    assert image.canonical() == KernelImage.from_bytes(image.to_bytes())
    assert image.canonical().facts == {"shape": [1, 2]}
    assert image.canonical().to_bytes() == image.to_bytes()


def test_one_flipped_bit_anywhere_before_the_payloads_is_refused():
    data = bytearray(make_image().to_bytes())
    (length,) = struct.unpack_from("<I", data, 44)
    for position in range(48 + length):
        data[position] ^= 1 << position % 8
        with pytest.raises(ImageError):
            KernelImage.from_bytes(bytes(data))
        data[position] ^= 1 << position % 8
    assert KernelImage.from_bytes(bytes(data)) == make_image()


def test_one_flipped_bit_in_the_payloads_is_refused():
    data = bytearray(make_image().to_bytes())
    (length,) = struct.unpack_from("<I", data, 44)
    chosen = random.Random(2).sample(range(48 + length, len(data)), 60)
    for position in (48 + length, len(data) - 1, *chosen):
        for bit in (0, 7):
            data[position] ^= 1 << bit
            with pytest.raises(ImageError, match="digest"):
                KernelImage.from_bytes(bytes(data))
            data[position] ^= 1 << bit


def test_truncated_and_extended_files_are_refused():
    data = make_image().to_bytes()
    for size in (0, 1, 7, 8, 11, 12, 43, 44, 47, 48, 49, len(data) // 2, len(data) - 1):
        with pytest.raises(ImageError):
            KernelImage.from_bytes(data[:size])
    with pytest.raises(ImageError):
        KernelImage.from_bytes(data + b"\0")


def test_reasons_are_told_apart():
    data = make_image().to_bytes()
    (length,) = struct.unpack_from("<I", data, 44)
    payload = data[48 + length :]
    with pytest.raises(ImageError, match="empty file"):
        KernelImage.from_bytes(b"")
    with pytest.raises(ImageError, match="not a kernel image"):
        KernelImage.from_bytes(file_of(header_of(data), payload, magic=b"\x89STERNA\r"))
    with pytest.raises(ImageError, match="format 2, this Sterna reads format 1"):
        KernelImage.from_bytes(file_of(header_of(data), payload, version=2))
    with pytest.raises(ImageError, match="table says"):
        KernelImage.from_bytes(file_of(header_of(data), payload[:-1]))
    long = struct.pack("<I", 1 << 31) + b"{}"
    with pytest.raises(ImageError, match="longer than the file"):
        KernelImage.from_bytes(data[:12] + hashlib.sha256(long).digest() + long)


@pytest.mark.parametrize(
    "header", [b"", b"[]", b"{}", b"null", b"1", b"{", b"\xff\xfe", b"[" * 100_000, b'{"key":' + b"9" * 5000 + b"}"]
)
def test_headers_that_are_not_ours_are_refused(header: bytes):
    with pytest.raises(ImageError):
        KernelImage.from_bytes(file_of(header, b""))


BAD_FIELDS = [
    ("key", 3), ("name", None), ("entry", ["e"]), ("arch", True), ("facts", []),
    ("errors", {}), ("errors", ["x"]), ("sources", [["a"]]), ("sources", [["a", 1]]),
    ("sources", [["a", "b", "c"]]), ("provenance", "x"), ("payloads", {}), ("payloads", [["a"]]),
    ("payloads", [["notes", -1], ["object", 2058]]), ("payloads", [["object", 1], ["notes", 2056]]),
    ("payloads", [["notes", 1], ["notes", 2056]]), ("payloads", [["notes", 1.0], ["object", 2056]]),
    ("payloads", [["notes", True], ["object", 2056]]),
    ("manifest", []), ("manifest/strategy", "guess"), ("manifest/strategy", ["patch"]),
    ("manifest/records", {}), ("manifest/records/0", []), ("manifest/records/0/slot", ""),
    ("manifest/records/0/slot", "slot_1"), ("manifest/records/0/slot", 1),
    ("manifest/records/0/kind", "pointer"), ("manifest/records/0/kind", ["type"]),
    ("manifest/records/0/words", 2), ("manifest/records/0/words", 0), ("manifest/records/0/words", -1),
    ("manifest/records/0/words", 5), ("manifest/records/0/words", True),
    ("manifest/records/1/words", 3), ("manifest/records/1/index", 2), ("manifest/records/2/index", 9),
    ("manifest/records/0/addend", -4), ("manifest/records/0/addend", 1.5),
    ("manifest/records/0/extent", "1"), ("manifest/records/0/path", None),
    ("manifest/records/0/type", 0), ("manifest/records/0/more", 1), ("extra", 1),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value"), BAD_FIELDS, ids=lambda v: str(v)[:40])
def test_well_digested_nonsense_is_refused(path: str, value: Any):
    data = make_image().to_bytes()
    header = header_of(data)
    (length,) = struct.unpack_from("<I", data, 44)
    *way, last = path.split("/")
    place: Any = header
    for step in way:
        place = place[int(step) if step.isdigit() else step]
    place[int(last) if last.isdigit() else last] = value
    with pytest.raises(ImageError):
        KernelImage.from_bytes(file_of(header, data[48 + length :]))


@pytest.mark.parametrize("missing", ["key", "manifest", "payloads", "facts"])
def test_missing_fields_are_refused(missing: str):
    header = header_of(make_image().to_bytes())
    del header[missing]
    with pytest.raises(ImageError):
        KernelImage.from_bytes(file_of(header, b""))


@pytest.mark.parametrize(
    "changes",
    [
        {"facts": {"f": {1, 2}}}, {"facts": {"nan": float("nan")}}, {"provenance": {"o": object()}},
        {"payloads": {"object": "text"}}, {"name": None}, {"manifest": Manifest("guess")},
        {"manifest": Manifest("patch", (RelocationRecord("a", 1, RefKind.TYPE, "globals:A"),))},
    ],
    ids=["set", "nan", "object", "text", "no name", "strategy", "no slot"],
)  # fmt: skip
def test_what_cannot_be_read_back_is_not_written(changes: dict[str, Any]):
    with pytest.raises(ImageError):
        make_image(**changes).to_bytes()


def test_import_is_light():
    code = (
        "import sys, types; package = types.ModuleType('sterna'); package.__path__ = [sys.argv[1]]\n"
        "sys.modules['sterna'] = package\n"
        "import sterna.image\n"
        "heavy = {'numpy', 'importlib.metadata', 'tempfile', 'shutil', 'logging', '_hashlib', 'llvmlite'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, str(ROOT / "src" / "sterna")],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"


def test_digest_is_sha256():
    assert sha256_hex(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # FIPS 180-2
    for size in (0, 1, 55, 56, 63, 64, 65, 1000):
        data = bytes(range(256)) * 4
        assert sha256_bytes(memoryview(data)[:size]) == hashlib.sha256(data[:size]).digest()
