"""Loading ELF objects without LLVM: relocations, slots, outside names, protection, damage."""

from __future__ import annotations

import ctypes
import math
import random
import re
import shutil
import struct
import subprocess
import sys

import pytest

from helpers.native import X86_64, build_object
from sterna.errors import LinkError
from sterna.targets.cpu.elf import EM_AARCH64, EM_X86_64, read_object
from sterna.targets.cpu.loader import LoadedObject, host_machine, load_object
from sterna.targets.cpu.prelink import prelink

ARM = "aarch64-unknown-linux-elf"
on_x86 = pytest.mark.skipif(host_machine() != EM_X86_64, reason="runs x86-64 code")

# Constants of several widths, pointers in data, calls inside and outside, slots: every kind of reference.
EVERYTHING = """
@slot_b = externally_initialized global [2 x i64] zeroinitializer
@slot_a = externally_initialized global [1 x i64] zeroinitializer
@halves = internal constant [4 x i16] [i16 11, i16 22, i16 33, i16 44]
@bytes = internal constant [16 x i8] c"0123456789abcdef"
@vector = internal constant <4 x float> <float 1.0, float 2.0, float 3.0, float 4.0>
@pointers = internal constant [2 x ptr] [ptr @slot_a, ptr @triple]
@counter = internal global i64 40
declare double @sin(double)
define internal i64 @triple(i64 %x) noinline {
  %y = mul i64 %x, 3
  ret i64 %y
}
define void @entry(ptr %out, ptr %launch) {
  %k = load i64, ptr %launch
  %a = load i64, ptr @slot_a
  %b.p = getelementptr i64, ptr @slot_b, i64 1
  %b = load i64, ptr %b.p
  %sum = add i64 %a, %b
  %r0 = call i64 @triple(i64 %sum)
  store i64 %r0, ptr %out
  %h.p = getelementptr i16, ptr @halves, i64 %k
  %h = load i16, ptr %h.p
  %r1 = zext i16 %h to i64
  %o1 = getelementptr i64, ptr %out, i64 1
  store i64 %r1, ptr %o1
  %c.p = getelementptr i8, ptr @bytes, i64 %k
  %c = load i8, ptr %c.p
  %r2 = zext i8 %c to i64
  %o2 = getelementptr i64, ptr %out, i64 2
  store i64 %r2, ptr %o2
  %p.p = getelementptr ptr, ptr @pointers, i64 %k
  %p = load ptr, ptr %p.p
  %r3 = ptrtoint ptr %p to i64
  %o3 = getelementptr i64, ptr %out, i64 3
  store i64 %r3, ptr %o3
  %v = load <4 x float>, ptr @vector
  %o4 = getelementptr i64, ptr %out, i64 4
  store <4 x float> %v, ptr %o4, align 8
  %x = uitofp i64 %k to double
  %s = call double @sin(double %x)
  %o6 = getelementptr i64, ptr %out, i64 6
  store double %s, ptr %o6
  %n = atomicrmw add ptr @counter, i64 %k seq_cst
  %o7 = getelementptr i64, ptr %out, i64 7
  store i64 %n, ptr %o7
  ret void
}
"""


def call(loaded: LoadedObject, *arguments: object) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(loaded.entry("entry"))(*arguments)


@on_x86
@pytest.mark.parametrize("reloc", ["pic", "default"])
def test_every_reference_of_an_x86_object(reloc: str) -> None:
    try:
        loaded = load_object(build_object(EVERYTHING, X86_64, reloc))
    except LinkError as error:  # non-PIC code may need the low 2 GiB: refused, never mislinked
        assert reloc == "default" and "position-independent" in str(error)
        return
    loaded.write("slot_a", [5])
    loaded.write("slot_b", [0, 7])
    out, launch = (ctypes.c_uint64 * 8)(), (ctypes.c_uint64 * 1)(1)
    call(loaded, out, launch)
    assert out[:3] == [(5 + 7) * 3, 22, ord("1")]
    assert struct.unpack_from("=4f", out, 32) == (1.0, 2.0, 3.0, 4.0)
    assert struct.unpack_from("=d", out, 48)[0] == math.sin(1.0)
    assert out[7] == 40
    loaded.write("slot_a", [2**64 - 1])  # slots can be written again
    call(loaded, out, launch)
    assert out[0] == (7 - 1) * 3 and out[7] == 41
    launch[0] = 0
    call(loaded, out, launch)
    slot = loaded.slot("slot_a")
    assert slot is not None and out[3] == slot[0]
    loaded.unload()


