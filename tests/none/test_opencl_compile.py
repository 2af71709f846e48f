"""The OpenCL target's compiler, with no device: SPIR-V as bytes, what is refused, what LLVM would get wrong."""

from __future__ import annotations

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import sterna
from sterna.errors import CompileError, UnsupportedError
from sterna.targets.opencl.emit import emit_spirv
from sterna.targets.opencl.expand import expand, settle
from sterna.targets.opencl.legalise import check, legalise, unfold
from sterna.targets.opencl.mathematics import builtin, mangled
from sterna.targets.opencl.renumber import SharedIdentifier, UnknownInstruction, renumbered

pytest.importorskip("llvmlite")
TARGET = "opencl-spirv64"
TABLE = np.arange(5, dtype=np.float32)
SENTINEL = object()
MAGIC = 0x07230203


@sterna.kernel
def scaled(x, out):
    i = sterna.grid(1)
    out[i] = x[i] * TABLE[i % 5] + 1


@sterna.kernel
def turned(x):
    tile = sterna.shared.array(64, np.float32)
    t, i = sterna.threadIdx.x, sterna.grid(1)
    tile[t] = x[i]
    sterna.syncthreads()
    if t < 32:
        x[i] = sterna.shfl_down_sync(0xFFFFFFFF, tile[63 - t], 1)


@sterna.kernel
def counted(bins, x):
    tile = sterna.shared.array(8, np.int32)
    t = sterna.threadIdx.x
    if t < 8:
        tile[t] = 0
    sterna.syncthreads()
    sterna.atomic.add(tile, 3, 1)
    sterna.atomic.max(tile, x[t] % 8, t)
    sterna.syncthreads()
    if t < 8:
        sterna.atomic.add(bins, t, tile[t])
    if x[t] is SENTINEL:
        bins[0] = 0


KERNELS = {
    "scaled": (scaled, ("float32[:]", "float32[:]"), 1),
    "turned": (turned, ("float32[:]",), 0),
    "counted": (counted, ("int32[:]", "int32[:]"), 0),
}


def built(name: str):
    kernel, types, over = KERNELS[name]
    return kernel.build(*types, target=TARGET, over=over)


@pytest.mark.parametrize("name", KERNELS)
def test_spirv_of_a_kernel(name, tmp_path):
    image = built(name).image
    code = image.payloads["spirv"]
    magic, version, _, bound, _ = struct.unpack_from("<5I", code)
    assert (magic, version) == (MAGIC, 0x10400)
    assert 0 < bound < len(code)
    assert image.manifest.strategy == "table"
    assert image.facts["float64"] is False
    validator = shutil.which("spirv-val")
    if validator is None:
        pytest.skip("spirv-val is not installed (Debian: spirv-tools)")
    file = tmp_path / "k.spv"
    file.write_bytes(code)
    done = subprocess.run([validator, "--target-env", "spv1.4", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_same_bytes_however_often_and_in_whatever_order():
    first = {name: built(name).image.payloads["spirv"] for name in KERNELS}
    for _ in range(4):
        for name in reversed(KERNELS):
            assert built(name).image.payloads["spirv"] == first[name]


def test_the_same_bytes_in_another_process(tmp_path):
    script = (
        "import sys, hashlib; sys.path[:0] = [sys.argv[1], sys.argv[2]]\n"
        "from none.test_opencl_compile import KERNELS, built\n"
        "print({n: hashlib.sha256(built(n).image.payloads['spirv']).hexdigest() for n in KERNELS})"
    )
    folders = [str(Path(sterna.__file__).parents[1]), str(Path(__file__).parents[1])]
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script, *folders], capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": seed, "PATH": ""},
        ).stdout
        for seed in ("1", "77")
    }  # fmt: skip
    assert len(outputs) == 1


def test_nothing_of_a_session_is_inside():
    image = built("counted").image
    code = b"".join(image.payloads.values()) + image.to_bytes()
    for value in (SENTINEL, TABLE, scaled, counted):
        assert id(value).to_bytes(8, "little") not in code
    assert TABLE.ctypes.data.to_bytes(8, "little") not in code


def factorial(n):
    return 1 if n <= 1 else n * factorial(n - 1)


def test_recursion_is_refused():
    @sterna.kernel
    def recursive(out):
        out[0] = factorial(3)

    with pytest.raises(UnsupportedError, match="recursive function on opencl: factorial calls itself") as caught:
        recursive.build("int64[:]", target=TARGET)
    place = caught.value.location
    assert caught.value.kernel == "recursive"
    assert place is not None and place.line == factorial.__code__.co_firstlineno
    assert "def factorial(n):" in str(caught.value)


