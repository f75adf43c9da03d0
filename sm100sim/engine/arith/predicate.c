/* setp, selp, set and predicate logic (PTX ISA, "Comparison and Selection Instructions"). */
#include "arith/formats.h"
#include "arith/numeric.h"

/* Comparison codes, the order of isa/predicate.py: eq ne lt le gt ge, then unordered forms, num, nan. */
enum { C_EQ, C_NE, C_LT, C_LE, C_GT, C_GE, C_EQU, C_NEU, C_LTU, C_LEU, C_GTU, C_GEU, C_NUM, C_NAN };

#define BITS_WHERE(test)          \
  for (u32 l = 0; l < LANES; l++) \
  out |= (u32)(test) << l
#define COMPARE_INT(name, T)                        \
  static u32 name(const T *a, const T *b, u32 op) { \
    u32 out = 0;                                    \
    switch (op) {                                   \
      case C_EQ:                                    \
        BITS_WHERE(a[l] == b[l]);                   \
        break;                                      \
      case C_NE:                                    \
        BITS_WHERE(a[l] != b[l]);                   \
        break;                                      \
      case C_LT:                                    \
        BITS_WHERE(a[l] < b[l]);                    \
        break;                                      \
      case C_LE:                                    \
        BITS_WHERE(a[l] <= b[l]);                   \
        break;                                      \
      case C_GT:                                    \
        BITS_WHERE(a[l] > b[l]);                    \
        break;                                      \
      default:                                      \
        BITS_WHERE(a[l] >= b[l]);                   \
        break;                                      \
    }                                               \
    return out;                                     \
  }
COMPARE_INT(compare_u32, u32);
COMPARE_INT(compare_s32, i32);
COMPARE_INT(compare_u64, u64);
COMPARE_INT(compare_s64, i64);
/* Floats: the ordered forms are false and the others true when an operand is NaN. */
#define COMPARE_FLOAT(name, T)                        \
  static u32 name(const T *a, const T *b, u32 op) {   \
    u32 out = 0;                                      \
    switch (op) {                                     \
      case C_EQ:                                      \
        BITS_WHERE(a[l] == b[l]);                     \
        break;                                        \
      case C_NE:                                      \
        BITS_WHERE((a[l] < b[l]) | (a[l] > b[l]));    \
        break;                                        \
      case C_LT:                                      \
        BITS_WHERE(a[l] < b[l]);                      \
        break;                                        \
      case C_LE:                                      \
        BITS_WHERE(a[l] <= b[l]);                     \
        break;                                        \
      case C_GT:                                      \
        BITS_WHERE(a[l] > b[l]);                      \
        break;                                        \
      case C_GE:                                      \
        BITS_WHERE(a[l] >= b[l]);                     \
        break;                                        \
      case C_EQU:                                     \
        BITS_WHERE(!((a[l] < b[l]) | (a[l] > b[l]))); \
        break;                                        \
      case C_NEU:                                     \
        BITS_WHERE(a[l] != b[l]);                     \
        break;                                        \
      case C_LTU:                                     \
        BITS_WHERE(!(a[l] >= b[l]));                  \
        break;                                        \
      case C_LEU:                                     \
        BITS_WHERE(!(a[l] > b[l]));                   \
        break;                                        \
      case C_GTU:                                     \
        BITS_WHERE(!(a[l] <= b[l]));                  \
        break;                                        \
      case C_GEU:                                     \
        BITS_WHERE(!(a[l] < b[l]));                   \
        break;                                        \
      case C_NUM:                                     \
        BITS_WHERE((a[l] == a[l]) & (b[l] == b[l]));  \
        break;                                        \
      default:                                        \
        BITS_WHERE((a[l] != a[l]) | (b[l] != b[l]));  \
        break;                                        \
    }                                                 \
    return out;                                       \
  }
COMPARE_FLOAT(compare_f32, float);
COMPARE_FLOAT(compare_f64, double);

enum { K_U32, K_S32, K_U64, K_S64, K_S16, K_F32, K_F64, K_F16, K_BF16 };

/* A 16- or 32-bit source as the 32-bit type that its comparison runs in. */
static void widen_s16(const u32 *s, i32 *out) {
  for (u32 l = 0; l < LANES; l++)
    out[l] = (i16)s[l];
}

