/* f32, f32x2 and f64 arithmetic (PTX ISA, "Floating Point Instructions").
 *
 * Round-to-nearest runs straight on the host's IEEE arithmetic, the directed modes with the host's
 * rounding mode set around the loop.  `.ftz` flushes subnormal inputs and results, sign kept. */
#include "arith/numeric.h"
#include <fenv.h>

static const int HOST_MODE[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};
#define DIRECTED __attribute__((noinline, optimize("rounding-math")))

typedef enum { F_ADD, F_SUB, F_MUL, F_FMA } FOp;

static inline float apply(FOp op, float a, float b, float e) {
  return op == F_ADD ? a + b : op == F_SUB ? a - b : op == F_MUL ? a * b : __builtin_fmaf(a, b, e);
}

static DIRECTED void run32(FOp op, float *d, const float *a, const float *b, const float *e, u32 n) {
  switch (op) {
    case F_ADD:
      for (u32 k = 0; k < n; k++)
        d[k] = a[k] + b[k];
      break;
    case F_SUB:
      for (u32 k = 0; k < n; k++)
        d[k] = a[k] - b[k];
      break;
    case F_MUL:
      for (u32 k = 0; k < n; k++)
        d[k] = a[k] * b[k];
      break;
    default:
      for (u32 k = 0; k < n; k++)
        d[k] = __builtin_fmaf(a[k], b[k], e[k]);
  }
}

/* IEEE rounding lifts some subnormal results to the smallest normal number: those that .ftz flushes. */
static void flush_lifted(float *out, const float *a, const float *b, const float *e, u32 n, u32 mode) {
  u32 lifted = 0;
  for (u32 k = 0; k < n; k++)
    lifted |= (bits_of(out[k]) & 0x7FFFFFFFu) == 0x00800000u;
  for (u32 k = 0; lifted && k < n; k++)
    if ((bits_of(out[k]) & 0x7FFFFFFFu) == 0x00800000u && flushed(fma_odd(a[k], b[k], e ? e[k] : 0), mode, -126, 24))
      out[k] = copysignf(0, out[k]);
}

/* `per`: floats in one lane (1, or 2 for f32x2). */
static inline Step arith(Ctx *c, const Ins *i, FOp op, u32 per) {
  float *d = REGS(float, i->d[0]);
  const float *a = REGS(float, i->s[0]), *b = REGS(float, i->s[1]), *e = op == F_FMA ? REGS(float, i->s[2]) : a;
  u32 n = LANES * per, mode = i->form.floating.rounding;
  bool ftz = i->form.floating.ftz, sat = i->form.floating.sat;
  float x[2 * LANES], y[2 * LANES], z[2 * LANES], out[2 * LANES];
  if (ftz) {
    for (u32 k = 0; k < n; k++) {
      x[k] = flush(a[k]);
      y[k] = flush(b[k]);
      z[k] = flush(e[k]);
    }
    a = x;
    b = y;
    e = z;
  }
  if (mode == ROUND_RN)
    for (u32 k = 0; k < n; k++)
      out[k] = apply(op, a[k], b[k], e[k]);
  else {
    int was = fegetround();
    fesetround(HOST_MODE[mode]);
    run32(op, out, a, b, e, n);
    fesetround(was);
  }
  if (ftz)
    for (u32 k = 0; k < n; k++)
      out[k] = flush(out[k]);
  if (ftz && op >= F_MUL)
    flush_lifted(out, a, b, op == F_FMA ? e : NULL, n, mode);
  if (sat)
    for (u32 k = 0; k < n; k++)
      out[k] = saturate(out[k]);
  if (c->mask == NONE32) {
    for (u32 k = 0; k < n; k++)
      d[k] = canon(out[k]);
    return STEP_NEXT;
  }
  FOR_LANES (c->mask, l)
    for (u32 k = 0; k < per; k++)
      d[l * per + k] = canon(out[l * per + k]);
  return STEP_NEXT;
}

#define F32(name, op, per)       \
  HANDLER(name) {                \
    return arith(c, i, op, per); \
  }
F32(ADD_F32, F_ADD, 1);
F32(SUB_F32, F_SUB, 1);
F32(MUL_F32, F_MUL, 1);
F32(FMA_F32, F_FMA, 1);
F32(ADD_F32X2, F_ADD, 2);
F32(SUB_F32X2, F_SUB, 2);
F32(MUL_F32X2, F_MUL, 2);
F32(FMA_F32X2, F_FMA, 2);

