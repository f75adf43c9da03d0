/* cvt (PTX ISA, "Data Movement and Conversion Instructions: cvt"). */
#include "approx.h"
#include "formats.h"
#include "numeric.h"
#include <immintrin.h>

typedef enum { T_U8, T_S8, T_U16, T_S16, T_U32, T_S32, T_U64, T_S64, T_F16, T_BF16, T_F32, T_F64 } Type;
static bool is_float(Type t) { return t >= T_F16; }
static u32 width(Type t) { static const u32 w[] = {8, 8, 16, 16, 32, 32, 64, 64, 16, 16, 32, 64}; return w[t]; }
static bool is_signed(Type t) { return t == T_S8 || t == T_S16 || t == T_S32 || t == T_S64; }

static i64 load_int(Ctx *c, u32 slot, Type t, u32 l, bool wide) {
  u64 v = wide ? R64(c, slot)[l] : R32(c, slot)[l];
  u32 w = width(t);
  if (w == 64) return (i64)v;
  v &= (1ull << w) - 1;
  return is_signed(t) && v >> (w - 1) ? (i64)(v | ~0ull << w) : (i64)v;
}
static void store_bits(Ctx *c, u32 slot, u32 l, u64 v, bool wide) { if (wide) R64(c, slot)[l] = v; else R32(c, slot)[l] = (u32)v; }
static double load_float(Ctx *c, u32 slot, Type t, u32 l, bool ftz) {
  if (t == T_F64) return RF64(c, slot)[l];
  if (t == T_F32) { float x = RF32(c, slot)[l]; return ftz ? flush(x) : x; }
  return format_decode(t == T_F16 ? FMT_F16 : FMT_BF16, R32(c, slot)[l] & 0xFFFF);
}
static double round_int(double x, u32 r) {
  return r == ROUND_RZ ? trunc(x) : r == ROUND_RM ? floor(x) : r == ROUND_RP ? ceil(x) : rint(x);
}
static u64 clamp_int(i64 v, bool source_unsigned64, Type t) {
  u32 w = width(t);
  if (is_signed(t)) {
    i64 hi = (i64)((1ull << (w - 1)) - 1), lo = -hi - 1;
    if (source_unsigned64) return (u64)((u64)v > (u64)hi ? hi : v);
    return (u64)(v > hi ? hi : v < lo ? lo : v);
  }
  if (v < 0 && !source_unsigned64) return 0;
  u64 hi = w == 64 ? ~0ull : (1ull << w) - 1;
  return (u64)v > hi ? hi : (u64)v;
}
/* float -> integer clamps to the range; NaN gives 0 (for 64-bit destinations the sign bit: PTX ISA, cvt). */
static u64 float_to_int(double x, u32 r, Type t) {
  u32 w = width(t);
  if (x != x) return w == 64 ? 1ull << 63 : 0;
  x = round_int(x, r);
  if (is_signed(t)) {
    double hi = ldexp(1.0, (int)w - 1);
    if (x >= hi) return (1ull << (w - 1)) - 1;
    if (x < -hi) return ~0ull << (w - 1);
    return (u64)(i64)x;
  }
  if (x <= 0) return 0;
  if (x >= ldexp(1.0, (int)w)) return w == 64 ? ~0ull : (1ull << w) - 1;
  return (u64)x;
}
static u32 to_f32(double x, u32 r, bool ftz) {
  float v = r == ROUND_RN ? (float)x : float_of(format_encode(FMT_F32, x, r, false));
  return bits_of(canon(ftz ? flush(v) : v));
}
/* sub[0] = destination | source << 8 | rounding << 16 | flags << 24 (1 ftz, 2 sat, 4 integer rounding, 8 satfinite, 16 relu)
 * sub[1] = register widths: 1 source is 64 bit, 2 destination is 64 bit */