@on_x86
def test_settled_distances_give_the_same_code() -> None:
    data = build_object(EVERYTHING, X86_64, "pic")
    settled = prelink(data)
    assert settled == prelink(data) and len(settled) == len(data)
    left = [kind for _, _, fixups in read_object(settled).fixups for _, kind, _, _ in fixups]
    before = [kind for _, _, fixups in read_object(data).fixups for _, kind, _, _ in fixups]
    assert set(left) <= set(before) and 0 < len(left) < len(before) - 4
    results = []
    for code in (data, settled):
        loaded = load_object(code)
        loaded.write("slot_a", [5])
        loaded.write("slot_b", [0, 7])
        out, launch = (ctypes.c_uint64 * 8)(), (ctypes.c_uint64 * 1)(1)
        call(loaded, out, launch)
        reached = out[3]  # an address of this mapping: absolute, so settled when it is loaded
        results.append((out[:3], out[4:], reached - loaded.entry("entry")))
        loaded.unload()
    assert results[0] == results[1]


@on_x86
def test_settled_distances_of_another_layout_are_refused() -> None:
    settled = bytearray(prelink(build_object(EVERYTHING, X86_64, "pic")))
    headers, count = struct.unpack_from("<Q", settled, 0x28)[0], struct.unpack_from("<H", settled, 0x3C)[0]
    placed = [k for k in range(count) if struct.unpack_from("<Q", settled, headers + 64 * k + 16)[0]]
    assert len(placed) >= 2, "constants and words have places of their own"
    for number in placed:
        moved = bytearray(settled)
        struct.pack_into("<Q", moved, headers + 64 * number + 16, 1 << 20)
        with pytest.raises(LinkError, match="laid out by another version"):
            load_object(bytes(moved))


def test_an_object_without_such_distances_is_left_alone() -> None:
    data = build_object(EVERYTHING, ARM, "pic")
    assert prelink(data) is data


def test_slots_have_the_sizes_of_the_symbol_table() -> None:
    loaded = load_object(build_object(EVERYTHING), EM_X86_64)
    slot_a, slot_b = loaded.slot("slot_a"), loaded.slot("slot_b")
    assert slot_a is not None and slot_a[1] == 8
    assert slot_b is not None and slot_b[1] == 16
    assert loaded.slot("halves") is None, "a constant is no slot"
    assert loaded.slot("counter") is None, "nor is data of the object's own"
    assert loaded.slot("absent") is None
    loaded.unload()


def test_a_wrong_slot_is_refused_and_nothing_written() -> None:
    loaded = load_object(build_object(EVERYTHING), EM_X86_64)
    for name, words in (("absent", [2]), ("slot_a", [1, 2]), ("slot_b", [2])):
        with pytest.raises(LinkError, match="slot"):
            loaded.write(name, words)
    slot = loaded.slot("slot_a")
    assert slot is not None and ctypes.c_uint64.from_address(slot[0]).value == 0
    with pytest.raises(LinkError, match="no function 'other'"):
        loaded.entry("other")
    loaded.unload()


@pytest.mark.parametrize("name", ["PyObject_Repr", "no_such_function"])
def test_names_outside_the_libraries_are_refused(name: str) -> None:
    ir = f"declare void @{name}()\ndefine void @entry(ptr %a, ptr %l) {{\n  call void @{name}()\n  ret void\n}}"
    with pytest.raises(LinkError, match=name):
        load_object(build_object(ir), EM_X86_64)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc/self/maps")
def test_no_page_is_writable_and_executable() -> None:
    loaded = load_object(build_object(EVERYTHING), EM_X86_64)
    slot = loaded.slot("slot_a")
    assert slot is not None
    access = {}
    with open("/proc/self/maps", encoding="ascii") as maps:
        for line in maps:
            found = re.match(r"([0-9a-f]+)-([0-9a-f]+) (\S{4})", line)
            assert found is not None
            for what, address in (("entry", loaded.entry("entry")), ("slot", slot[0])):
                if int(found[1], 16) <= address < int(found[2], 16):
                    access[what] = found[3]
    assert access == {"entry": "r-xp", "slot": "rw-p"}
    loaded.unload()


def test_another_machine_is_refused() -> None:
    other = ARM if host_machine() == EM_X86_64 else X86_64
    with pytest.raises(LinkError, match="the stored object is for"):
        load_object(build_object(EVERYTHING, other))


def test_every_reference_of_an_arm_object() -> None:
    """Decode the instructions of the loaded text and follow each address they form."""
    data = build_object(EVERYTHING, ARM)
    parsed = read_object(data)
    loaded = load_object(data, EM_AARCH64)
    memory = loaded._memory
    text = next(s for s in parsed.sections if s.executable and s.size)
    start = memory.address
    kinds = {kind for _, _, fixups in parsed.fixups for _, kind, _, _ in fixups}
    assert {257, 275, 277, 283, 311, 312} <= kinds
    slot_a, slot_b = loaded.slot("slot_a"), loaded.slot("slot_b")
    assert slot_a is not None and slot_b is not None
    reached = _arm_addresses(bytes(memory.view), start, text.size)
    assert {slot_a[0], slot_b[0]} <= reached["got"]
    assert loaded.entry("entry") in range(start, start + text.size)
    triple = next(s for s in parsed.symbols if parsed.name_of(s) == "triple")
    assert start + triple[4] in reached["calls"]
    libm = ctypes.cast(ctypes.CDLL(None).sin, ctypes.c_void_p).value if sys.platform != "win32" else None
    if libm is not None:
        assert reached["stubbed"], "sin is called through a stub"
    loaded.unload()


