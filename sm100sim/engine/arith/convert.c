/* cvt between scalar types (PTX ISA, "Data Movement and Conversion Instructions: cvt").
 *
 * CVT is the general form, one lane at a time.  The conversions that kernels are full of have
 * handlers of their own, which vectorise; isa/convert.py chooses. */
#include "arith/formats.h"
#include "arith/numeric.h"
#include <fenv.h>

static bool is_float(CvtType t) {
  return t >= TYPE_F16;
}

static u32 width(CvtType t) {
  static const u32 w[] = {8, 8, 16, 16, 32, 32, 64, 64, 16, 16, 32, 64};
  return w[t];
}

static bool is_signed(CvtType t) {
  return t == TYPE_S8 || t == TYPE_S16 || t == TYPE_S32 || t == TYPE_S64;
}

static Format format_of(CvtType t) {
  return t == TYPE_F16 ? FMT_F16 : t == TYPE_BF16 ? FMT_BF16 : FMT_F32;
}

static i64 load_int(Ctx *c, u32 slot, CvtType t, u32 l, bool wide) {
  u64 v = wide ? R64(c, slot)[l] : R32(c, slot)[l];
  u32 w = width(t);
  if (w == 64)
    return (i64)v;
  v &= (1ull << w) - 1;
  return is_signed(t) && v >> (w - 1) ? (i64)(v | ~0ull << w) : (i64)v;
}

static double load_float(Ctx *c, u32 slot, CvtType t, u32 l, bool ftz) {
  if (t == TYPE_F64)
    return RF64(c, slot)[l];
  if (t == TYPE_F32) {
    float x = RF32(c, slot)[l];
    return ftz ? flush(x) : x;
  }
  return format_decode(format_of(t), R32(c, slot)[l] & 0xFFFF);
}

static u32 fraction_bits(CvtType t) {
  return t == TYPE_F64 ? 52 : t == TYPE_F32 ? 23 : t == TYPE_F16 ? 10 : 7;
}

/* A NaN between f64 and another float type keeps its sign and the upper bits of its payload and becomes quiet;
 * bf16 to f32 is a shift (H200 record).  Everywhere else it becomes the canonical NaN. */
static bool keeps_nan(const ConvertForm *f) {
  return f->to == TYPE_F64 || f->source == TYPE_F64 ||
         (f->to == TYPE_F32 && f->source == TYPE_BF16 && !(f->flags & FLAG_FTZ));
}

static u64 nan_code(Ctx *c, const ConvertForm *f, u32 slot, u32 l) {
  u32 in = fraction_bits(f->source), out = fraction_bits(f->to), top = width(f->to) - 1;
  u64 v = f->source == TYPE_F64 ? R64(c, slot)[l] : R32(c, slot)[l];
  u64 fraction = (v << (52 - in) & ((1ull << 52) - 1)) >> (52 - out), exponent = ((1ull << top) - 1) >> out << out;
  u64 keep = f->to == TYPE_F32 && f->source == TYPE_BF16 ? 0 : 1ull << (out - 1);
  return (v >> (width(f->source) - 1) & 1) << top | exponent | fraction | keep;
}

static double round_int(double x, u32 r) {
  return r == ROUND_RZ ? trunc(x) : r == ROUND_RM ? floor(x) : r == ROUND_RP ? ceil(x) : rint(x);
}

/* .sat of an integer: to the range of the destination type. */
static u64 clamp_int(i64 v, bool source_unsigned64, CvtType t) {
  u32 w = width(t);
  if (is_signed(t)) {
    i64 hi = (i64)((1ull << (w - 1)) - 1), lo = -hi - 1;
    if (source_unsigned64)
      return (u64)v > (u64)hi ? (u64)hi : (u64)v;
    return (u64)(v > hi ? hi : v < lo ? lo : v);
  }
  if (v < 0 && !source_unsigned64)
    return 0;
  u64 hi = w == 64 ? ~0ull : (1ull << w) - 1;
  return (u64)v > hi ? hi : (u64)v;
}

/* float -> integer clamps to the range.  NaN gives 0, or the top bit alone where the source is f64 or the
 * destination has 64 bits (PTX ISA, cvt). */
static u64 float_to_int(double x, u32 r, CvtType t, CvtType from) {
  u32 w = width(t);
  if (x != x)
    return w == 64 || from == TYPE_F64 ? 1ull << (w - 1) : 0;
  x = round_int(x, r);
  if (is_signed(t)) {
    double hi = ldexp(1.0, (int)w - 1);
    if (x >= hi)
      return (1ull << (w - 1)) - 1;
    if (x < -hi)
      return ~0ull << (w - 1);
    return (u64)(i64)x;
  }
  if (x <= 0)
    return 0;
  if (x >= ldexp(1.0, (int)w))
    return w == 64 ? ~0ull : (1ull << w) - 1;
  return (u64)x;
}

/* An integer as a double whose last bit is odd where bits were lost: rounds correctly to any narrower format. */
static double int_to_double_odd(u64 v, bool negative) {
  u64 size = negative ? 0 - v : v;
  u32 lost = size >> 53 ? 11u - (u32)__builtin_clzll(size) : 0;
  u64 rest = size & ((1ull << lost) - 1), kept = (size >> lost | (rest != 0)) << lost;
  return negative ? -(double)kept : (double)kept;
}

