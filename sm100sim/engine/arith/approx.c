/* The approximate functions ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh and div (PTX ISA, each with its bound).
 *
 * The hardware's tables are not public; here the value is computed in double precision and rounded
 * once to f32, which lies within every documented bound (ex2 2 ulp, rcp 1 ulp, rsqrt 2^-22.9,
 * lg2 2^-22, tanh 2^-11).  One small function each, so that a table measured on hardware can take its place. */
/* No floating-point exception flag is ever read; assuming traps would keep the lane loops scalar. */
#pragma GCC optimize("no-trapping-math")
#include "arith/approx.h"
#include "arith/numeric.h"

/* 2^x: 2^f by its Taylor series to degree 12 on |f| <= 1/2 (relative error below 2^-50), scaled in double.
 * That is the correctly rounded result unless the exact one lies within 2^-26 ulp of a tie.  Adding
 * 1.5 * 2^52 leaves rint(v) in the low bits of the sum; the series is summed as a tree, for speed. */
#define FMA(a, b, c) __builtin_fma(a, b, c)

static inline float exp2_once(float x) {
  double v = x > 200.0f ? 200.0 : x < -200.0f ? -200.0 : (double)x;
  double shifted = v + 0x1.8p52, t = (v - (shifted - 0x1.8p52)) * 0.6931471805599453, t2 = t * t, t4 = t2 * t2;
  double low = FMA(FMA(0.16666666666666666, t, 0.5), t2, 1.0 + t);
  double middle = FMA(FMA(1.984126984126984e-04, t, 1.388888888888889e-03), t2,
                      FMA(8.333333333333333e-03, t, 4.1666666666666664e-02));
  double high = FMA(FMA(2.505210838544172e-08, t, 2.755731922398589e-07), t2,
                    FMA(2.7557319223985893e-06, t, 2.48015873015873e-05));
  double p = FMA(FMA(FMA(2.08767569878681e-09, t4, high), t4, middle), t4, low);
  float result = (float)(p * double_of((bits_of64(shifted) + 1023) << 52));
  return x != x ? float_of(NAN32) : result;
}

void approx_ex2(const float *x, float *out) {
  for (u32 l = 0; l < LANES; l++)
    out[l] = exp2_once(x[l]);
}

static inline float reciprocal(float x) {
  return canon((float)(1.0 / (double)x));
}

static inline float reciprocal_root(float x) {
  return canon((float)(1.0 / sqrt((double)x)));
}

static inline float root(float x) {
  return canon((float)sqrt((double)x));
}

static inline float logarithm(float x) {
  return canon((float)log2((double)x));
}

/* sin and cos as the chip forms them, but for its table (H200 record: 2^-22.4 off at most): |x| / 2 pi as an f32
 * product cut toward zero, of that the fraction cut to 25 bits, two for the quadrant and 23 for the place in it, which
 * odd quadrants complement bit by bit. */
static float circular(float x, bool cosine) {
  double exact = fabs((double)x) * 0.15915494f;
  float turns = (float)exact;
  if (turns > exact)
    turns = float_of(bits_of(turns) - 1);
  if (!(turns < INFINITY))
    return float_of(NAN32);
  u32 fraction = (u32)((turns - floor((double)turns)) * 0x1p25), quadrant = (fraction >> 23) + cosine,
      place = fraction & 0x7FFFFF;
  double size = sin((quadrant & 1 ? 0x7FFFFF - place : place) * (6.283185307179586 * 0x1p-25));
  bool negative = (quadrant >> 1 & 1) != (!cosine && signbit(x));
  return (float)(negative ? -size : size);
}

static inline float sine(float x) {
  return circular(x, false);
}

static inline float cosine(float x) {
  return circular(x, true);
}

float approx_tanh(float x) {
  return canon((float)tanh((double)x));
}

