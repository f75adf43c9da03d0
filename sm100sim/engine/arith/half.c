/* f16 and bf16 arithmetic, one value or two in a register (PTX ISA, "Half Precision Floating Point
 * Instructions").  Sums, differences and products of two such values, computed in double, round
 * correctly; the fused form keeps its double result odd where it is inexact, for the same reason. */
/* No floating-point exception flag is ever read; assuming traps would keep the lane loops scalar. */
#pragma GCC optimize("no-trapping-math")
#include "arith/approx.h"
#include "arith/formats.h"
#include "arith/numeric.h"

static inline u32 low_half(u32 v) {
  return v & 0xFFFF;
}

/* Subnormal f16 codes to zero (.ftz); bf16 flushes as f32 does. */
static void flush_codes(u32 *code, Format form) {
  u32 exponent = form == FMT_F16 ? 0x7C00 : 0x7F80;
  for (u32 l = 0; l < LANES; l++)
    code[l] = code[l] & exponent ? code[l] : code[l] & 0x8000;
}

static void decode(const u32 *code, Format form, float *x) {
  if (form == FMT_F16)
    decode_f16_lanes(code, x);
  else
    for (u32 l = 0; l < LANES; l++)
      x[l] = decode_bf16(code[l]);
}

static void encode(const float *x, Format form, u32 *code) {
  if (form == FMT_F16)
    encode_f16_lanes(x, code);
  else
    for (u32 l = 0; l < LANES; l++)
      code[l] = encode_bf16(x[l]);
}

static void compute(u32 op, bool nan, const float *a, const float *b, const float *e, float *v) {
#define LANES_OF(expr)            \
  for (u32 l = 0; l < LANES; l++) \
  v[l] = (expr)
  switch (op) {
    case HALF_ADD:
      LANES_OF(narrow_odd((double)a[l] + (double)b[l]));
      break;
    case HALF_SUB:
      LANES_OF(narrow_odd((double)a[l] - (double)b[l]));
      break;
    case HALF_MUL:
      LANES_OF(narrow_odd((double)a[l] * (double)b[l]));
      break;
    case HALF_FMA:
      LANES_OF(narrow_odd(fma_odd(a[l], b[l], e[l])));
      break;
    case HALF_MIN:
      if (nan) {
        LANES_OF(extreme(a[l], b[l], false, true));
        break;
      }
      LANES_OF(extreme(a[l], b[l], false, false));
      break;
    case HALF_MAX:
      if (nan) {
        LANES_OF(extreme(a[l], b[l], true, true));
        break;
      }
      LANES_OF(extreme(a[l], b[l], true, false));
      break;
    case HALF_EX2:
      approx_ex2(a, v);
      break;
    default:
      LANES_OF(approx_tanh(a[l]));
      break;
  }
}

/* One half of every lane: `code` holds the sources, zero-extended, and the result comes back in code[0]. */
static void one_half(const HalfForm *f, u32 code[3][LANES], u32 ns) {
  float x[3][LANES], v[LANES];
  u32 sign[LANES];
  if (f->flags & FLAG_FTZ)
    for (u32 k = 0; k < ns; k++)
      flush_codes(code[k], f->format);
  if (f->op == HALF_NEG || f->op == HALF_ABS) {
    u32 infinity = f->format == FMT_F16 ? 0x7C00 : 0x7F80; /* a NaN becomes the canonical one (H200 record) */
    for (u32 l = 0; l < LANES; l++) {
      u32 size = code[0][l] & 0x7FFF;
      code[0][l] = size > infinity ? 0x7FFF : f->op == HALF_NEG ? code[0][l] ^ 0x8000 : size;
    }
    return;
  }
  if (f->flags & FLAG_XORSIGN)
    for (u32 l = 0; l < LANES; l++) {
      sign[l] = (code[0][l] ^ code[1][l]) & 0x8000;
      code[0][l] &= 0x7FFF;
      code[1][l] &= 0x7FFF;
    }
  for (u32 k = 0; k < 3; k++)
    decode(code[k < ns ? k : 0], f->format, x[k]);
  compute(f->op, f->flags & FLAG_NAN, x[0], x[1], x[2], v);
  if (f->flags & FLAG_FTZ &&
      f->op <= HALF_FMA) /* v is odd where inexact, so that it compares as the exact result does */
    for (u32 l = 0; l < LANES; l++)
      v[l] = flushed(v[l], ROUND_RN, -14, 11) ? copysignf(0, v[l]) : v[l];
  if (f->flags & FLAG_SAT)
    for (u32 l = 0; l < LANES; l++)
      v[l] = saturate(v[l]);
  if (f->flags & FLAG_RELU)
    for (u32 l = 0; l < LANES; l++)
      v[l] = v[l] <= 0.0f ? 0.0f : v[l];
  encode(v, f->format, code[0]);
  if (f->flags & FLAG_FTZ)
    flush_codes(code[0], f->format);
  if (f->flags & FLAG_XORSIGN)
    for (u32 l = 0; l < LANES; l++)
      code[0][l] |= code[0][l] == 0x7FFF ? 0 : sign[l];
}

static Step op_HALF(Ctx *c, const Ins *i) {
  const HalfForm f = i->form.half;
  u32 ns = i->ns, code[2][3][LANES];
  bool pair = f.halves == 2;
  for (u32 k = 0; k < ns; k++) {
    const u32 *s = R32(c, i->s[k]);
    for (u32 l = 0; l < LANES; l++) {
      code[0][k][l] = low_half(s[l]);
      code[1][k][l] = s[l] >> 16;
    }
  }
  one_half(&f, code[0], ns);
  if (pair)
    one_half(&f, code[1], ns);
  u32 *d = R32(c, i->d[0]);
  const u32 *lo = code[0][0], *hi = code[1][0];
  if (pair) {
    LANE_LOOP(d[l] = hi[l] << 16 | lo[l]);
  } else {
    LANE_LOOP(d[l] = lo[l]);
  }
  return STEP_NEXT;
}

OP_TABLE(half) = {{"HALF", op_HALF}, {NULL, NULL}};
