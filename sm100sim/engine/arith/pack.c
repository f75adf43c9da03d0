/* cvt of two values at once: packed f16, bf16, fp8, fp6, fp4 and scale factors; cvt to tf32 (PTX ISA, "cvt").
 *
 * d = {a in the upper half, b in the lower}.  `.relu` turns negative values and -0 into +0 and keeps NaN. */
#include "arith/formats.h"
#include "arith/numeric.h"

/* The two f32 sources of the frequent forms, rounded to nearest even. */
BINARY(CVT_BF16X2, u32, float, encode_bf16(a) << 16 | encode_bf16(b));
static Step op_CVT_F16X2(Ctx *c, const Ins *i) {
  u32 *d = R32(c, i->d[0]), hi[LANES], lo[LANES];
  encode_f16_lanes(RF32(c, i->s[0]), hi);
  encode_f16_lanes(RF32(c, i->s[1]), lo);
  LANE_LOOP(d[l] = hi[l] << 16 | lo[l]);
  return STEP_NEXT;
}

/* Formats of 8 bits or fewer, to nearest even with satfinite: the value is clamped first, so that
 * rounding cannot leave the range.  Subnormal codes are the low bits of the sum with 2^23 quanta. */
typedef struct {
  u32 mantissa, bias, nan;
  float largest;
} Narrow;

static const Narrow NARROW[FMT_COUNT] = {[FMT_E4M3] = {3, 7, 0x7F, 448.0f},
                                         [FMT_E5M2] = {2, 15, 0x7F, 57344.0f},
                                         [FMT_E2M3] = {3, 1, 0x1F, 7.5f},
                                         [FMT_E3M2] = {2, 3, 0x1F, 28.0f},
                                         [FMT_E2M1] = {1, 1, 0x7, 6.0f}};

static inline u32 encode_narrow(float x, u32 m, u32 bias, u32 nan, float largest, u32 sign_shift) {
  float a = fabsf(x), quanta = float_of((151u - bias - m) << 23);
  a = a > largest ? largest : a;
  u32 u = bits_of(a), normal = ((u + (1u << (22 - m)) - 1 + (u >> (23 - m) & 1)) >> (23 - m)) - ((127 - bias) << m);
  u32 small = bits_of(a + quanta) & 0xFF, code = u < (128 - bias) << 23 ? small : normal;
  return x != x ? nan : code | (bits_of(x) >> 31) << sign_shift;
}

static Step op_CVT_NARROW(Ctx *c, const Ins *i) {
  u32 *d = R32(c, i->d[0]);
  const float *hi = RF32(c, i->s[0]), *lo = RF32(c, i->s[1]);
  const Narrow n = NARROW[i->form.pack.to];
  u32 bits = i->form.pack.bits, sign = i->form.pack.sign_bit;
  bool relu = i->form.pack.relu;
  LANE_LOOP(float a = hi[l]; float b = lo[l]; a = relu && a <= 0 ? 0 : a; b = relu && b <= 0 ? 0 : b;
            d[l] = encode_narrow(a, n.mantissa, n.bias, n.nan, n.largest, sign) << bits |
                   encode_narrow(b, n.mantissa, n.bias, n.nan, n.largest, sign));
  return STEP_NEXT;
}

static Step op_CVT_PAIR(Ctx *c, const Ins *i) {
  const PackForm f = i->form.pack;
  FOR_LANES (c->mask, l) {
    double a = RF32(c, i->s[0])[l], b = RF32(c, i->s[1])[l];
    if (f.relu) {
      a = a <= 0 ? 0 : a;
      b = b <= 0 ? 0 : b;
    }
    u32 upper = format_encode(f.to, a, f.rounding, f.satfinite),
        lower = format_encode(f.to, b, f.rounding, f.satfinite);
    R32(c, i->d[0])[l] = upper << f.bits | lower;
  }
  return STEP_NEXT;
}

/* Packed to packed. */
static Step op_CVT_REPACK(Ctx *c, const Ins *i) {
  const PackForm f = i->form.pack;
  FOR_LANES (c->mask, l) {
    u32 v = R32(c, i->s[0])[l], code = 0;
    for (u32 k = 0; k < 2; k++) {
      double x = format_decode(f.source, v >> (f.source_bits * k) & ((1u << f.source_bits) - 1));
      if (f.relu && x <= 0)
        x = 0;
      code |= format_encode(f.to, x, f.rounding, f.satfinite) << (f.bits * k);
    }
    R32(c, i->d[0])[l] = code;
  }
  return STEP_NEXT;
}

/* The low 13 bits of the result are zero.  .rna cuts a NaN off, which may leave an
 * infinity, and with .satfinite takes one from it as from an infinity; .rn and .rz give one NaN (H200 record). */
static Step op_CVT_TF32(Ctx *c, const Ins *i) {
  const PackForm f = i->form.pack;
  FOR_LANES (c->mask, l) {
    float x = RF32(c, i->s[0])[l];
    u32 cut = bits_of(x) & ~0x1FFFu;
    if (f.relu && x <= 0)
      x = 0;
    u32 nan = f.rounding != ROUND_RNA ? NAN32 & ~0x1FFFu : f.satfinite ? cut - 0x2000u : cut;
    R32(c, i->d[0])[l] = x == x ? format_encode(FMT_TF32, x, f.rounding, f.satfinite) << 13 : nan;
  }
  return STEP_NEXT;
}

/* cvt.pack: two clamped integers of f.bits bits, the first above the second, below the third source if there is one. */
static inline u32 clamped_bits(i32 x, u32 bits, bool is_signed) {
  i32 most = (i32)((1u << (bits - is_signed)) - 1), least = is_signed ? -most - 1 : 0;
  return (u32)(x > most ? most : x < least ? least : x) & ((1u << bits) - 1);
}

static Step op_CVT_SATURATED(Ctx *c, const Ins *i) {
  u32 bits = i->form.pack.bits;
  bool is_signed = i->form.pack.sign_bit;
  FOR_LANES (c->mask, l) {
    u32 a = clamped_bits(RI32(c, i->s[0])[l], bits, is_signed), b = clamped_bits(RI32(c, i->s[1])[l], bits, is_signed);
    R32(c, i->d[0])[l] = (i->ns > 2 ? R32(c, i->s[2])[l] << 2 * bits : 0) | a << bits | b;
  }
  return STEP_NEXT;
}

OP_TABLE(pack) = {
#define E(n) {#n, op_##n}
    E(CVT_BF16X2), E(CVT_F16X2), E(CVT_NARROW),    E(CVT_PAIR),
    E(CVT_REPACK), E(CVT_TF32),  E(CVT_SATURATED), {NULL, NULL}};
