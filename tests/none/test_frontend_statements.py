"""Statements and expressions as IR, worked out by hand."""

from __future__ import annotations

import numpy as np

from helpers.frontend import body_of, build
from sterna.language import atomic, grid, inbounds, shared, syncthreads, threadIdx
from sterna.types import BOOL, FLOAT32, FLOAT64, INT32, PYINT, ArrayType

F1 = ArrayType(FLOAT32, 1)
I1 = ArrayType(INT32, 1)


def test_literals_take_the_array_type() -> None:
    def k(x, y):
        i = grid(1)
        y[i] = x[i] * 2.0 + 1

    assert body_of(k, F1, F1) == [
        "i = grid_index.0<1>()",
        "y[i] = ((x[i] * float32(2.0)) + float32(1.0))",
    ]


def test_a_variable_has_the_type_of_the_moment() -> None:
    def k(x, y):
        v = 7
        y[0] = v // 2
        v = x[0]
        y[1] = v

    assert body_of(k, F1, F1) == ["v = 7", "y[0] = float32(3.0)", "v.2 = x[0]", "y[1] = v.2"]


def test_a_join_moves_both_sides_into_one_home() -> None:
    def k(x, n):
        v = 1
        if n > 0:
            v = x[0]
        x[1] = v

    assert body_of(k, F1, PYINT) == [
        "v = 1",
        "if (n > 0):",
        "v.2 = x[0]",
        "else:",
        "v.2 = float32(1.0)",
        "x[1] = v.2",
    ]


def test_an_accumulator_widens_at_the_loop_head() -> None:
    def k(x, n):
        total = 0
        for j in range(n):
            total += x[j]
        x[0] = total

    assert body_of(k, F1, PYINT) == [
        "total = 0",
        "total.2 = float32(0.0)",
        "for j in range(0, n, 1):",
        "total.2 = (total.2 + x[j])",
        "x[0] = total.2",
    ]


def test_nested_widening_settles() -> None:
    def k(x, n):
        a = b = 0
        for i in range(n):
            for j in range(i):
                b = a
                a = b + x[j]
        x[0] = b

    module = build(k, F1, PYINT)
    assert {str(t) for name, t in module.functions[module.entry].locals.items() if name.startswith("b")} == {
        "int", "float32",
    }  # fmt: skip


def test_for_else_needs_a_flag_only_with_a_break() -> None:
    def k(x, n):
        for j in range(n):
            if x[j] > 2:
                break
        else:
            x[0] = 1

    assert body_of(k, F1, PYINT) == [
        ".1 = False",
        "for j in range(0, n, 1):",
        "if (x[j] > float32(2.0)):",
        ".1 = True",
        "break",
        "if not .1:",
        "x[0] = float32(1.0)",
    ]

    def no_break(x, n):
        for j in range(n):
            x[j] = 0
        else:
            x[0] = 1

    assert body_of(no_break, F1, PYINT) == [
        "for j in range(0, n, 1):", "x[j] = float32(0.0)", "x[0] = float32(1.0)",
    ]  # fmt: skip


def test_continue_in_the_else_of_an_inner_loop() -> None:
    def k(x, n):
        while n < 9:
            n += 1
            for j in range(n):
                if j == 3:
                    break
            else:
                continue
            break
        x[0] = n

    assert body_of(k, F1, PYINT) == [
        "while (n < 9):",
        "n = (n + 1)",
        ".1 = False",
        "for j in range(0, n, 1):",
        "if (j == 3):",
        ".1 = True",
        "break",
        "if not .1:",
        "continue",
        "break",
        "x[0] = float32(n)",
    ]


def test_a_loop_over_a_tuple_is_unrolled_with_each_items_type() -> None:
    def k(x):
        for v in (1, 2.5):
            x[0] = v / 2

    assert body_of(k, F1) == ["v = 1", "x[0] = float32(0.5)", "v.2 = 2.5", "x[0] = float32(1.25)"]


