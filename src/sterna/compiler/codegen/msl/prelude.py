"""Helper functions in Metal, of which a kernel's text takes in those it uses.

Each fragment stands under the name that is called; a fragment brings in the fragments whose names are in its text.
They come out in the order of these tables, so the text depends on the IR alone (I4).
"""

from __future__ import annotations

import re

from sterna.compiler.codegen.msl.prelude_complex import COMPLEX
from sterna.compiler.codegen.msl.prelude_float import FLOATS

__all__ = ["FRAME", "prelude_text"]

FRAME = """\
// What a thread knows: the launch's state, and where the thread is.
struct Frame {
    device atomic_uint *record;
    device const long *table;
    device uchar *print;
    threadgroup uchar *shared;
    long dynamic;
    long seed;
    uint3 thread_idx;
    uint3 block_idx;
    uint3 block_dim;
    uint3 grid_dim;
    long extent_x;
    long extent_y;
    long extent_z;
    uint lane;
};
"""

_INTEGERS: dict[str, str] = {
    "Wide": """\
template <typename T> struct Wide { typedef uint type; };
template <> struct Wide<long> { typedef ulong type; };
template <> struct Wide<ulong> { typedef ulong type; };""",
    "add": """\
template <typename T> static T add(T x, T y)
{
    typedef typename Wide<T>::type U;
    return T(U(x) + U(y));
}""",
    "subtract": """\
template <typename T> static T subtract(T x, T y)
{
    typedef typename Wide<T>::type U;
    return T(U(x) - U(y));
}""",
    "multiply": """\
template <typename T> static T multiply(T x, T y)
{
    typedef typename Wide<T>::type U;
    return T(U(x) * U(y));
}""",
    "negate": """\
template <typename T> static T negate(T x)
{
    typedef typename Wide<T>::type U;
    return T(U(0) - U(x));
}""",
    "absolute": """\
template <typename T> static T absolute(T x) { return x < 0 ? negate(x) : x; }""",
    "floor_divide": """\
// Floors; by zero it is 0; the least integer by -1 is itself.
template <typename T> static T floor_divide(T x, T y)
{
    if (y == 0) return T(0);
    if (T(0) > T(-1) && y == T(-1)) return negate(x);
    const T quotient = T(x / y), rest = T(x % y);
    return rest != 0 && (rest < 0) != (y < 0) ? T(quotient - 1) : quotient;
}""",
    "floor_modulo": """\
template <typename T> static T floor_modulo(T x, T y)
{
    if (y == 0 || (T(0) > T(-1) && y == T(-1))) return T(0);
    const T rest = T(x % y);
    return rest != 0 && (rest < 0) != (y < 0) ? T(rest + y) : rest;
}""",
    "shift_left": """\
// By the width or more (a negative count is that, too) it is 0.
template <typename T> static T shift_left(T x, T count)
{
    typedef typename Wide<T>::type U;
    return count < 0 || count >= T(8 * sizeof(T)) ? T(0) : T(U(x) << count);
}""",
    "shift_right": """\
template <typename T> static T shift_right(T x, T count)
{
    const bool far = count < 0 || count >= T(8 * sizeof(T));
    return far ? (x < 0 ? T(-1) : T(0)) : T(x >> count);
}""",
    "integer_power": """\
template <typename T> static T integer_power(T x, T power)
{
    typedef typename Wide<T>::type U;
    U result = power < 0 ? 0 : 1, base = U(x);
    for (T left = power < 0 ? T(0) : power; left != 0; left = T(left >> 1)) {
        if (left & 1) result *= base;
        base *= base;
    }
    return T(result);
}""",
    "multiply_high": """\
static ulong multiply_high(ulong x, ulong y)
{
    const ulong low = (x & 0xffffffffUL) * (y & 0xffffffffUL);
    const ulong first = (x >> 32) * (y & 0xffffffffUL) + (low >> 32);
    const ulong second = (x & 0xffffffffUL) * (y >> 32) + (first & 0xffffffffUL);
    return (x >> 32) * (y >> 32) + (first >> 32) + (second >> 32);
}
static long multiply_high(long x, long y)
{
    const ulong high = multiply_high(ulong(x), ulong(y));
    return long(high - (x < 0 ? ulong(y) : 0UL) - (y < 0 ? ulong(x) : 0UL));
}
static uint multiply_high(uint x, uint y) { return uint(ulong(x) * ulong(y) >> 32); }
static int multiply_high(int x, int y) { return int(long(x) * long(y) >> 32); }""",
    "count_ones": """\
static uint count_ones(uint x) { return metal::popcount(x); }
static uint count_ones(ulong x) { return metal::popcount(uint(x)) + metal::popcount(uint(x >> 32)); }""",
    "leading_zeros": """\
static uint leading_zeros(uint x) { return metal::clz(x); }
static uint leading_zeros(ulong x)
{
    return x >> 32 ? metal::clz(uint(x >> 32)) : 32u + metal::clz(uint(x));
}""",
    "first_one": """\
// Position of the lowest one, counted from 1; of zero 0.
static uint first_one(uint x) { return x ? metal::ctz(x) + 1u : 0u; }
static uint first_one(ulong x)
{
    return uint(x) ? metal::ctz(uint(x)) + 1u : x ? metal::ctz(uint(x >> 32)) + 33u : 0u;
}""",
    "bit_reversed": """\
static uint bit_reversed(uint x) { return metal::reverse_bits(x); }
static ulong bit_reversed(ulong x)
{
    return ulong(metal::reverse_bits(uint(x))) << 32 | metal::reverse_bits(uint(x >> 32));
}""",
    "range_count": """\
// Turns of range(start, stop, step).
static ulong range_count(long start, long stop, long step)
{
    if (step > 0 ? start >= stop : start <= stop) return 0UL;
    const ulong span = step > 0 ? ulong(stop) - ulong(start) : ulong(start) - ulong(stop);
    const ulong size = step > 0 ? ulong(step) : step < 0 ? 0UL - ulong(step) : 1UL;
    return (span - 1UL) / size + 1UL;
}""",
}