/* ---- f64, quotients and roots: one lane at a time under the host's rounding mode ------------------- */
typedef enum { G_ADD, G_SUB, G_MUL, G_FMA, G_DIV, G_RCP, G_SQRT } GOp;

static DIRECTED double apply64(GOp op, double a, double b, double e) {
  switch (op) {
    case G_ADD:
      return a + b;
    case G_SUB:
      return a - b;
    case G_MUL:
      return a * b;
    case G_FMA:
      return __builtin_fma(a, b, e);
    case G_DIV:
      return a / b;
    case G_RCP:
      return 1.0 / a;
    default:
      return sqrt(a);
  }
}

static DIRECTED float apply32(GOp op, float a, float b) {
  return op == G_DIV ? a / b : op == G_RCP ? 1.0f / a : sqrtf(a);
}

/* The operand whose NaN an f64 result takes: b before c before a; a quotient's: a before b (H200 record). */
static double nan64(GOp op, double a, double b, double e) {
  if (op == G_DIV)
    return a != a ? quiet(a) : b != b ? quiet(b) : double_of(NAN64);
  return b != b ? quiet(b) : e != e ? quiet(e) : a != a ? quiet(a) : double_of(NAN64);
}

static Step arith64(Ctx *c, const Ins *i, GOp op) {
  int was = fegetround();
  fesetround(HOST_MODE[i->form.floating.rounding]);
  FOR_LANES (c->mask, l) {
    double a = RF64(c, i->s[0])[l], b = i->ns > 1 ? RF64(c, i->s[1])[l] : 0, e = i->ns > 2 ? RF64(c, i->s[2])[l] : 0;
    double r = apply64(op, a, b, e);
    RF64(c, i->d[0])[l] = r == r ? r : nan64(op, a, b, e);
  }
  fesetround(was);
  return STEP_NEXT;
}

#define F64(name, op)         \
  HANDLER(name) {             \
    return arith64(c, i, op); \
  }
F64(ADD_F64, G_ADD);
F64(SUB_F64, G_SUB);
F64(MUL_F64, G_MUL);
F64(FMA_F64, G_FMA);
F64(DIV_F64, G_DIV);
F64(RCP_RND_F64, G_RCP);
F64(SQRT_RND_F64, G_SQRT);

static Step quotient(Ctx *c, const Ins *i, GOp op) {
  bool ftz = i->form.floating.ftz;
  int was = fegetround();
  fesetround(HOST_MODE[i->form.floating.rounding]);
  FOR_LANES (c->mask, l) {
    float a = RF32(c, i->s[0])[l], b = i->ns > 1 ? RF32(c, i->s[1])[l] : 0;
    if (ftz) {
      a = flush(a);
      b = flush(b);
    }
    float q = apply32(op, a, b);
    /* The double quotient lies on the same side of the limits as the exact one: they have 25 bits, a and b 24. */
    if (ftz && fabsf(q) == 0x1p-126f && op != G_SQRT &&
        flushed(op == G_DIV ? (double)a / b : 1.0 / a, i->form.floating.rounding, -126, 24))
      q = copysignf(0, q);
    RF32(c, i->d[0])[l] = canon(ftz ? flush(q) : q);
  }
  fesetround(was);
  return STEP_NEXT;
}

#define ROUNDED(name, op)      \
  HANDLER(name) {              \
    return quotient(c, i, op); \
  }
ROUNDED(DIV_F32, G_DIV);
ROUNDED(RCP_RND_F32, G_RCP);
ROUNDED(SQRT_RND_F32, G_SQRT);

/* ---- signs ---------------------------------------------------------------------------------------- */
/* A NaN becomes the canonical one in f32 and stays, made quiet, with its sign in f64 (H200 record). */
static Step op_NEG_F32(Ctx *c, const Ins *i) {
  u32 *d = R32(c, i->d[0]);
  const float *x = RF32(c, i->s[0]);
  bool ftz = i->form.floating.ftz;
  LANE_LOOP(float a = ftz ? flush(x[l]) : x[l]; d[l] = a == a ? bits_of(a) ^ 0x80000000u : NAN32);
  return STEP_NEXT;
}

static Step op_ABS_F32(Ctx *c, const Ins *i) {
  u32 *d = R32(c, i->d[0]);
  const float *x = RF32(c, i->s[0]);
  bool ftz = i->form.floating.ftz;
  LANE_LOOP(float a = ftz ? flush(x[l]) : x[l]; d[l] = a == a ? bits_of(a) & 0x7FFFFFFFu : NAN32);
  return STEP_NEXT;
}

