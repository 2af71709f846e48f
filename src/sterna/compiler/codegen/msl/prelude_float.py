"""Fragments of the prelude: floats, their conversions, and functions that Metal's library lacks."""

from __future__ import annotations

__all__ = ["FLOATS"]

FLOATS: dict[str, str] = {
    "bfloat_to_float": """\
static float bfloat_to_float(ushort bits) { return as_type<float>(uint(bits) << 16); }""",
    "float_to_bfloat": """\
static ushort float_to_bfloat(float x)
{
    const uint bits = as_type<uint>(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return ushort(bits >> 16 | 64u);
    return ushort((bits + 32767u + (bits >> 16 & 1u)) >> 16);
}""",
    "double_to_float": """\
// A float64 as float32, from its bits: rounded to the nearest, ties to even.
static float double_to_float(ulong bits)
{
    const uint sign = uint(bits >> 32) & 0x80000000u;
    const int exponent = int(bits >> 52 & 0x7ffUL) - 1023;
    ulong fraction = bits & 0xfffffffffffffUL;
    if (exponent == 1024) return as_type<float>(sign | (fraction != 0 ? 0x7fc00000u : 0x7f800000u));
    if (exponent < -150) return as_type<float>(sign);
    fraction |= 1UL << 52;
    const int shift = exponent < -126 ? 29 - 126 - exponent : 29;
    const ulong rest = fraction & ((1UL << shift) - 1UL), half_way = 1UL << (shift - 1);
    ulong kept = fraction >> shift;
    if (rest > half_way || (rest == half_way && (kept & 1UL) != 0)) kept += 1UL;
    if (exponent < -126) return as_type<float>(sign | uint(kept));
    kept += ulong(exponent + 126) << 23;
    return as_type<float>(sign | (kept >= 0x7f800000UL ? 0x7f800000u : uint(kept)));
}""",
    "float_to_int": """\
// Towards zero; the least integer for what does not fit.
static int float_to_int(float x)
{
    return x >= -2147483648.0f && x < 2147483648.0f ? int(x) : (-2147483647 - 1);
}""",
    "float_to_long": """\
static long float_to_long(float x)
{
    const bool fits = x >= -9223372036854775808.0f && x < 9223372036854775808.0f;
    return fits ? long(x) : (-9223372036854775807L - 1L);
}""",
    "float_to_ulong": """\
static ulong float_to_ulong(float x)
{
    if (x >= 9223372036854775808.0f) return ulong(float_to_long(x - 9223372036854775808.0f)) ^ 0x8000000000000000UL;
    return ulong(float_to_long(x));
}""",
    "float_fmod": """\
// Exact, unlike x - y * trunc(x / y): long division of the fractions, 40 bits at a time.
static float float_fmod(float x, float y)
{
    const uint a = as_type<uint>(x) & 0x7fffffffu, b = as_type<uint>(y) & 0x7fffffffu;
    if (a >= 0x7f800000u || b > 0x7f800000u || b == 0u) return x != x ? x : y != y ? y : NAN;
    if (a < b) return x;
    int left = int(a >> 23 ? a >> 23 : 1u), power = int(b >> 23 ? b >> 23 : 1u);
    const ulong size = b >> 23 ? (b & 0x7fffffu) | 0x800000u : b;
    ulong rest = (a >> 23 ? (a & 0x7fffffu) | 0x800000u : a) % size;
    for (left -= power; left > 0 && rest != 0; left -= 40) rest = (rest << (left < 40 ? left : 40)) % size;
    if (rest == 0) return metal::copysign(0.0f, x);
    int up = int(metal::clz(uint(rest))) - 8;
    up = up < power - 1 ? up : power - 1;
    const uint bits = (uint(rest) << up) + (uint(power - 1 - up) << 23);
    return as_type<float>((as_type<uint>(x) & 0x80000000u) | bits);
}""",
    "float_floor_divide": """\
// As NumPy and CPython have it.
static float float_floor_divide(float x, float y)
{
    if (y == 0.0f) return x / y;
    const float rest = float_fmod(x, y);
    float quotient = (x - rest) / y;
    if (rest != 0.0f && (y < 0.0f) != (rest < 0.0f)) quotient -= 1.0f;
    if (quotient == 0.0f) return metal::copysign(0.0f, x / y);
    const float whole = metal::floor(quotient);
    return quotient - whole > 0.5f ? whole + 1.0f : whole;
}""",
    "float_modulo": """\
static float float_modulo(float x, float y)
{
    const float rest = float_fmod(x, y);
    if (y == 0.0f) return rest;
    if (rest == 0.0f) return metal::copysign(0.0f, y);
    return (y < 0.0f) != (rest < 0.0f) ? rest + y : rest;
}""",
    "float_sign": """\
static float float_sign(float x) { return x > 0.0f ? 1.0f : x < 0.0f ? -1.0f : x == 0.0f ? 0.0f : x; }""",
    "float_minimum": """\
// A NaN on either side wins, the left one first.
static float float_minimum(float x, float y) { return x <= y || x != x ? x : y; }""",
    "float_maximum": """\
static float float_maximum(float x, float y) { return x >= y || x != x ? x : y; }""",
    "float_ldexp": """\
static float float_ldexp(float x, long power)
{
    return metal::ldexp(x, int(power < -100000L ? -100000L : power > 100000L ? 100000L : power));
}""",
    "float_mantissa": """\
// Mantissa and exponent, from the bits; a subnormal number is scaled first.
static float float_mantissa(float x)
{
    const float size = metal::fabs(x);
    if (!(size < INFINITY) || x == 0.0f) return x;
    const uint bits = as_type<uint>(size < 1.17549435e-38f ? x * 16777216.0f : x);
    return as_type<float>((bits & 0x807fffffu) | 126u << 23);
}""",
    "float_exponent": """\
static long float_exponent(float x)
{
    const float size = metal::fabs(x);
    if (!(size < INFINITY) || x == 0.0f) return 0L;
    const bool small = size < 1.17549435e-38f;
    const uint bits = as_type<uint>(small ? x * 16777216.0f : x);
    return long(bits >> 23 & 255u) - (small ? 150L : 126L);
}""",
    "float_next": """\
// The neighbour towards another number, from the bits: they count magnitudes.
static float float_next(float x, float y)
{
    if (x != x || x == y) return x != x ? x : y;
    if (y != y) return y;
    const uint bits = as_type<uint>(x);
    if (x == 0.0f) return as_type<float>((as_type<uint>(y) & 0x80000000u) | 1u);
    return as_type<float>((x < y) != (x < 0.0f) ? bits + 1u : bits - 1u);
}""",
    "half_next": """\
static half half_next(half a, half b)
{
    const float x = float(a), y = float(b);
    if (x != x || x == y) return x != x ? a : b;
    if (y != y) return b;
    const ushort bits = as_type<ushort>(a);
    if (x == 0.0f) return as_type<half>(ushort((as_type<ushort>(b) & 0x8000u) | 1u));
    return as_type<half>(ushort((x < y) != (x < 0.0f) ? bits + 1u : bits - 1u));
}""",
    "float_hypot": """\
static float float_hypot(float x, float y)
{
    const float a = metal::fabs(x), b = metal::fabs(y);
    if (a == INFINITY || b == INFINITY) return INFINITY;
    const float big = a < b ? b : a, small = a < b ? a : b;
    if (big == 0.0f || big != big || small != small) return big == 0.0f && small == 0.0f ? 0.0f : a + b;
    const float ratio = small / big;
    return big * precise::sqrt(metal::fma(ratio, ratio, 1.0f));
}""",
    "float_log1p": """\
// Kahan's way: the error of 1 + x divides out.
static float float_log1p(float x)
{
    const float u = 1.0f + x;
    if (u == 1.0f || u == INFINITY || !(u > 0.0f)) return u == 1.0f ? x : precise::log(u);
    return precise::log(u) * (x / (u - 1.0f));
}""",
    "float_expm1": """\
static float float_expm1(float x)
{
    const float u = precise::exp(x);
    if (u == 1.0f) return x;
    if (u - 1.0f == -1.0f || u == INFINITY || u != u) return u - 1.0f;
    return (u - 1.0f) * (x / precise::log(u));
}""",
    "float_cbrt": """\
static float float_cbrt(float x)
{
    const float size = metal::fabs(x);
    if (!(size < INFINITY) || size == 0.0f) return x;
    const bool small = size < 1.17549435e-38f;
    const float scaled = small ? size * 16777216.0f : size;
    float root = precise::exp2(precise::log2(scaled) / 3.0f);
    root -= (root - scaled / (root * root)) / 3.0f;
    return metal::copysign(small ? root * 0.00390625f : root, x);
}""",
    "float_bell": """\
// exp(-x * x), with the square in two parts.
static float float_bell(float x)
{
    const float head = as_type<float>(as_type<uint>(x) & 0xfffff000u);
    return precise::exp(-head * head) * precise::exp((head - x) * (head + x));
}""",
    "float_erfc_tail": """\
// The continued fraction 7.1.14 of Abramowitz and Stegun, from its end; for x not near 0.
static float float_erfc_tail(float x)
{
    if (x > 11.0f) return 0.0f;
    float fraction = x;
    for (float n = x < 2.0f ? 100.0f : 30.0f; n > 0.0f; n -= 1.0f) fraction = x + 0.5f * n / fraction;
    return 0.5641895835477563f * float_bell(x) / fraction;
}""",
    "float_erf": """\
// Series 7.1.6 of Abramowitz and Stegun, whose terms are all positive; far out, 1 less the complement.
static float float_erf(float x)
{
    const float size = metal::fabs(x);
    if (!(size < 2.0f)) return x != x ? x : metal::copysign(1.0f - float_erfc_tail(size), x);
    float term = 1.0f, sum = 1.0f;
    for (float n = 3.0f; term > sum * 1e-9f; n += 2.0f) {
        term *= 2.0f * x * x / n;
        sum += term;
    }
    return 1.1283791670955126f * x * (float_bell(x) * sum);
}""",
    "float_erfc": """\
static float float_erfc(float x)
{
    if (x != x || x < 0.75f) return x != x ? x : 1.0f - float_erf(x);
    return float_erfc_tail(x);
}""",
    "float_remainder": """\
// IEEE: x less the multiple of y that is nearest, ties to an even one.
static float float_remainder(float x, float y)
{
    if (x != x || y != y || metal::fabs(x) == INFINITY || y == 0.0f) return x != x ? x : y != y ? y : NAN;
    const float size = metal::fabs(y);
    if (size == INFINITY) return x;
    float rest = metal::fabs(size < 1.70141183e+38f ? float_fmod(x, 2.0f * size) : x);
    if (size < 2.3509887e-38f ? rest + rest > size : rest > 0.5f * size) {
        rest -= size;
        if (size < 2.3509887e-38f ? rest + rest >= size : rest >= 0.5f * size) rest -= size;
    }
    return x < 0.0f || (x == 0.0f && as_type<uint>(x) != 0u) ? -rest : rest;
}""",
}