_MEMORY: dict[str, str] = {
    "from_start": """\
// An index counted from the start: a negative one counts from the end.
static long from_start(long index, long extent) { return index < 0 ? index + extent : index; }""",
    "slice_bound": """\
static long slice_bound(long bound, long extent, long step)
{
    if (bound < 0) bound += extent;
    const long low = step < 0 ? -1L : 0L, high = step < 0 ? extent - 1L : extent;
    return bound < low ? low : bound > high ? high : bound;
}""",
    "slice_length": """\
static long slice_length(long first, long last, long step)
{
    const long span = step < 0 ? first - last : last - first;
    const ulong size = step > 0 ? ulong(step) : step < 0 ? 0UL - ulong(step) : 1UL;
    return span <= 0 ? 0L : long((ulong(span) - 1UL) / size + 1UL);
}""",
    "gather_bytes": """\
// A number that may lie at any address, byte by byte.
template <typename P> static ulong gather_bytes(P place, uint size)
{
    ulong word = 0;
    for (uint k = 0; k < size; ++k) word |= ulong(place[k]) << (8 * k);
    return word;
}""",
    "scatter_bytes": """\
template <typename P> static void scatter_bytes(P place, uint size, ulong word)
{
    for (uint k = 0; k < size; ++k) place[k] = uchar(word >> (8 * k));
}""",
    "copy_bytes": """\
template <typename P, typename Q> static void copy_bytes(P to, Q from, uint size)
{
    for (uint k = 0; k < size; ++k) to[k] = from[k];
}
template <typename P> static void copy_bytes(P to, P from, uint size)
{
    const bool up = to <= from;  // they may overlap
    for (uint k = 0; k < size; ++k) to[up ? k : size - 1u - k] = from[up ? k : size - 1u - k];
}""",
}