def test_a_maybe_unbound_name_is_checked() -> None:
    def k(x, n):
        if n > 0:
            v = n
        x[0] = v

    module = build(k, F1, PYINT, boundscheck=False)
    assert [e.exception for e in module.errors] == ["UnboundLocalError"]
    assert body_of(k, F1, PYINT) == [
        "v? = False", "if (n > 0):", "v = n", "v? = True", "if not v?:", "raise error 0", "x[0] = float32(v)",
    ]  # fmt: skip


def test_a_temporary_of_a_loop_costs_nothing() -> None:
    def k(x, n):
        for j in range(n):
            t = x[j] * 2
            x[j] = t

    assert body_of(k, F1, PYINT) == [
        "for j in range(0, n, 1):", "t = (x[j] * float32(2.0))", "x[j] = t",
    ]  # fmt: skip


def test_division_by_zero_raises_for_python_numbers_only() -> None:
    def k(x, n, s):
        x[0] = 7 // n
        x[1] = s // s
        x[2] = 7 // 2
        x[3] = n % 3

    module = build(k, F1, PYINT, INT32, boundscheck=False)
    assert [e.exception for e in module.errors] == ["ZeroDivisionError"]


def test_short_circuit_keeps_checks_in_their_branch() -> None:
    def k(x, n):
        if n != 0 and 7 // n > 2:
            x[0] = 1

    assert body_of(k, F1, PYINT) == [
        "if (n != 0):",
        ".1 = n",
        "if (.1 == 0):",
        "raise error 0",
        ".2 = ((7 // .1) > 2)",
        "else:",
        ".2 = False",
        "if .2:",
        "x[0] = float32(1.0)",
    ]


def test_operands_before_a_check_are_evaluated_before_it() -> None:
    def k(x, n):
        x[0] = x[1] + 7 // n

    assert body_of(k, F1, PYINT) == [
        ".2 = x[1]",
        ".1 = n",
        "if (.1 == 0):",
        "raise error 0",
        "x[0] = (.2 + float32((7 // .1)))",
    ]


def test_a_walrus_does_not_change_an_operand_before_it() -> None:
    def k(x, n):
        x[0] = n + (n := n + 1)

    assert body_of(k, F1, PYINT) == [".1 = n", "n = (n + 1)", "x[0] = float32((.1 + n))"]


def test_swapping_reads_before_it_writes() -> None:
    def k(x, a, b):
        a, b = b, a
        x[0] = a - b

    assert body_of(k, F1, PYINT, PYINT) == [".1 = b", ".2 = a", "a = .1", "b = .2", "x[0] = float32((a - b))"]


def test_unpacking_without_overlap_needs_no_copies() -> None:
    def k(x):
        i, j = grid(2)
        x[i] = j

    assert body_of(k, F1) == ["i = grid_index.0<2>()", "j = grid_index.1<2>()", "x[i] = float32(j)"]


def test_augmented_targets_are_evaluated_once() -> None:
    def k(x, n):
        x[n + 1] += 2

    assert body_of(k, F1, PYINT) == [".1 = (n + 1)", "x[.1] = (x[.1] + float32(2.0))"]


def test_python_bools_count_as_ints_and_numpy_bools_as_truth_values() -> None:
    def k(x, n):
        x[0] = (n > 1) + (n > 2)
        x[1] = (x[2] > 1) + (x[3] > 2)

    assert body_of(k, F1, PYINT) == [
        "x[0] = float32((int((n > 1)) + int((n > 2))))",
        "x[1] = float32(((x[2] > float32(1.0)) | (x[3] > float32(2.0))))",
    ]


def test_integers_compare_by_value() -> None:
    def k(x, s, u, n):
        x[0] = s < u
        x[1] = u < 300
        x[2] = u == n

    module = build(k, F1, INT32, ArrayType(INT32, 1).dtype, PYINT)
    assert module.functions[module.entry].returns is not None
    assert body_of(k, F1, INT32, BOOL, PYINT)[1] == "x[1] = float32((int64(u) < int64(300)))"