UNARY(NEG_F64, double, double, a == a ? -a : quiet(a));
UNARY(ABS_F64, double, double, a == a ? fabs(a) : quiet(a));
BINARY(COPYSIGN_F32, u32, u32, (a & 0x80000000u) | (b & 0x7FFFFFFFu));
BINARY(COPYSIGN_F64, u64, u64, (a & 1ull << 63) | (b & ~(1ull << 63)));

/* ---- minimum and maximum -------------------------------------------------------------------------- */
static inline Step min_max(Ctx *c, const Ins *i, bool max, bool nan, bool three) {
  float *d = RF32(c, i->d[0]);
  const float *x = RF32(c, i->s[0]), *y = RF32(c, i->s[1]), *z = three ? RF32(c, i->s[2]) : x;
  u32 flags = i->form.floating.flags;
  u32 ftz = flags & FLAG_FTZ ? NONE32 : 0, magnitude = flags & (FLAG_XORSIGN | FLAG_ABS) ? 0x7FFFFFFFu : NONE32;
  u32 signs = flags & FLAG_XORSIGN ? 0x80000000u : 0;
  float out[LANES];
  for (u32 l = 0; l < LANES; l++) {
    float a = ftz ? flush(x[l]) : x[l], b = ftz ? flush(y[l]) : y[l];
    u32 sign = (bits_of(a) ^ bits_of(b)) & signs;
    float v = extreme(float_of(bits_of(a) & magnitude), float_of(bits_of(b) & magnitude), max, nan);
    if (three) {
      float e = ftz ? flush(z[l]) : z[l];
      v = extreme(v, float_of(bits_of(e) & magnitude), max, nan);
    }
    out[l] = v == v ? float_of(bits_of(v) | sign) : v;
  }
  LANE_LOOP(d[l] = out[l]);
  return STEP_NEXT;
}

static inline Step min_max_of(Ctx *c, const Ins *i, bool three) {
  bool nan = i->form.floating.flags & FLAG_NAN;
  if (i->form.floating.maximum)
    return nan ? min_max(c, i, true, true, three) : min_max(c, i, true, false, three);
  return nan ? min_max(c, i, false, true, three) : min_max(c, i, false, false, three);
}

static Step op_MINMAX_F32(Ctx *c, const Ins *i) {
  return min_max_of(c, i, false);
}

static Step op_MINMAX3_F32(Ctx *c, const Ins *i) {
  return min_max_of(c, i, true);
}

/* The plain forms, by far the most frequent. */
BINARY(MAX_F32, float, float, extreme(a, b, true, false));
BINARY(MIN_F32, float, float, extreme(a, b, false, false));
TERNARY(MAX3_F32, float, float, float, extreme(extreme(a, b, true, false), e, true, false));
TERNARY(MIN3_F32, float, float, float, extreme(extreme(a, b, false, false), e, false, false));

/* Of two NaNs the second stays, made quiet (H200 record). */
static inline double extreme64(double a, double b, bool max) {
  double tie = double_of(max ? bits_of64(a) & bits_of64(b) : bits_of64(a) | bits_of64(b)), v = (a < b) != max ? a : b;
  v = a == b ? tie : v;
  v = a != a ? b : v;
  v = b != b ? a : v;
  return v == v ? v : quiet(b);
}

BINARY(MIN_F64, double, double, extreme64(a, b, false));
BINARY(MAX_F64, double, double, extreme64(a, b, true));
OP_TABLE(floating) = {
#define E(n) {#n, op_##n}
    E(ADD_F32),     E(SUB_F32),     E(MUL_F32),      E(FMA_F32),      E(ADD_F32X2), E(SUB_F32X2), E(MUL_F32X2),
    E(FMA_F32X2),   E(ADD_F64),     E(SUB_F64),      E(MUL_F64),      E(FMA_F64),   E(DIV_F32),   E(DIV_F64),
    E(RCP_RND_F32), E(RCP_RND_F64), E(SQRT_RND_F32), E(SQRT_RND_F64), E(NEG_F32),   E(NEG_F64),   E(ABS_F32),
    E(ABS_F64),     E(MINMAX_F32),  E(MINMAX3_F32),  E(MIN3_F32),     E(MAX3_F32),  E(MIN_F32),   E(MAX_F32),
    E(MIN_F64),     E(MAX_F64),     E(COPYSIGN_F32), E(COPYSIGN_F64), {NULL, NULL}};
