"""Repairs of PTX: narrow stores of float registers, the lesser of a value and zero."""

from __future__ import annotations

import numpy as np

import sterna
from sterna.targets.cuda.repair import guard_narrow_stores

PACKED = np.dtype([("tag", np.int8), ("mass", np.float64)])


def test_only_float_registers_are_guarded():
    text = (
        "\tadd.rn.f32 \t%r8, %r7, 0f3F800000;\n\tadd.s32 \t%r9, %r1, 1;\n\tst.global.b16 \t[%rd7+2], %r8;\n"
        "\tst.global.b16 \t[%rd7+4], %r9;\n\tst.global.b32 \t[%rd7+8], %r8;\n\tst.global.v2.b8 \t[%rd7], {%r9, %r8};\n"
    )
    lines = guard_narrow_stores(text).splitlines()
    assert lines[2:7] == [
        "\t{", "\t.reg .b32 \t%bits0;", "\tmov.b32 \t%bits0, %r8;", "\tst.global.b16 \t[%rd7+2], %bits0;", "\t}",
    ]  # fmt: skip
    assert lines[7:9] == ["\tst.global.b16 \t[%rd7+4], %r9;", "\tst.global.b32 \t[%rd7+8], %r8;"]
    assert lines[-2] == "\tst.global.v2.b8 \t[%rd7], {%r9, %bits0};"


def test_a_packed_field_is_stored_by_its_bytes():
    @sterna.kernel(boundscheck=False)
    def k(p):
        i = sterna.grid(1)
        p[i].mass = float(i)

    ptx = k.build(np.zeros(4, PACKED), target="cuda-sm_90").text("ptx")
    assert ptx.count("st.global.b8") == 8
    assert "mov.b64 \t%bits0" in ptx


def test_aligned_fields_are_stored_whole():
    @sterna.kernel(boundscheck=False)
    def k(p):
        i = sterna.grid(1)
        p[i].mass = float(i)
        p["mass"][i] = p["mass"][i] * 2

    aligned = np.zeros(4, np.dtype([("tag", np.int8), ("mass", np.float64)], align=True))
    ptx = k.build(aligned, target="cuda-sm_90").text("ptx")
    assert "st.global.b64" in ptx and ".b8 \t[%" not in ptx


def test_the_lesser_of_a_value_and_zero_keeps_the_sign_of_zero():
    @sterna.kernel(boundscheck=False)
    def k(x):
        i = sterna.grid(1)
        x[i] = min(0.0, x[i]) + max(0.0, x[i])

    ptx = k.build("float64[:]", target="cuda-sm_90").text("ptx")
    assert "min.f64" not in ptx and "max.f64" not in ptx
    assert ptx.count("%beyond") in (0, 6)