static u64 int_to_f64(u64 v, bool negative, u32 r) {
  static const int host[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
  volatile u64 u = v;
  volatile i64 s = (i64)v; /* volatile: converted at run time, in this rounding mode */
  int was = fegetround();
  fesetround(host[r]);
  volatile double x = negative ? (double)s : (double)u;
  fesetround(was);
  return bits_of64(x);
}

/* A rounded value in a destination register: zero- or sign-extended as the register's width asks. */
static u64 extend_int(u64 v, const ConvertForm *f) {
  u32 w = width(f->to);
  if (w < 64) {
    u64 m = (1ull << w) - 1;
    v &= m;
    if (is_signed(f->to) && v >> (w - 1))
      v |= ~m;
  }
  if (f->bits == 64)
    return v;
  return v & (w < 32 && f->bits != 32 ? 0xFFFF : NONE32);
}

static u64 float_code(double x, const ConvertForm *f) {
  if (f->to == TYPE_F64)
    return x != x ? 0x7FFFFFFFFFFFFFFFull : bits_of64(x);
  u32 r = f->flags & FLAG_INTEGRAL ? ROUND_RN : f->rounding;
  if (f->to == TYPE_F32 && f->flags & FLAG_FTZ && flushed(x, r, -126, 24))
    x = copysign(0, x);
  return format_encode(format_of(f->to), x, r, f->flags & FLAG_SATFINITE);
}

static u64 from_int(Ctx *c, const ConvertForm *f, u32 slot, u32 l) {
  i64 v = load_int(c, slot, f->source, l, f->source_bits == 64);
  bool big = f->source == TYPE_U64;
  if (!is_float(f->to))
    return extend_int(f->flags & FLAG_SAT ? clamp_int(v, big, f->to) : (u64)v, f);
  if (f->to == TYPE_F64)
    return int_to_f64((u64)v, v < 0 && !big, f->rounding);
  double x = int_to_double_odd((u64)v, v < 0 && !big);
  return float_code(f->flags & FLAG_SAT ? (x < 0 ? 0 : x > 1 ? 1 : x) : x, f);
}

static u64 from_float(Ctx *c, const ConvertForm *f, u32 slot, u32 l) {
  double x = load_float(c, slot, f->source, l, f->flags & FLAG_FTZ);
  if (!is_float(f->to))
    return extend_int(float_to_int(x, f->rounding, f->to, f->source), f);
  if (x != x && keeps_nan(f) && !(f->flags & FLAG_SAT))
    return nan_code(c, f, slot, l);
  if ((f->flags & FLAG_RELU) && x <= 0)
    x = 0;
  if (f->flags & FLAG_INTEGRAL)
    x = round_int(x, f->rounding);
  if (f->flags & FLAG_SAT)
    x = !(x > 0) ? 0 : x > 1 ? 1 : x;
  return float_code(x, f);
}

static Step op_CVT(Ctx *c, const Ins *i) {
  const ConvertForm f = i->form.convert;
  FOR_LANES (c->mask, l) {
    u64 out = is_float(f.source) ? from_float(c, &f, i->s[0], l) : from_int(c, &f, i->s[0], l);
    if (f.bits == 64)
      R64(c, i->d[0])[l] = out;
    else
      R32(c, i->d[0])[l] = (u32)out;
  }
  return STEP_NEXT;
}

/* ---- frequent forms -------------------------------------------------------------------------------- */
UNARY(CVT_F32_BF16, u32, u32, a << 16);
/* NaNs too (H200 record) */
UNARY(CVT_BF16_F32, u32, float, encode_bf16(a));
UNARY(CVT_F32_S32, float, i32, (float)a);
UNARY(CVT_F32_U32, float, u32, (float)a);
UNARY(CVT_U64_U32, u64, u32, a);
UNARY(CVT_S64_S32, u64, i32, (i64)a);
UNARY(CVT_U32_U64, u32, u64, (u32)a);
UNARY(CVT_U16, u32, u32, a & 0xFFFF);
UNARY(CVT_S32_S16, u32, u32, (i32)(i16)a);

static Step op_CVT_F32_F16(Ctx *c, const Ins *i) {
  float *d = RF32(c, i->d[0]), out[LANES];
  decode_f16_lanes(R32(c, i->s[0]), out);
  LANE_LOOP(d[l] = canon(out[l]));
  return STEP_NEXT;
}

static Step op_CVT_F16_F32(Ctx *c, const Ins *i) {
  u32 *d = R32(c, i->d[0]), out[LANES];
  encode_f16_lanes(RF32(c, i->s[0]), out);
  LANE_LOOP(d[l] = out[l]);
  return STEP_NEXT;
}

/* Toward zero with clamping to 16 or 32 bits; a 16-bit register holds the low half. */
static Step op_CVT_RZI_S_F32(Ctx *c, const Ins *i) {
  u32 *d = R32(c, i->d[0]), keep = i->form.convert.bits == 16 ? 0xFFFF : NONE32;
  const float *x = RF32(c, i->s[0]);
  double hi = i->form.convert.bits == 16 ? 32767.0 : 2147483647.0, lo = -hi - 1.0;
  LANE_LOOP(double v = x[l]; v = v > hi ? hi : v < lo ? lo : v; v = v != v ? 0.0 : v; d[l] = (u32)(i32)v & keep);
  return STEP_NEXT;
}

OP_TABLE(convert) = {
#define E(n) {#n, op_##n}
    E(CVT),         E(CVT_F32_BF16), E(CVT_F32_F16), E(CVT_BF16_F32), E(CVT_F16_F32), E(CVT_F32_S32),   E(CVT_F32_U32),
    E(CVT_U64_U32), E(CVT_S64_S32),  E(CVT_U32_U64), E(CVT_U16),      E(CVT_S32_S16), E(CVT_RZI_S_F32), {NULL, NULL}};
