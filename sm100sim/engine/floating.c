/* f32, f32x2 and f64 arithmetic (PTX ISA, "Floating Point Instructions").
 *
 * Round-to-nearest runs straight on the host's IEEE arithmetic, the directed modes with the host's
 * rounding mode set around the loop.  `.ftz` flushes subnormal inputs and results, sign kept. */
#include "numeric.h"
#include <fenv.h>

enum { RN, RZ, RM, RP };
static const int HOST_MODE[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
#define DIRECTED __attribute__((noinline, optimize("rounding-math")))
typedef enum { F_ADD, F_SUB, F_MUL, F_FMA } FOp;

static inline float apply(FOp op, float a, float b, float e) {
  return op == F_ADD ? a + b : op == F_SUB ? a - b : op == F_MUL ? a * b : __builtin_fmaf(a, b, e);
}
static DIRECTED void run32(FOp op, float *d, const float *a, const float *b, const float *e, u32 n) {
  switch (op) {
    case F_ADD: for (u32 k = 0; k < n; k++) d[k] = a[k] + b[k]; break;
    case F_SUB: for (u32 k = 0; k < n; k++) d[k] = a[k] - b[k]; break;
    case F_MUL: for (u32 k = 0; k < n; k++) d[k] = a[k] * b[k]; break;
    default: for (u32 k = 0; k < n; k++) d[k] = __builtin_fmaf(a[k], b[k], e[k]);
  }
}
static inline float saturate(float x) { return !(x > 0.0f) ? 0.0f : x > 1.0f ? 1.0f : x; }
/* `per`: floats in one lane (1, or 2 for f32x2).  sub: rounding, ftz, saturate. */
static inline Step arith(Ctx *c, const Ins *i, FOp op, u32 per) {
  float *d = (float *)(c->r + i->d[0]);
  const float *a = (float *)(c->r + i->s[0]), *b = (float *)(c->r + i->s[1]);
  const float *e = op == F_FMA ? (float *)(c->r + i->s[2]) : a;
  u32 n = LANES * per; bool ftz = i->sub[1], sat = i->sub[2];
  float x[2 * LANES], y[2 * LANES], z[2 * LANES], out[2 * LANES];
  if (ftz) {
    for (u32 k = 0; k < n; k++) { x[k] = flush(a[k]); y[k] = flush(b[k]); z[k] = flush(e[k]); }
    a = x; b = y; e = z;
  }
  if (i->sub[0] == RN) for (u32 k = 0; k < n; k++) out[k] = apply(op, a[k], b[k], e[k]);
  else { int was = fegetround(); fesetround(HOST_MODE[i->sub[0]]); run32(op, out, a, b, e, n); fesetround(was); }
  if (ftz) for (u32 k = 0; k < n; k++) out[k] = flush(out[k]);
  if (sat) for (u32 k = 0; k < n; k++) out[k] = saturate(out[k]);
  if (c->mask == NONE32) { for (u32 k = 0; k < n; k++) d[k] = canon(out[k]); return STEP_NEXT; }
  FOR_LANES(c->mask, l) for (u32 k = 0; k < per; k++) d[l * per + k] = canon(out[l * per + k]);
  return STEP_NEXT;
}
#define F32(name, op, per) static Step op_##name(Ctx *c, const Ins *i) { return arith(c, i, op, per); }
F32(ADD_F32, F_ADD, 1) F32(SUB_F32, F_SUB, 1) F32(MUL_F32, F_MUL, 1) F32(FMA_F32, F_FMA, 1)
F32(ADD_F32X2, F_ADD, 2) F32(SUB_F32X2, F_SUB, 2) F32(MUL_F32X2, F_MUL, 2) F32(FMA_F32X2, F_FMA, 2)

static DIRECTED void run64(FOp op, double *d, const double *a, const double *b, const double *e) {
  for (u32 k = 0; k < LANES; k++)
    d[k] = op == F_ADD ? a[k] + b[k] : op == F_SUB ? a[k] - b[k] : op == F_MUL ? a[k] * b[k] : __builtin_fma(a[k], b[k], e[k]);
}
static Step arith64(Ctx *c, const Ins *i, FOp op) {
  double out[LANES]; const double *a = RF64(c, i->s[0]), *b = RF64(c, i->s[1]);
  int was = fegetround(); fesetround(HOST_MODE[i->sub[0]]);
  run64(op, out, a, b, op == F_FMA ? RF64(c, i->s[2]) : a);
  fesetround(was);
  FOR_LANES(c->mask, l) RF64(c, i->d[0])[l] = out[l];
  return STEP_NEXT;
}
#define F64(name, op) static Step op_##name(Ctx *c, const Ins *i) { return arith64(c, i, op); }
F64(ADD_F64, F_ADD) F64(SUB_F64, F_SUB) F64(MUL_F64, F_MUL) F64(FMA_F64, F_FMA)
static DIRECTED float divide(float a, float b) { return a / b; }
/* sub: rounding, ftz, 1 = approximate (one rounding of the quotient in double). */
static Step op_DIV_F32(Ctx *c, const Ins *i) {
  bool ftz = i->sub[1]; int was = fegetround();
  if (i->sub[0]) fesetround(HOST_MODE[i->sub[0]]);
  FOR_LANES(c->mask, l) {
    float a = RF32(c, i->s[0])[l], b = RF32(c, i->s[1])[l];
    if (ftz) { a = flush(a); b = flush(b); }
    float q = i->sub[2] ? (float)((double)a / (double)b) : divide(a, b);
    RF32(c, i->d[0])[l] = canon(ftz ? flush(q) : q);
  }
  fesetround(was);
  return STEP_NEXT;
}
BINARY(DIV_F64, double, double, a / b)
UNARY(NEG_F32, u32, u32, a ^ 0x80000000u) UNARY(NEG_F64, u64, u64, a ^ 1ull << 63)
static Step op_ABS_F32(Ctx *c, const Ins *i) {
  FOR_LANES(c->mask, l) { float a = RF32(c, i->s[0])[l]; if (i->sub[1]) a = flush(a); R32(c, i->d[0])[l] = bits_of(a) & 0x7FFFFFFFu; }
  return STEP_NEXT;
}
UNARY(ABS_F64, u64, u64, a & ~(1ull << 63))
/* Minimum and maximum: a NaN operand is ignored unless `.NaN`; -0 < +0. */
static inline float pick(float a, float b, bool max) {
  if (a == b) return max ? float_of(bits_of(a) & bits_of(b)) : float_of(bits_of(a) | bits_of(b));
  return max ? (a > b ? a : b) : (a < b ? a : b);
}
static inline float extreme(float a, float b, bool max, bool nan) {
  if (a != a || b != b) { if (nan || (a != a && b != b)) return float_of(NAN32); return a != a ? b : a; }
  return pick(a, b, max);
}
/* sub: max, .NaN, ftz, .xorsign.abs */
static Step op_MINMAX_F32(Ctx *c, const Ins *i) {
  float *d = RF32(c, i->d[0]); const float *x = RF32(c, i->s[0]), *y = RF32(c, i->s[1]);
  bool max = i->sub[0], nan = i->sub[1], ftz = i->sub[2], xorsign = i->sub[3];
  FOR_LANES(c->mask, l) {
    float a = x[l], b = y[l]; u32 sign = 0;
    if (ftz) { a = flush(a); b = flush(b); }
    if (xorsign) { sign = (bits_of(a) ^ bits_of(b)) & 0x80000000u; a = fabsf(a); b = fabsf(b); }
    float v = extreme(a, b, max, nan);
    if (i->ns == 3) { float e = RF32(c, i->s[2])[l]; v = extreme(v, ftz ? flush(e) : e, max, nan); }
    d[l] = v == v ? float_of(bits_of(v) | sign) : v;
  }
  return STEP_NEXT;
}
static Step op_MAX_F32(Ctx *c, const Ins *i) {      /* the plain two-operand maximum, vectorised */
  float *d = RF32(c, i->d[0]); const float *x = RF32(c, i->s[0]), *y = RF32(c, i->s[1]);
  LANE_LOOP(float a = x[l]; float b = y[l];
    float v = a > b ? a : b; u32 both = bits_of(a) & bits_of(b); float e = float_of(both);
    v = a == b ? e : v; v = a != a ? b : v; v = b != b ? a : v; d[l] = canon(v))
  return STEP_NEXT;
}
BINARY(MIN_F64, double, double, a != a ? b : b != b ? a : a == b ? double_of(bits_of64(a) | bits_of64(b)) : a < b ? a : b)
BINARY(MAX_F64, double, double, a != a ? b : b != b ? a : a == b ? double_of(bits_of64(a) & bits_of64(b)) : a > b ? a : b)
BINARY(COPYSIGN_F32, u32, u32, (a & 0x80000000u) | (b & 0x7FFFFFFFu))
OP_TABLE(floating) = {
#define E(n) {#n, op_##n},
    E(ADD_F32) E(SUB_F32) E(MUL_F32) E(FMA_F32) E(ADD_F32X2) E(SUB_F32X2) E(MUL_F32X2) E(FMA_F32X2) E(ADD_F64) E(SUB_F64) E(MUL_F64) E(FMA_F64)
    E(DIV_F32) E(DIV_F64) E(NEG_F32) E(NEG_F64) E(ABS_F32) E(ABS_F64) E(MINMAX_F32) E(MAX_F32) E(MIN_F64) E(MAX_F64) E(COPYSIGN_F32) {NULL, NULL}};