static void widen_float(const u32 *s, u32 kind, bool ftz, u32 shift, float *out) {
  if (kind == K_F32) {
    memcpy(out, s, sizeof(float) * LANES);
    if (ftz)
      for (u32 l = 0; l < LANES; l++)
        out[l] = flush(out[l]);
  } else if (kind == K_BF16)
    for (u32 l = 0; l < LANES; l++)
      out[l] = decode_bf16(s[l] >> shift);
  else {
    u32 code[LANES];
    for (u32 l = 0; l < LANES; l++)
      code[l] = s[l] >> shift & (ftz && !(s[l] >> shift & 0x7C00) ? 0x8000 : 0xFFFF);
    decode_f16_lanes(code, out);
  }
}

/* sub[0] = comparison | kind << 8 | ftz << 16; `shift`: the half of a packed register.
 * Bits of lanes outside the mask mean nothing. */
static u32 compare(Ctx *c, const Ins *i, u32 shift) {
  u32 op = i->sub[0] & 255, kind = i->sub[0] >> 8 & 255;
  bool ftz = i->sub[0] >> 16 & 1;
  u32 a = i->s[0], b = i->s[1];
  float x[LANES], y[LANES];
  i32 p[LANES], q[LANES];
  switch (kind) {
    case K_U32:
      return compare_u32(R32(c, a), R32(c, b), op);
    case K_S32:
      return compare_s32(RI32(c, a), RI32(c, b), op);
    case K_U64:
      return compare_u64(R64(c, a), R64(c, b), op);
    case K_S64:
      return compare_s64(RI64(c, a), RI64(c, b), op);
    case K_F64:
      return compare_f64(RF64(c, a), RF64(c, b), op);
    case K_S16:
      widen_s16(R32(c, a), p);
      widen_s16(R32(c, b), q);
      return compare_s32(p, q, op);
    default:
      break;
  }
  widen_float(R32(c, a), kind, ftz, shift, x);
  widen_float(R32(c, b), kind, ftz, shift, y);
  return compare_f32(x, y, op);
}

static u32 combine(u32 v, u32 p, u32 how) {
  return how == 1 ? v & p : how == 2 ? v | p : how == 3 ? v ^ p : v;
}

/* sub[1] = combination: 0 none, 1 and, 2 or, 3 xor with predicate s[2] (sub[2] = negated).  d[1], when
 * there, gets the complement, or for packed types (sub[3] = 1) the comparison of the upper halves. */
static Step op_SETP(Ctx *c, const Ins *i) {
  bool packed = i->sub[3];
  u32 v = compare(c, i, 0), w = !packed ? ~v : compare(c, i, 16), how = i->sub[1];
  u32 p = how ? PRED(c, i->s[2]) ^ (i->sub[2] ? NONE32 : 0) : 0;
  set_pred(c, i->d[0], combine(v, p, how));
  if (i->nd > 1)
    set_pred(c, i->d[1], combine(w, p, how));
  return STEP_NEXT;
}

/* set: combined as setp is; sub[3] = 1 the result is f32 1.0 or 0, else all ones or 0 */
static Step op_SET(Ctx *c, const Ins *i) {
  u32 how = i->sub[1], p = how ? PRED(c, i->s[2]) ^ (i->sub[2] ? NONE32 : 0) : 0;
  u32 v = combine(compare(c, i, 0), p, how), yes = i->sub[3] ? 0x3F800000u : NONE32, *d = R32(c, i->d[0]);
  LANE_LOOP(d[l] = v >> l & 1 ? yes : 0);
  return STEP_NEXT;
}

/* sub[0]: the predicate is negated */
static Step op_SELP_32(Ctx *c, const Ins *i) {
  u32 *d = R32(c, i->d[0]), p = PRED(c, i->s[2]) ^ (i->sub[0] ? NONE32 : 0);
  const u32 *a = R32(c, i->s[0]), *b = R32(c, i->s[1]);
  LANE_LOOP(d[l] = p >> l & 1 ? a[l] : b[l]);
  return STEP_NEXT;
}