static Step op_CVT(Ctx *c, const Ins *i) {
  Type to = i->sub[0] & 255, from = i->sub[0] >> 8 & 255; u32 r = i->sub[0] >> 16 & 255, f = i->sub[0] >> 24;
  bool sw = i->sub[1] & 1, dw = i->sub[1] & 2, ftz = f & 1, sat = f & 2;
  FOR_LANES(c->mask, l) {
    u64 out;
    if (!is_float(from)) {
      i64 v = load_int(c, i->s[0], from, l, sw);
      if (!is_float(to)) {
        out = sat ? clamp_int(v, from == T_U64, to) : (u64)v;
        if (width(to) < 64) {                              /* narrow, then extend to the register */
          u64 m = (1ull << width(to)) - 1; out &= m;
          if (is_signed(to) && out >> (width(to) - 1)) out |= ~m;
          if (!dw) out &= width(to) < 32 && !(i->sub[1] & 4) ? 0xFFFF : 0xFFFFFFFFu;
        }
      } else if (to == T_F64) { double d = from == T_U64 ? (double)(u64)v : (double)v; memcpy(&out, &d, 8); }
      else if (to == T_F32 && r == ROUND_RN) out = bits_of(from == T_U64 ? (float)(u64)v : (float)v);
      else { double d = from == T_U64 ? (double)(u64)v : (double)v; out = format_encode(to == T_F32 ? FMT_F32 : to == T_F16 ? FMT_F16 : FMT_BF16, d, r, false); }
    } else {
      double x = load_float(c, i->s[0], from, l, ftz);
      if ((f & 16) && !(x > 0)) x = x != x ? x : 0.0;
      if (!is_float(to)) out = float_to_int(x, r, to);
      else {
        if (f & 4) x = round_int(x, r);
        if (sat) x = !(x > 0) ? 0 : x > 1 ? 1 : x;
        if (to == T_F64) { if (x != x) out = 0x7FFFFFFFFFFFFFFFull; else memcpy(&out, &x, 8); }
        else if (to == T_F32) out = to_f32(x, f & 4 ? ROUND_RN : r, ftz);
        else out = format_encode(to == T_F16 ? FMT_F16 : FMT_BF16, x, r, f & 8);
      }
      if (!is_float(to) && !dw) out &= width(to) < 32 && !(i->sub[1] & 4) ? 0xFFFF : 0xFFFFFFFFu;
    }
    store_bits(c, i->d[0], l, out, dw);
  }
  return STEP_NEXT;
}
/* d = {a in the upper half, b in the lower}.  sub: format, rounding, flags (1 relu, 2 satfinite), bits of one element */
static inline u32 bf16_rn(float x) {
  u32 u = bits_of(x);
  return x != x ? 0x7FFF : (u + 0x7FFF + (u >> 16 & 1)) >> 16;
}
static Step op_CVT_BF16X2(Ctx *c, const Ins *i) {
  u32 *d = R32(c, i->d[0]); const float *hi = RF32(c, i->s[0]), *lo = RF32(c, i->s[1]);
  LANE_LOOP(d[l] = bf16_rn(hi[l]) << 16 | bf16_rn(lo[l])) return STEP_NEXT;
}
static Step op_CVT_F16X2(Ctx *c, const Ins *i) {
  u32 *d = R32(c, i->d[0]); const float *hi = RF32(c, i->s[0]), *lo = RF32(c, i->s[1]);
  FOR_LANES(c->mask, l) {
    u32 h = hi[l] != hi[l] ? 0x7FFF : _cvtss_sh(hi[l], 0), o = lo[l] != lo[l] ? 0x7FFF : _cvtss_sh(lo[l], 0);
    d[l] = h << 16 | o;
  }
  return STEP_NEXT;
}
static Step op_CVT_PAIR(Ctx *c, const Ins *i) {
  Format f = i->sub[0]; u32 bits = i->sub[3];
  FOR_LANES(c->mask, l) {
    double x[2] = {RF32(c, i->s[0])[l], RF32(c, i->s[1])[l]}; u32 e[2];
    for (u32 k = 0; k < 2; k++) { if ((i->sub[2] & 1) && x[k] < 0) x[k] = 0; e[k] = format_encode(f, x[k], i->sub[1], i->sub[2] & 2); }
    R32(c, i->d[0])[l] = e[0] << bits | e[1];
  }
  return STEP_NEXT;
}
/* Packed narrow -> f16x2 or bf16x2.  sub: source format, destination format, bits of one source element, flags (1 relu) */
static Step op_CVT_UNPAIR(Ctx *c, const Ins *i) {
  u32 bits = i->sub[2];
  FOR_LANES(c->mask, l) {
    u32 v = R32(c, i->s[0])[l], out = 0;
    for (u32 k = 0; k < 2; k++) {
      double x = format_decode(i->sub[0], v >> (bits * k) & ((1u << bits) - 1));
      if ((i->sub[3] & 1) && x < 0) x = 0;
      out |= format_encode(i->sub[1], x, ROUND_RN, false) << (16 * k);
    }
    R32(c, i->d[0])[l] = out;
  }
  return STEP_NEXT;
}
/* cvt.{rna,rn,rz}.tf32.f32: sub = rounding, satfinite, relu; the low 13 bits of the result are zero. */
static Step op_CVT_TF32(Ctx *c, const Ins *i) {
  FOR_LANES(c->mask, l) {
    double x = RF32(c, i->s[0])[l]; if (i->sub[2] && x < 0) x = 0;
    u32 t = format_encode(FMT_TF32, x, i->sub[0], i->sub[1]);
    R32(c, i->d[0])[l] = x != x ? NAN32 : t << 13;
  }
  return STEP_NEXT;
}
/* f16/bf16 arithmetic on one or two halves.  sub: format, operation, flags (1 ftz, 2 sat, 4 relu, 8 NaN-propagating), halves */
enum { H_ADD, H_SUB, H_MUL, H_FMA, H_MIN, H_MAX, H_NEG, H_ABS, H_EX2, H_TANH };
static double half_min_max(double a, double b, bool max, bool nan) {
  if (a != a || b != b) return nan || (a != a && b != b) ? NAN : a != a ? b : a;
  if (a == b) return (max ? signbit(a) : signbit(b)) ? b : a;
  return max ? (a > b ? a : b) : (a < b ? a : b);
}
static Step op_HALF(Ctx *c, const Ins *i) {
  Format f = i->sub[0]; u32 op = i->sub[1], flags = i->sub[2], n = i->sub[3];
  FOR_LANES(c->mask, l) {
    u32 out = 0;
    for (u32 k = 0; k < n; k++) {
      double x[3] = {0, 0, 0}, v;
      for (u32 s = 0; s < i->ns; s++) x[s] = format_decode(f, R32(c, i->s[s])[l] >> (16 * k) & 0xFFFF);
      switch (op) {
        case H_ADD: v = x[0] + x[1]; break;
        case H_SUB: v = x[0] - x[1]; break;
        case H_MUL: v = x[0] * x[1]; break;
        case H_FMA: v = __builtin_fma(x[0], x[1], x[2]); break;
        case H_MIN: case H_MAX: v = half_min_max(x[0], x[1], op == H_MAX, flags & 8); break;
        case H_NEG: v = -x[0]; break;
        case H_ABS: v = fabs(x[0]); break;
        case H_EX2: v = approx_ex2((float)x[0]); break;
        default: v = approx_tanh((float)x[0]);
      }
      if (flags & 2) v = !(v > 0) ? 0 : v > 1 ? 1 : v;
      if ((flags & 4) && v < 0) v = 0;
      u32 bits = format_encode(f, v, ROUND_RN, false);
      if ((flags & 1) && f == FMT_F16 && !(bits & 0x7C00)) bits &= 0x8000;
      out |= bits << (16 * k);
    }
    R32(c, i->d[0])[l] = out;
  }
  return STEP_NEXT;
}
OP_TABLE(convert) = {
#define E(n) {#n, op_##n},
    E(CVT) E(CVT_BF16X2) E(CVT_F16X2) E(CVT_PAIR) E(CVT_UNPAIR) E(CVT_TF32) E(HALF) {NULL, NULL}};
