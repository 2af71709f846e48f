"""Fragments of the prelude: complex numbers, as ``float2``; the formulas of `codegen.llvm`."""

from __future__ import annotations

__all__ = ["COMPLEX"]

COMPLEX: dict[str, str] = {
    "complex_multiply": """\
static float2 complex_multiply(float2 x, float2 y)
{
    return float2(x.x * y.x - x.y * y.y, x.x * y.y + x.y * y.x);
}""",
    "complex_divide": """\
// Smith's method; NumPy multiplies by the reciprocal.
static float2 complex_divide(float2 x, float2 y)
{
    const float a = metal::fabs(y.x), b = metal::fabs(y.y);
    if (a + b == 0.0f) return float2(x.x / a, x.y / a);
    const bool by_real = a >= b;
    const float big = by_real ? y.x : y.y, small = by_real ? y.y : y.x;
    const float ratio = small / big, inverse = 1.0f / (big + small * ratio);
    if (by_real) return float2((x.x + x.y * ratio) * inverse, (x.y - x.x * ratio) * inverse);
    return float2((x.x * ratio + x.y) * inverse, (x.y * ratio - x.x) * inverse);
}""",
    "complex_quotient": """\
// Smith's method; Python divides.
static float2 complex_quotient(float2 x, float2 y)
{
    const bool by_real = metal::fabs(y.x) >= metal::fabs(y.y);
    const float big = by_real ? y.x : y.y, small = by_real ? y.y : y.x;
    const float ratio = small / big, scale = big + small * ratio;
    if (by_real) return float2((x.x + x.y * ratio) / scale, (x.y - x.x * ratio) / scale);
    return float2((x.x * ratio + x.y) / scale, (x.y * ratio - x.x) / scale);
}""",
    "complex_abs": """\
static float complex_abs(float2 z) { return float_hypot(z.x, z.y); }""",
    "complex_phase": """\
static float complex_phase(float2 z) { return precise::atan2(z.y, z.x); }""",
    "complex_turned": """\
static float2 complex_turned(float2 z) { return float2(-z.y, z.x); }  // i * z""",
    "complex_back": """\
static float2 complex_back(float2 z) { return float2(z.y, -z.x); }  // -i * z""",
    "complex_exp": """\
static float2 complex_exp(float2 z)
{
    const float size = precise::exp(z.x);
    return float2(size * precise::cos(z.y), z.y == 0.0f ? z.y : size * precise::sin(z.y));
}""",
    "complex_log": """\
static float2 complex_log(float2 z) { return float2(precise::log(complex_abs(z)), complex_phase(z)); }""",
    "complex_log10": """\
static float2 complex_log10(float2 z)
{
    const float2 log = complex_log(z);
    return float2(log.x * 0.4342944920063019f, log.y * 0.4342944920063019f);
}""",
    "complex_sqrt": """\
static float2 complex_sqrt(float2 z)
{
    if (z.x == 0.0f && z.y == 0.0f) return float2(0.0f, z.y);
    const float root = precise::sqrt((metal::fabs(z.x) + complex_abs(z)) * 0.5f), other = z.y / (root + root);
    if (z.x >= 0.0f) return float2(root, other);
    return float2(metal::fabs(other), metal::copysign(root, z.y));
}""",
    "complex_whole_power": """\
// By squaring, in the order of NumPy's npy_cpow; a negative exponent by the reciprocal at the end.
static float2 complex_whole_power(float2 x, float exponent)
{
    const bool few = exponent > 0.0f && exponent <= 3.0f;  // NumPy multiplies by 1 for others
    float2 result = float2(1.0f, 0.0f), base = x;
    for (uint left = uint(metal::fabs(exponent)); true;) {
        if (left & 1u) result = few && result.x == 1.0f && result.y == 0.0f ? base : complex_multiply(result, base);
        left >>= 1;
        base = complex_multiply(base, base);
        if (left == 0u) break;
    }
    return exponent < 0.0f ? complex_divide(float2(1.0f, 0.0f), result) : result;
}""",
    "complex_power": """\
static float2 complex_power(float2 x, float2 y)
{
    const bool no_base = x.x == 0.0f && x.y == 0.0f, no_power = y.x == 0.0f && y.y == 0.0f;
    if (no_base && !no_power) return y.x > 0.0f ? float2(0.0f, 0.0f) : float2(NAN, NAN);
    if (y.y == 0.0f && metal::trunc(y.x) == y.x && metal::fabs(y.x) < 100.0f) return complex_whole_power(x, y.x);
    return complex_exp(complex_multiply(y, complex_log(x)));
}""",
    "complex_sinh": """\
static float2 complex_sinh(float2 z)
{
    return float2(precise::sinh(z.x) * precise::cos(z.y), precise::cosh(z.x) * precise::sin(z.y));
}""",
    "complex_cosh": """\
static float2 complex_cosh(float2 z)
{
    return float2(precise::cosh(z.x) * precise::cos(z.y), precise::sinh(z.x) * precise::sin(z.y));
}""",
    "complex_tanh": """\
// Kahan, "Branch cuts for complex elementary functions" (1987), CTANH; likewise what follows.
static float2 complex_tanh(float2 z)
{
    const float tangent = precise::tan(z.y), sine = precise::sinh(z.x);
    const float beta = 1.0f + tangent * tangent, square = sine * sine, rho = precise::sqrt(1.0f + square);
    const float below = 1.0f + beta * square, imag = tangent / below;
    if (metal::fabs(z.x) >= 18.0f) return float2(metal::copysign(1.0f, z.x), metal::copysign(0.0f, imag));
    return float2(beta * (rho * sine) / below, imag);
}""",
    "complex_sin": """\
static float2 complex_sin(float2 z) { return complex_back(complex_sinh(complex_turned(z))); }""",
    "complex_cos": """\
static float2 complex_cos(float2 z) { return complex_cosh(complex_turned(z)); }""",
    "complex_tan": """\
static float2 complex_tan(float2 z) { return complex_back(complex_tanh(complex_turned(z))); }""",
    "complex_asin": """\
static float2 complex_asin(float2 z)
{
    const float2 minus = complex_sqrt(float2(1.0f - z.x, -z.y)), plus = complex_sqrt(float2(z.x + 1.0f, z.y));
    return float2(precise::atan2(z.x, minus.x * plus.x - minus.y * plus.y),
                  precise::asinh(minus.x * plus.y - minus.y * plus.x));
}""",
    "complex_acos": """\
static float2 complex_acos(float2 z)
{
    const float2 minus = complex_sqrt(float2(1.0f - z.x, -z.y)), plus = complex_sqrt(float2(z.x + 1.0f, z.y));
    return float2(2.0f * precise::atan2(minus.x, plus.x), precise::asinh(plus.x * minus.y - plus.y * minus.x));
}""",
    "complex_acosh": """\
static float2 complex_acosh(float2 z)
{
    const float2 minus = complex_sqrt(float2(z.x - 1.0f, z.y)), plus = complex_sqrt(float2(z.x + 1.0f, z.y));
    return float2(precise::asinh(minus.x * plus.x + minus.y * plus.y), 2.0f * precise::atan2(minus.y, plus.x));
}""",
    "complex_asinh": """\
static float2 complex_asinh(float2 z) { return complex_back(complex_asin(complex_turned(z))); }""",
    "complex_atanh": """\
static float2 complex_atanh(float2 z)
{
    const float below = 1.0f - z.x, above = 1.0f + z.x, square = z.y * z.y;
    const float real = float_log1p(4.0f * z.x / (below * below + square)) * 0.25f;
    return float2(real, precise::atan2(z.y + z.y, below * above - square) * 0.5f);
}""",
    "complex_atan": """\
static float2 complex_atan(float2 z) { return complex_back(complex_atanh(complex_turned(z))); }""",
}
