/* The approximate functions ex2, lg2, rcp, rsqrt, sqrt, sin, cos, tanh (PTX ISA, each with its bound).
 *
 * The hardware's tables are not public; here the value is computed in double precision and rounded
 * once to f32, which lies within every documented bound (ex2 2 ulp, rcp 1 ulp, rsqrt 2^-22.9,
 * lg2 2^-22, tanh 2^-11).  One small function each, so that a table measured on hardware can take its place. */
#include "approx.h"
#include "numeric.h"

/* 2^x: 2^f by its Taylor series to degree 12 on |f| <= 1/2 (relative error below 2e-16), scaled in double. */
static inline float exp2_once(float x) {
  double v = x > 200.0f ? 200.0 : x < -200.0f ? -200.0 : (double)x;
  double n = __builtin_rint(v), f = v - n, t = f * 0.6931471805599453;
  double p = 2.08767569878681e-09;
  p = p * t + 2.505210838544172e-08; p = p * t + 2.755731922398589e-07; p = p * t + 2.7557319223985893e-06;
  p = p * t + 2.48015873015873e-05; p = p * t + 1.984126984126984e-04; p = p * t + 1.388888888888889e-03;
  p = p * t + 8.333333333333333e-03; p = p * t + 4.1666666666666664e-02; p = p * t + 0.16666666666666666;
  p = p * t + 0.5; p = p * t + 1.0; p = p * t + 1.0;
  return (float)(p * double_of((u64)((i64)n + 1023) << 52));
}
float approx_ex2(float x) { return x != x ? float_of(NAN32) : exp2_once(x); }
float approx_lg2(float x) { return canon((float)log2((double)x)); }
float approx_rcp(float x) { return canon((float)(1.0 / (double)x)); }
float approx_rsqrt(float x) { return canon((float)(1.0 / sqrt((double)x))); }
float approx_sqrt(float x) { return canon((float)sqrt((double)x)); }
float approx_sin(float x) { return canon((float)sin((double)x)); }
float approx_cos(float x) { return canon((float)cos((double)x)); }
float approx_tanh(float x) { return canon((float)tanh((double)x)); }

/* sub[0]: ftz */
static Step op_EX2_F32(Ctx *c, const Ins *i) {
  float *d = RF32(c, i->d[0]); const float *s = RF32(c, i->s[0]); bool ftz = i->sub[0];
  float out[LANES];
  for (u32 l = 0; l < LANES; l++) { float x = s[l]; float v = exp2_once(x); out[l] = x != x ? float_of(NAN32) : v; }
  if (ftz) for (u32 l = 0; l < LANES; l++) out[l] = flush(out[l]);
  LANE_LOOP(d[l] = out[l]) return STEP_NEXT;
}
static Step each(Ctx *c, const Ins *i, float (*f)(float)) {
  FOR_LANES(c->mask, l) {
    float x = RF32(c, i->s[0])[l];
    if (i->sub[0]) x = flush(x);
    x = f(x);
    RF32(c, i->d[0])[l] = i->sub[0] ? flush(x) : x;
  }
  return STEP_NEXT;
}
#define EACH(name, f) static Step op_##name(Ctx *c, const Ins *i) { return each(c, i, f); }
EACH(LG2_F32, approx_lg2) EACH(RCP_F32, approx_rcp) EACH(RSQRT_F32, approx_rsqrt) EACH(SQRT_F32, approx_sqrt)
EACH(SIN_F32, approx_sin) EACH(COS_F32, approx_cos) EACH(TANH_F32, approx_tanh)
UNARY(RCP_F64, double, double, 1.0 / a) UNARY(SQRT_F64, double, double, sqrt(a)) UNARY(RSQRT_F64, double, double, 1.0 / sqrt(a))
OP_TABLE(approx) = {
#define E(n) {#n, op_##n},
    E(EX2_F32) E(LG2_F32) E(RCP_F32) E(RSQRT_F32) E(SQRT_F32) E(SIN_F32) E(COS_F32) E(TANH_F32) E(RCP_F64) E(SQRT_F64) E(RSQRT_F64) {NULL, NULL}};