static Step op_SELP_64(Ctx *c, const Ins *i) {
  u64 *d = R64(c, i->d[0]);
  u32 p = PRED(c, i->s[2]) ^ (i->sub[0] ? NONE32 : 0);
  const u64 *a = R64(c, i->s[0]), *b = R64(c, i->s[1]);
  LANE_LOOP(d[l] = p >> l & 1 ? a[l] : b[l]);
  return STEP_NEXT;
}

/* slct: a where the third source is >= 0, else b (-0 counts as 0, NaN as negative).  sub: third source is f32, ftz */
static inline u32 not_negative(const u32 *e, bool is_float, bool ftz) {
  u32 out = 0;
  const float *x = (const float *)e;
  const i32 *v = (const i32 *)e;
  if (is_float)
    for (u32 l = 0; l < LANES; l++)
      out |= (u32)((ftz ? flush(x[l]) : x[l]) >= 0.0f) << l;
  else
    for (u32 l = 0; l < LANES; l++)
      out |= (u32)(v[l] >= 0) << l;
  return out;
}

#define SLCT(name, T)                                            \
  HANDLER(name) {                                                \
    T *d = REGS(T, i->d[0]);                                     \
    const T *a = REGS(T, i->s[0]), *b = REGS(T, i->s[1]);        \
    u32 p = not_negative(R32(c, i->s[2]), i->sub[0], i->sub[1]); \
    LANE_LOOP(d[l] = p >> l & 1 ? a[l] : b[l]);                  \
    return STEP_NEXT;                                            \
  }
SLCT(SLCT_32, u32);
SLCT(SLCT_64, u64);
/* sub[0]: bit k set = source k is negated */
#define P(k) (PRED(c, i->s[k]) ^ (i->sub[0] >> (k) & 1 ? NONE32 : 0))

static Step op_MOV_PRED(Ctx *c, const Ins *i) {
  set_pred(c, i->d[0], P(0));
  return STEP_NEXT;
}

static Step op_NOT_PRED(Ctx *c, const Ins *i) {
  set_pred(c, i->d[0], ~P(0));
  return STEP_NEXT;
}

static Step op_AND_PRED(Ctx *c, const Ins *i) {
  set_pred(c, i->d[0], P(0) & P(1));
  return STEP_NEXT;
}

static Step op_OR_PRED(Ctx *c, const Ins *i) {
  set_pred(c, i->d[0], P(0) | P(1));
  return STEP_NEXT;
}

static Step op_XOR_PRED(Ctx *c, const Ins *i) {
  set_pred(c, i->d[0], P(0) ^ P(1));
  return STEP_NEXT;
}

/* sub[0]: finite, infinite, number, notanumber, normal, subnormal; exponent field e of `ones`, mantissa m */
static bool is_class(u32 class, u32 e, u32 ones, bool m) {
  switch (class) {
    case 0:
      return e != ones;
    case 1:
      return e == ones && !m;
    case 2:
      return e != ones || !m;
    case 3:
      return e == ones && m;
    case 4:
      return e ? e != ones : !m; /* zeros count as normal (PTX ISA, testp) */
    default:
      return !e && m;
  }
}

static Step op_TESTP_F32(Ctx *c, const Ins *i) {
  u32 out = 0;
  const u32 *s = R32(c, i->s[0]);
  FOR_LANES (c->mask, l)
    out |= (u32)is_class(i->sub[0], s[l] >> 23 & 0xFF, 0xFF, s[l] << 9 != 0) << l;
  set_pred(c, i->d[0], out);
  return STEP_NEXT;
}

static Step op_TESTP_F64(Ctx *c, const Ins *i) {
  u32 out = 0;
  const u64 *s = R64(c, i->s[0]);
  FOR_LANES (c->mask, l)
    out |= (u32)is_class(i->sub[0], (u32)(s[l] >> 52) & 0x7FF, 0x7FF, s[l] << 12 != 0) << l;
  set_pred(c, i->d[0], out);
  return STEP_NEXT;
}

OP_TABLE(predicate) = {
#define E(n) {#n, op_##n}
    E(SETP),    E(SET),      E(SELP_32),   E(SELP_64),   E(MOV_PRED), E(NOT_PRED), E(AND_PRED),
    E(OR_PRED), E(XOR_PRED), E(TESTP_F32), E(TESTP_F64), E(SLCT_32),  E(SLCT_64),  {NULL, NULL}};
