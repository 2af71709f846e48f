"""LLVM intrinsics by name and inline assembly: what is emitted, and that a wrong one is an error, not the end."""

from __future__ import annotations

import numpy as np
import pytest

import sterna
from sterna.errors import CompileError, DeviceOnlyError, UnsupportedError
from sterna.overlays import overlays_of

HEAD = "import numpy as np\nimport sterna\n"


def kernel_with(make_module, expression: str):
    return make_module(f"{HEAD}@sterna.kernel\ndef k(o, i):\n    {expression}\n").k


@pytest.fixture
def make_module(tmp_path):
    from helpers.modules import write_module

    return lambda source: write_module(tmp_path, source)


REFUSED = {
    "unknown": ('sterna.intrinsic("llvm.foo.bar", np.int32, 1)', "no intrinsic of this name and these types"),
    "no name": ('sterna.intrinsic("foo", np.int32)', "no name of an LLVM intrinsic"),
    "another target's": (
        'sterna.intrinsic("llvm.ve.vl.lvm.mmss", np.int32)',
        "belongs to another target; this one has LLVM's common intrinsics and",
    ),
    "operands": ('sterna.intrinsic("llvm.ctpop.i32", np.int32, np.int64(1))', "incorrect argument type"),
    "all types": (
        'sterna.intrinsic("llvm.ctpop.i32", np.int64, np.int64(1))',
        r"with these types LLVM calls it llvm\.ctpop\.i64",
    ),
    "operand count": ('sterna.intrinsic("llvm.ctpop.i32", np.int32)', "(?i)intrinsic|operands"),
    "not constant": ('sterna.intrinsic("llvm.abs.i64", np.int64, i, o[0] > 0)', "(?i)immarg|immediate"),
    "name": ("sterna.intrinsic(i, np.int32)", "the intrinsic's name must be a constant string, this is Python int"),
    "result": ('sterna.intrinsic("llvm.ctpop.i32", np.complex64)', "its result type is class complex64"),
    "an array": ('sterna.intrinsic("llvm.ctpop.i32", np.int32, o)', "needs a number, this is 1-D array"),
    "complex": ('sterna.intrinsic("llvm.ctpop.i32", np.int32, 1j)', "operands of sterna.intrinsic are bools"),
    "constraints": ('sterna.inline_asm("nop", "=r,r", np.int32)', "number of input constraints"),
    "constraint": ('sterna.inline_asm("nop", "=r,zz", np.int32, i)', "(?i)constraint"),
    "flag": ('sterna.inline_asm("nop", "", None, side_effects=i)', "side_effects must be a constant"),
    "text": ('sterna.inline_asm(i, "", None)', "the assembly must be a constant string"),
    "keyword": ('sterna.inline_asm("nop", "", None, volatile=True)', "no keyword 'volatile'"),
    "too few": ('sterna.inline_asm("nop", "")', "takes at least 3 arguments"),
}


@pytest.mark.parametrize("target", ["cpu", "cuda-sm_90", "opencl"])
@pytest.mark.parametrize("case", REFUSED)
def test_what_llvm_would_not_survive_is_an_error(make_module, case, target):
    expression, message = REFUSED[case]
    if target == "opencl" and "asm" in expression:
        message += "|OpenCL has no inline assembly"
    kernel = kernel_with(make_module, expression)
    with pytest.raises(CompileError, match=message) as caught:
        kernel.build("int64[:]", "int", target=target)
    assert expression in str(caught.value)


def test_assembly_of_the_machine(make_module):
    kernel = kernel_with(make_module, 'sterna.inline_asm("no_such_instruction", "", None)')
    with pytest.raises(CompileError, match=r"invalid instruction mnemonic|asm parser"):
        kernel.build("int64[:]", "int", target="cpu")


def test_ptx(make_module):
    module = make_module(
        HEAD + "@sterna.kernel\ndef k(o, x):\n"
        '    o[0] = sterna.intrinsic("llvm.nvvm.read.ptx.sreg.clock64", np.int64)\n'
        '    sterna.inline_asm("membar.gl;", "", None)\n'
        '    o[1] = sterna.inline_asm("popc.b32 $0, $1;", "=r,r", np.int32, np.int32(o[2]), side_effects=False)\n'
        '    o[3] = sterna.intrinsic("llvm.fshl.i64", np.int64, o[2], o[3], 5)\n'
        '    x[0] = sterna.intrinsic("llvm.nvvm.ex2.approx.ftz.f32", np.float32, x[1])\n'
    )
    found = module.k.build("int64[:]", "float32[:]", target="cuda-sm_90")
    ptx = found.text("ptx")
    for text in ("%clock64", "membar.gl;", "popc.b32 ", "ex2.approx.ftz.f32"):
        assert text in ptx
    assert "inline.llvm<'llvm.fshl.i64'>" in found.ir
    assert found.image.payloads["cubin"]


def test_a_target_without_llvm():
    from helpers.frontend import build

    class Elsewhere:
        def __init__(self, target):
            self.name, self.arch, self.limits, self.unsupported_types = target.name, target.arch, target.limits, ()

        def compiler(self):
            return object()

    def kernel(o):
        o[0] = sterna.intrinsic("llvm.ctpop.i64", np.int64, 3)

    from helpers.frontend import TOY
    from sterna.types import INT32, ArrayType

    with pytest.raises(UnsupportedError, match=r"sterna\.intrinsic needs a target whose code LLVM makes"):
        build(kernel, ArrayType(INT32, 1), target=Elsewhere(TOY))


def test_on_the_host_and_in_the_interpreter():
    with pytest.raises(DeviceOnlyError, match=r"intrinsic\(\) runs on the device only"):
        sterna.intrinsic("llvm.ctpop.i32", np.int32, 1)

    @sterna.kernel
    def k(o):
        o[0] = sterna.intrinsic("llvm.ctpop.i32", np.int32, 1)

    with pytest.raises(UnsupportedError, match=r"the interpreter runs no instruction of a target \(llvm.ctpop.i32\)"):
        sterna.interpret(k)[1, 1](np.zeros(1))
    assert len(overlays_of(sterna.intrinsic)) == 1


def test_assembly_that_can_stand_only_once(make_module):
    """The compiler copies code: a loop over threads exists twice, and is unrolled."""
    once = 'o[i] = sterna.inline_asm("twice: movq $1, $0", "=r,r", np.int64, np.int64(i))'
    with pytest.raises(CompileError, match=r"symbol 'twice' is already defined .*names of its own end in \${:uid}"):
        kernel_with(make_module, once).build("int64[:]", "int", target="cpu")
    often = once.replace("twice:", ".Ltwice${:uid}:")
    assert kernel_with(make_module, often).build("int64[:]", "int", target="cpu")


def test_registers_that_run_out_in_a_kernel():
    """What assembly does to the code around it is found out in a process that LLVM may end."""
    from sterna.compiler.codegen.llvm.inline import has_assembly, object_apart
    from sterna.targets.cpu.compiler import _profile

    inputs = ", ".join(f"i64 %p{k}" for k in range(15))
    call = f'call void asm sideeffect "", "{",".join("r" * 15)}"({inputs})'
    text = 'target triple = "x86_64-unknown-linux-gnu"\n' + "define void @f(%s) %s {\n  %s\n  ret void\n}\n"
    profile = _profile("x86-64-v3")
    assert has_assembly(text % (inputs, "", call))
    assert object_apart(profile, 2, text % (inputs, "", call))[:4] == b"\x7fELF"
    with pytest.raises(CompileError, match="more registers than available"):
        object_apart(profile, 2, text % (inputs, '"frame-pointer"="all"', call))