/* All lanes are computed, so that cheap functions vectorise; the costly ones only where active. */
#define VECTOR(name, f)                      \
  HANDLER(name) {                            \
    float *d = RF32(c, i->d[0]), out[LANES]; \
    const float *x = RF32(c, i->s[0]);       \
    if (i->form.floating.ftz)                \
      for (u32 l = 0; l < LANES; l++)        \
        out[l] = flush(f(flush(x[l])));      \
    else                                     \
      for (u32 l = 0; l < LANES; l++)        \
        out[l] = f(x[l]);                    \
    LANE_LOOP(d[l] = out[l]);                \
    return STEP_NEXT;                        \
  }
#define SCALAR(name, f)                         \
  HANDLER(name) {                               \
    bool ftz = i->form.floating.ftz;            \
    FOR_LANES (c->mask, l) {                    \
      float x = RF32(c, i->s[0])[l];            \
      x = f(ftz ? flush(x) : x);                \
      RF32(c, i->d[0])[l] = ftz ? flush(x) : x; \
    }                                           \
    return STEP_NEXT;                           \
  }
VECTOR(EX2_F32, exp2_once);
VECTOR(RCP_F32, reciprocal);
VECTOR(RSQRT_F32, reciprocal_root);
VECTOR(SQRT_F32, root);
SCALAR(LG2_F32, logarithm);
SCALAR(SIN_F32, sine);
SCALAR(COS_F32, cosine);
SCALAR(TANH_F32, approx_tanh);

/* div.full scales where needed; div.approx multiplies by a reciprocal that is zero beyond 2^126:
 * "for 2^126 < |b| < 2^128, if a is infinity, div.approx.f32 delivers NaN, otherwise it delivers 0". */
static inline float quotient(float a, float b, bool scaled) {
  float size = fabsf(b);
  if (!scaled && size > 0x1p126f && size < INFINITY)
    return a != a || isinf(a) ? float_of(NAN32) : copysignf(0.0f, a) * copysignf(1.0f, b);
  return canon((float)((double)a / (double)b));
}

static Step op_DIV_APPROX_F32(Ctx *c, const Ins *i) {
  bool ftz = i->form.floating.ftz, scaled = i->form.floating.full;
  FOR_LANES (c->mask, l) {
    float a = RF32(c, i->s[0])[l], b = RF32(c, i->s[1])[l];
    float q = quotient(ftz ? flush(a) : a, ftz ? flush(b) : b, scaled);
    RF32(c, i->d[0])[l] = ftz ? flush(q) : q;
  }
  return STEP_NEXT;
}

/* rcp and rsqrt.approx.ftz.f64 read and write the upper 32 bits of a double; the lower ones are zero, so that a NaN
 * whose payload is in the lower half counts as an infinity.  A NaN result is this one (H200 record). */
static inline double coarse(double x) {
  u64 u = bits_of64(x) & 0xFFFFFFFF00000000ull;
  return double_of(u << 1 >> 53 ? u : u & 1ull << 63);
}

static inline double coarse_result(double x) {
  return x != x ? double_of(0x7FFFFFFF00000000ull) : coarse(x);
}

UNARY(RCP_F64, double, double, coarse_result(1.0 / coarse(a)));
UNARY(RSQRT_COARSE_F64, double, double, coarse_result(1.0 / sqrt(coarse(a))));

/* Rounded once.  An H100 has the same bits in 99.94 % of 4.2 million cases and is one ulp off in the others; it gives a
 * negative argument the NaN with a sign, as here. */
UNARY(RSQRT_F64, double, double, (double)(1.0L / sqrtl((long double)a)));
OP_TABLE(approx) = {
#define E(n) {#n, op_##n}
    E(EX2_F32),  E(LG2_F32),        E(RCP_F32), E(RSQRT_F32), E(SQRT_F32),         E(SIN_F32),  E(COS_F32),
    E(TANH_F32), E(DIV_APPROX_F32), E(RCP_F64), E(RSQRT_F64), E(RSQRT_COARSE_F64), {NULL, NULL}};