_STATE: dict[str, str] = {
    "print_record": """\
// Room for one line in the print buffer, or nothing: its low word counts, its high word says that a line was dropped.
static device uchar *print_record(thread const Frame &f, uint size, uint format)
{
    device atomic_uint *reserved = (device atomic_uint *)f.print;
    const ulong capacity = *(device ulong *)(f.print + 8);
    uint start = atomic_load_explicit(reserved, memory_order_relaxed);
    do {
        if (ulong(start) + size > capacity) {
            atomic_store_explicit((device atomic_uint *)(f.print + 4), 1u, memory_order_relaxed);
            return nullptr;
        }
    } while (!atomic_compare_exchange_weak_explicit(reserved, &start, start + size, memory_order_relaxed,
                                                    memory_order_relaxed));
    device uchar *record = f.print + 16 + start;
    *(device uint *)(record + 4) = format;
    *(device ulong *)(record + 8) = ulong(f.record);
    return record;
}""",
    "print_done": """\
static void print_done(device uchar *record, uint size)
{
    atomic_store_explicit((device atomic_uint *)record, size, memory_order_relaxed);
}""",
    "vote_of_block": """\
// How many of the threads of the block that take part vote yes, and no: by two words that the block shares.
static uint2 vote_of_block(threadgroup uchar *words, bool takes_part, bool vote)
{
    threadgroup atomic_uint *yes = (threadgroup atomic_uint *)words;
    threadgroup atomic_uint *no = (threadgroup atomic_uint *)(words + 4);
    threadgroup_barrier(mem_flags::mem_device | mem_flags::mem_threadgroup);
    atomic_store_explicit(yes, 0u, memory_order_relaxed);
    atomic_store_explicit(no, 0u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    if (takes_part) atomic_fetch_add_explicit(vote ? yes : no, 1u, memory_order_relaxed);
    threadgroup_barrier(mem_flags::mem_threadgroup);
    const uint2 counts = uint2(atomic_load_explicit(yes, memory_order_relaxed),
                               atomic_load_explicit(no, memory_order_relaxed));
    threadgroup_barrier(mem_flags::mem_threadgroup);
    return counts;
}""",
}


def _atomic(name: str, kind: str, new: str, comment: str = "") -> str:
    bits = "as_type<uint>" if kind == "float" else "uint"
    back = "as_type<float>(old)" if kind == "float" else "old"
    head = f"// {comment}\n" if comment else ""
    return f"""\
{head}template <typename P> static {kind} {name}(P place, {kind} value)
{{
    uint old = atomic_load_explicit(place, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(place, &old, {bits}({new.replace("@", back)}), memory_order_relaxed,
                                                  memory_order_relaxed)) {{
    }}
    return {back};
}}"""


_ATOMICS: dict[str, str] = {
    "atomic_float_add": _atomic("atomic_float_add", "float", "@ + value", "Floats, by compare and swap of their bits."),
    "atomic_float_sub": _atomic("atomic_float_sub", "float", "@ - value"),
    "atomic_float_min": _atomic("atomic_float_min", "float", "metal::fmin(@, value)"),
    "atomic_float_max": _atomic("atomic_float_max", "float", "metal::fmax(@, value)"),
    "atomic_increment": _atomic("atomic_increment", "uint", "old >= value ? 0u : old + 1u"),
    "atomic_decrement": _atomic("atomic_decrement", "uint", "old == 0u || old > value ? value : old - 1u"),
    "atomic_swap_if": """\
// The weak exchange of Metal may fail for no reason.
template <typename P> static uint atomic_swap_if(P place, uint expected, uint value)
{
    uint old = expected;
    while (!atomic_compare_exchange_weak_explicit(place, &old, value, memory_order_relaxed, memory_order_relaxed)) {
        if (old != expected) break;
    }
    return old;
}""",
}

_FRAGMENTS: dict[str, str] = {**_INTEGERS, **_MEMORY, **FLOATS, **COMPLEX, **_STATE, **_ATOMICS}
_WORD = re.compile(r"[A-Za-z_]\w*")


def prelude_text(needed: set[str]) -> list[str]:
    """The fragments in `needed` and what they use, each followed by an empty line."""
    todo, found = sorted(needed), set[str]()
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += [word for word in _WORD.findall(_FRAGMENTS[name]) if word in _FRAGMENTS]
    return [f"{text}\n" for name, text in _FRAGMENTS.items() if name in found]