def test_options_of_other_targets_are_refused_by_name():
    @sterna.kernel(cooperative=True)
    def together(out):
        out[0] = 1

    with pytest.raises(UnsupportedError, match="kernel together: a cooperative launch on opencl"):
        together.build("int64[:]", target=TARGET)

    @sterna.kernel(strategy="patch")
    def patched(out):
        out[0] = 1

    with pytest.raises(ValueError, match="'patch' is none of target opencl's; build with 'table'"):
        patched.build("int64[:]", target=TARGET)


def test_dynamic_memory_is_a_parameter():
    @sterna.kernel
    def dynamic(x):
        tile = sterna.shared.array(0, np.float32)
        tile[sterna.threadIdx.x] = x[0]
        sterna.syncthreads()
        x[0] = tile[0] + tile.size

    found = dynamic.build("float32[:]", target=TARGET)
    assert "dynamic" in found.image.facts["state"]
    assert "ptr addrspace(3) %dynamic" in found.text("llvm")


def test_a_global_under_bake_stays_in_the_table():
    from sterna.compiler.passes.kernel_state import kernel_state

    assert kernel_state is not None  # its words are extended by the target
    gain = sterna.Global(1.5)

    @sterna.kernel
    def read(out):
        out[0] = gain

    assert "table" in read.build("float64[:]", target=TARGET).image.facts["state"]


# ---- text of LLVM --------------------------------------------------------------------------------

HEAD = 'source_filename = "kernel"\ntarget triple = "spirv64-unknown-unknown"\n'


def test_bare_pointers_are_generic_and_slots_are_not():
    text = legalise(
        HEAD + "define spir_kernel void @ptr(ptr byval({ [1 x i64] }) align 8 %args) {\nentry:\n"
        "  %s1 = alloca ptr\n  %v2 = load ptr addrspace(1) , ptr %args\n  %v3 = inttoptr i64 %x to ptr\n  ret void\n}\n"
    )
    assert "@ptr(ptr byval({ [1 x i64] }) align 8 %args.f)" in text
    assert "%args = addrspacecast ptr %args.f to ptr addrspace(4)" in text
    assert "%s1.a = alloca ptr addrspace(4)\n  %s1 = addrspacecast ptr %s1.a to ptr addrspace(4)" in text
    assert "%v2 = load ptr addrspace(1) , ptr addrspace(4) %args" in text
    assert "%v3.g = inttoptr i64 %x to ptr addrspace(1)\n  %v3 = addrspacecast ptr addrspace(1) %v3.g" in text


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("%a = mul i128 %x, %y", "integer of 128 bits"),
        ("%a = add i33 %x, %y", "integer of 33 bits"),
        ("%a = atomicrmw fadd ptr addrspace(1) %p, float %x monotonic", "atomic operation"),
        ("%a = call float @llvm.canonicalize.f32(float %x)", "canonicalize"),
        ('%a = call i32 asm "mov $0, 1", "=r"()', "inline assembly"),
    ],
)
def test_what_would_end_the_process_is_refused_before(line, what):
    with pytest.raises(UnsupportedError, match=what):
        check(f"define void @k() {{\n  {line}\n}}\n")


def test_constants_become_instructions():
    text = unfold(
        "@s = internal addrspace(3) global [8 x i8] undef\n"
        "define void @k() {\nentry:\n"
        "  store i32 0, ptr addrspace(4) addrspacecast (ptr addrspace(3) getelementptr inbounds nuw (i8, "
        "ptr addrspace(3) @s, i64 4) to ptr addrspace(4)), align 4\n  ret void\n}\n"
    )
    assert "(ptr addrspace(3) getelementptr" not in text
    lines = [line.strip() for line in text.splitlines()]
    assert "%shared.0 = call ptr addrspace(3) @sterna.same(ptr addrspace(3) @s, i64 0)" in lines
    assert "%constant.0 = getelementptr inbounds nuw i8, ptr addrspace(3) %shared.0, i64 4" in lines
    assert "%constant.1 = addrspacecast ptr addrspace(3) %constant.0 to ptr addrspace(4)" in lines
    assert "store i32 0, ptr addrspace(4) %constant.1, align 4" in lines


def test_unknown_intrinsics_become_functions():
    text = expand(
        "  %a = call { i64, i1 } @llvm.sadd.with.overflow.i64(i64 %x, i64 %y)\n"
        "declare { i64, i1 } @llvm.sadd.with.overflow.i64(i64, i64)\n"
    )
    assert "call { i64, i1 } @sterna.x.sadd.with.overflow.i64(" in text
    assert "define internal { i64, i1 } @sterna.x.sadd.with.overflow.i64(i64 %x, i64 %y)" in text
    assert "declare { i64, i1 }" not in text


def test_a_bool_is_minus_one_where_that_is_meant():
    assert settle("  %a = sitofp i1 %b to double\n") == (
        "  %a = select i1 %b, double -1.000000e+00, double 0.000000e+00\n"
    )


def test_places_of_atomic_operations_are_numbers_once():
    text = settle("  %o = atomicrmw add ptr addrspace(3) %p, i32 1 monotonic, align 4\n")
    assert "%place.0 = ptrtoint ptr addrspace(3) %p to i64" in text
    assert "atomicrmw add ptr addrspace(3) %at.0, i32 1 monotonic" in text