def test_dead_branches_are_not_typed() -> None:
    debug = False

    def k(x, y):
        if debug:
            x[0] = x.nonsense
        if y is None:
            x[0] = 1
        else:
            x[0] = y + 1
        if isinstance(x[0], np.float32) and x.dtype == np.float32 and x.ndim == 1:
            x[1] = 2
        else:
            x[1] = "no"

    from sterna.types import NONE

    assert body_of(k, F1, NONE) == ["x[0] = float32(1.0)", "x[1] = float32(2.0)"]


def test_inbounds_leaves_out_checks() -> None:
    def k(x, n):
        x[n] = 1
        with inbounds():
            x[n] = 2
        x[n] = 3

    assert [line.startswith("x[n ?") for line in body_of(k, F1, PYINT, boundscheck=True)] == [True, False, True]


def test_shared_memory_barriers_and_atomics() -> None:
    def k(x):
        tile = shared.array((4, 8), np.float32)
        tile[threadIdx.y, threadIdx.x] = x[0]
        syncthreads()
        atomic.add(x, 0, tile[1, 2])

    assert body_of(k, F1)[1:] == [
        "shared test_shared_memory_barriers_and_atomics_locals_k.shared0[4, 8]: array(float32, 2, C, shared)"
        "[thread_idx.y(), thread_idx.x()] = x[0]",
        "syncthreads()",
        "atomic.add(x[0], shared test_shared_memory_barriers_and_atomics_locals_k.shared0[4, 8]: "
        "array(float32, 2, C, shared)[1, 2])",
    ]


def test_messages_hold_text_and_integers() -> None:
    def k(x, n):
        assert n > 0, f"n is {n}, not {{positive}}"
        if n > 5:
            raise ValueError("too {big}")
        raise KeyError

    module = build(k, F1, PYINT)
    assert [(e.exception, e.message) for e in module.errors] == [
        ("AssertionError", "n is {0}, not {{positive}}"),
        ("ValueError", "too {{big}}"),
        ("KeyError", ""),
    ]
    assert [e.site.statement for e in module.errors] == [0, 2, 3]


def test_views_keep_the_layout_where_they_can() -> None:
    def k(x, n):
        a = x[n]
        b = x[1:]
        c = x[:, 1]
        d = x[::2]
        e = x.T
        a[0] = b[0, 0] + c[0] + d[0, 0] + e[0, 0]

    module = build(k, ArrayType(FLOAT64, 2), PYINT)
    layouts = {name: t.layout for name, t in module.functions[module.entry].locals.items() if name in "abcde"}
    assert layouts == {"a": "C", "b": "C", "c": "A", "d": "A", "e": "F"}


def test_print_parts_are_merged() -> None:
    def k(x, n):
        print("n is", n, sep=" ", end="!\n")

    assert body_of(k, F1, PYINT) == ["print 'n is ', n end '!\\n'"]


def test_weak_floats_stay_weak_through_calls_of_math() -> None:
    import math

    def k(x, n):
        x[0] = math.sqrt(x[1]) * math.sqrt(n)

    assert body_of(k, F1, PYINT) == ["x[0] = (math.sqrt(x[1]): float32 * float32(math.sqrt(float(n)): float))"]


def test_indices_known_not_to_be_negative_are_marked() -> None:
    def k(x, n):
        i = grid(1)
        x[i] = x[0]
        for j in range(n):
            x[j] = x[j - 1]
        for j in range(n - 1, -1, -1):
            x[j % 4] = x[n]
        i += threadIdx.x * 2
        x[i] = 1
        while n > 0:
            x[i] = 2
            i += 32
            n -= 1
            x[n] = 3

    assert [line for line in body_of(k, F1, PYINT, marks=True) if line.startswith("x[")] == [
        "x[i +] = x[0 +]",
        "x[j +] = x[(j - 1)]",
        "x[(j % 4) +] = x[n]",
        "x[i +] = float32(1.0)",
        "x[i +] = float32(2.0)",
        "x[n] = float32(3.0)",
    ]