def _arm_addresses(memory: bytes, base: int, size: int) -> dict[str, set[int]]:
    """Addresses that ADRP+LDR pairs load from, targets of BL, and what stubs jump to."""
    found: dict[str, set[int]] = {"got": set(), "calls": set(), "stubbed": set()}
    pages: dict[int, int] = {}
    for at in range(0, size, 4):
        (word,) = struct.unpack_from("<I", memory, at)
        if word & 0x9F000000 == 0x90000000:  # ADRP
            pages[word & 31] = _arm_page(word, base + at)
        elif word & 0xFFC00000 == 0xF9400000 and word >> 5 & 31 in pages:  # LDR Xt, [Xn, #imm]
            address = pages[word >> 5 & 31] + (word >> 10 & 0xFFF) * 8
            if base <= address < base + len(memory) - 7:
                found["got"].add(struct.unpack_from("<Q", memory, address - base)[0])
        elif word & 0xFC000000 == 0x94000000:  # BL
            distance = (word & 0x03FFFFFF) - (1 << 26 if word & 0x02000000 else 0)
            goal = base + at + 4 * distance
            found["calls"].add(goal)
            first, second, third = struct.unpack_from("<III", memory, goal - base)
            if third == 0xD61F0220:  # BR X17: a stub
                entry = _arm_page(first, goal) + (second >> 10 & 0xFFF) * 8
                found["stubbed"].add(struct.unpack_from("<Q", memory, entry - base)[0])
    return found


def _arm_page(word: int, at: int) -> int:
    pages = (word >> 5 & 0x7FFFF) << 2 | word >> 29 & 3
    pages -= 1 << 21 if pages & 1 << 20 else 0
    return (at & ~0xFFF) + (pages << 12)


@on_x86
@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
@pytest.mark.parametrize("flags", ["-O2", "-O0", "-O2 -fno-plt", "-O1 -fcommon"])
def test_objects_of_another_compiler(tmp_path, flags: str) -> None:
    source = tmp_path / "kernel.c"
    source.write_text(
        "#include <math.h>\n#include <string.h>\n"
        "long slot[2]; static const double table[] = {1.5, 2.5}; static long hits = 7;\n"
        "static double pick(long i) { return table[i & 1]; }\n"
        "static double (*volatile chosen)(long) = pick;\n"
        "void entry(void *args, void *launch) {\n"
        "  double *out = args; out[0] = exp(1.0 + slot[1]) + chosen(slot[0]); out[1] = ++hits;\n"
        "  memset(out + 2, 0, 8 * (slot[0] + 1)); }\n"
    )
    subprocess.run(["gcc", "-fPIC", *flags.split(), "-c", "kernel.c", "-o", "kernel.o"], cwd=tmp_path, check=True)
    loaded = load_object((tmp_path / "kernel.o").read_bytes())
    loaded.write("slot", [1, 0])
    out = (ctypes.c_double * 5)(0, 0, 9, 9, 9)
    call(loaded, out, None)
    assert list(out) == [math.exp(1.0) + 2.5, 8.0, 0.0, 0.0, 9.0]
    loaded.unload()


def test_damaged_objects_are_refused_or_load_but_never_fault() -> None:
    good = build_object(EVERYTHING)
    dice = random.Random(20)
    outcomes = {"refused": 0, "loaded": 0}
    for _ in range(400):
        data = bytearray(good)
        for _ in range(dice.choice((1, 1, 2, 4))):
            data[dice.randrange(len(data))] = dice.choice((0, 255, dice.randrange(256)))
        if dice.random() < 0.2:
            del data[dice.randrange(len(data)) :]
        try:
            load_object(bytes(data), EM_X86_64).unload()
            outcomes["loaded"] += 1
        except LinkError:
            outcomes["refused"] += 1
    assert outcomes["refused"] > 50


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"MZ" + bytes(100), bytes(64)])
def test_no_object_at_all(data: bytes) -> None:
    with pytest.raises(LinkError):
        load_object(data)


def test_unknown_relocation_types_are_named() -> None:
    data = bytearray(build_object(EVERYTHING))
    parsed = read_object(bytes(data))
    offset, kind, symbol, addend = parsed.fixups[0][2][0]
    old = struct.pack("<QIIq", offset, kind, symbol, addend)
    at = data.index(old)
    data[at : at + 24] = struct.pack("<QIIq", offset, 199, symbol, addend)
    with pytest.raises(LinkError, match="type 199"):
        load_object(bytes(data), EM_X86_64)


def test_thread_local_data_is_refused() -> None:
    ir = "@x = thread_local global i64 0\ndefine void @entry(ptr %a, ptr %l) {\n  store i64 1, ptr @x\n  ret void\n}"
    with pytest.raises(LinkError):
        load_object(build_object(ir), EM_X86_64)