def test_names_of_builtin_functions():
    assert mangled("get_global_id", "u32") == "_Z13get_global_idj"
    assert builtin("pow", "double") == "_Z3powdd"
    assert builtin("ldexp", "float") == "_Z5ldexpfi"


# ---- identifiers ---------------------------------------------------------------------------------


def words_of(*instructions: tuple[int, ...], bound: int = 99) -> bytes:
    body = [word for op, *rest in instructions for word in (len(rest) + 1 << 16 | op, *rest)]
    return struct.pack(f"<{5 + len(body)}I", MAGIC, 0x10400, 0, bound, 0, *body)


INT, VOID, FUNCTION_TYPE, FUNCTION, LABEL, BRANCH, RETURN, END = 21, 19, 33, 54, 248, 249, 253, 56


def test_a_label_with_the_identifier_of_a_type_is_put_right():
    code = words_of(
        (INT, 7, 32, 0), (VOID, 8), (FUNCTION_TYPE, 9, 8), (FUNCTION, 8, 40, 0, 9),
        (LABEL, 7), (BRANCH, 50), (LABEL, 50), (RETURN,), (END,),
    )  # fmt: skip
    assert renumbered(code) == words_of(
        (INT, 1, 32, 0), (VOID, 2), (FUNCTION_TYPE, 3, 2), (FUNCTION, 2, 4, 0, 3),
        (LABEL, 5), (BRANCH, 6), (LABEL, 6), (RETURN,), (END,), bound=7,
    )  # fmt: skip


@pytest.mark.parametrize("bits", [32, 64])
def test_cases_of_a_switch_are_as_wide_as_what_is_switched_on(bits):
    case = (5,) if bits == 32 else (5, 1)
    code = words_of(
        (INT, 7, bits, 0), (VOID, 8), (FUNCTION_TYPE, 9, 8), (FUNCTION, 8, 40, 0, 9),
        (LABEL, 41), (BRANCH, 50), (LABEL, 50), (245, 7, 60, 7, 41), (251, 60, 51, *case, 52),
        (LABEL, 51), (RETURN,), (LABEL, 52), (RETURN,), (END,),
    )  # fmt: skip
    assert renumbered(code) == words_of(
        (INT, 1, bits, 0), (VOID, 2), (FUNCTION_TYPE, 3, 2), (FUNCTION, 2, 4, 0, 3),
        (LABEL, 5), (BRANCH, 6), (LABEL, 6), (245, 1, 7, 1, 5), (251, 7, 8, *case, 9),
        (LABEL, 8), (RETURN,), (LABEL, 9), (RETURN,), (END,), bound=10,
    )  # fmt: skip


def test_a_module_that_ends_the_back_end_is_an_error_and_the_next_one_is_made():
    text = (
        "define spir_kernel void @k(ptr addrspace(1) %p) {\n  %x = load float, ptr addrspace(1) %p\n"
        "  %y = call float @llvm.canonicalize.f32(float %x)\n  store float %y, ptr addrspace(1) %p\n  ret void\n}\n"
    )
    with pytest.raises(CompileError, match=r"LLVM cannot make SPIR-V of this kernel: .*G_FCANONICALIZE"):
        emit_spirv(text, "spirv64-unknown-unknown", 3)
    right = text.replace("llvm.canonicalize", "llvm.fabs")
    assert emit_spirv(right, "spirv64-unknown-unknown", 3)[:4] == struct.pack("<I", MAGIC)


def test_a_helper_that_is_gone_is_started_again():
    from sterna.targets.opencl import emit

    first = built("scaled").image.payloads["spirv"]
    (helper,) = emit._helpers.values()
    helper._process.kill()
    helper._process.wait()
    assert built("scaled").image.payloads["spirv"] == first


def test_a_helper_that_cannot_start_is_an_error(monkeypatch):
    from sterna.targets.opencl import emit

    monkeypatch.setattr(emit, "_helpers", {})
    monkeypatch.setattr(emit.sys, "executable", "/no/such/python")
    with pytest.raises(CompileError, match="the process that makes SPIR-V cannot be started"):
        built("scaled")


def test_two_labels_with_one_identifier_are_noticed():
    head = (VOID, 8), (FUNCTION_TYPE, 9, 8), (FUNCTION, 8, 40, 0, 9)
    with pytest.raises(SharedIdentifier):
        renumbered(words_of(*head, (LABEL, 7), (BRANCH, 7), (LABEL, 7), (RETURN,), (END,)))


def test_an_instruction_that_is_not_known():
    with pytest.raises(UnknownInstruction):
        renumbered(words_of((VOID, 8), (FUNCTION_TYPE, 9, 8), (FUNCTION, 8, 40, 0, 9), (60000, 1)))
