/* setp, selp, set and predicate logic (PTX ISA, "Comparison and Selection Instructions"). */
#include "arith/formats.h"
#include "arith/numeric.h"

#define BITS_WHERE(test)          \
  for (u32 l = 0; l < LANES; l++) \
  out |= (u32)(test) << l
/* Of floats the ordered forms are false and the others true when an operand is NaN. */
#define COMPARE(name, T)                              \
  static u32 name(const T *a, const T *b, u32 op) {   \
    u32 out = 0;                                      \
    switch (op) {                                     \
      case CMP_EQ:                                    \
        BITS_WHERE(a[l] == b[l]);                     \
        break;                                        \
      case CMP_NE:                                    \
        BITS_WHERE((a[l] < b[l]) | (a[l] > b[l]));    \
        break;                                        \
      case CMP_LT:                                    \
        BITS_WHERE(a[l] < b[l]);                      \
        break;                                        \
      case CMP_LE:                                    \
        BITS_WHERE(a[l] <= b[l]);                     \
        break;                                        \
      case CMP_GT:                                    \
        BITS_WHERE(a[l] > b[l]);                      \
        break;                                        \
      case CMP_GE:                                    \
        BITS_WHERE(a[l] >= b[l]);                     \
        break;                                        \
      case CMP_EQU:                                   \
        BITS_WHERE(!((a[l] < b[l]) | (a[l] > b[l]))); \
        break;                                        \
      case CMP_NEU:                                   \
        BITS_WHERE(a[l] != b[l]);                     \
        break;                                        \
      case CMP_LTU:                                   \
        BITS_WHERE(!(a[l] >= b[l]));                  \
        break;                                        \
      case CMP_LEU:                                   \
        BITS_WHERE(!(a[l] > b[l]));                   \
        break;                                        \
      case CMP_GTU:                                   \
        BITS_WHERE(!(a[l] <= b[l]));                  \
        break;                                        \
      case CMP_GEU:                                   \
        BITS_WHERE(!(a[l] < b[l]));                   \
        break;                                        \
      case CMP_NUM:                                   \
        BITS_WHERE((a[l] == a[l]) & (b[l] == b[l]));  \
        break;                                        \
      default:                                        \
        BITS_WHERE((a[l] != a[l]) | (b[l] != b[l]));  \
        break;                                        \
    }                                                 \
    return out;                                       \
  }
COMPARE(compare_u32, u32);
COMPARE(compare_s32, i32);
COMPARE(compare_u64, u64);
COMPARE(compare_s64, i64);
COMPARE(compare_f32, float);
COMPARE(compare_f64, double);

/* A 16- or 32-bit source as the 32-bit type that its comparison runs in. */
static void widen_s16(const u32 *s, i32 *out) {
  for (u32 l = 0; l < LANES; l++)
    out[l] = (i16)s[l];
}

static void widen_float(const u32 *s, u32 kind, bool ftz, u32 shift, float *out) {
  if (kind == COMPARED_F32) {
    memcpy(out, s, sizeof(float) * LANES);
    if (ftz)
      for (u32 l = 0; l < LANES; l++)
        out[l] = flush(out[l]);
  } else if (kind == COMPARED_BF16)
    for (u32 l = 0; l < LANES; l++)
      out[l] = decode_bf16(s[l] >> shift);
  else {
    u32 code[LANES];
    for (u32 l = 0; l < LANES; l++)
      code[l] = s[l] >> shift & (ftz && !(s[l] >> shift & 0x7C00) ? 0x8000 : 0xFFFF);
    decode_f16_lanes(code, out);
  }
}

/* `shift`: the half of a packed register.  Bits of lanes outside the mask mean nothing. */
static u32 compare(Ctx *c, const Ins *i, u32 shift) {
  u32 op = i->form.compare.number, kind = i->form.compare.type;
  bool ftz = i->form.compare.ftz;
  u32 a = i->s[0], b = i->s[1];
  float x[LANES], y[LANES];
  i32 p[LANES], q[LANES];
  switch (kind) {
    case COMPARED_U32:
      return compare_u32(R32(c, a), R32(c, b), op);
    case COMPARED_S32:
      return compare_s32(RI32(c, a), RI32(c, b), op);
    case COMPARED_U64:
      return compare_u64(R64(c, a), R64(c, b), op);
    case COMPARED_S64:
      return compare_s64(RI64(c, a), RI64(c, b), op);
    case COMPARED_F64:
      return compare_f64(RF64(c, a), RF64(c, b), op);
    case COMPARED_S16:
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

static u32 combine(u32 v, u32 p, Combination how) {
  switch (how) {
    case COMBINE_AND:
      return v & p;
    case COMBINE_OR:
      return v | p;
    case COMBINE_XOR:
      return v ^ p;
    default:
      return v;
  }
}

/* The predicate in source `k`, negated where the form says so. */
static inline u32 predicate(const Ctx *c, const Ins *i, u32 k, bool negated) {
  return PRED(c, i->s[k]) ^ (negated ? NONE32 : 0);
}

/* s[2]: the predicate to combine with, if any.  d[1], when there, gets the complement, or for packed types the
 * comparison of the upper halves. */
static Step op_SETP(Ctx *c, const Ins *i) {
  const CompareForm *f = &i->form.compare;
  Combination how = (Combination)f->combine;
  u32 v = compare(c, i, 0), w = f->packed ? compare(c, i, 16) : ~v;
  u32 p = how == COMBINE_NONE ? 0 : predicate(c, i, 2, f->negated_a);
  set_pred(c, i->d[0], combine(v, p, how));
  if (i->nd > 1)
    set_pred(c, i->d[1], combine(w, p, how));
  return STEP_NEXT;
}

/* set: combined as setp is; imm where the comparison holds, of a packed one in each half. */
static Step op_SET(Ctx *c, const Ins *i) {
  const CompareForm *f = &i->form.compare;
  Combination how = (Combination)f->combine;
  u32 p = how == COMBINE_NONE ? 0 : predicate(c, i, 2, f->negated_a);
  u32 v = combine(compare(c, i, 0), p, how), w = f->packed ? combine(compare(c, i, 16), p, how) : 0;
  u32 yes = (u32)i->imm, *d = R32(c, i->d[0]);
  LANE_LOOP(d[l] = (v >> l & 1 ? yes : 0) | (w >> l & 1 ? yes << 16 : 0));
  return STEP_NEXT;
}

static Step op_SELP_32(Ctx *c, const Ins *i) {
  u32 *d = R32(c, i->d[0]), p = predicate(c, i, 2, i->form.compare.negated_a);
  const u32 *a = R32(c, i->s[0]), *b = R32(c, i->s[1]);
  LANE_LOOP(d[l] = p >> l & 1 ? a[l] : b[l]);
  return STEP_NEXT;
}

static Step op_SELP_64(Ctx *c, const Ins *i) {
  u64 *d = R64(c, i->d[0]);
  u32 p = predicate(c, i, 2, i->form.compare.negated_a);
  const u64 *a = R64(c, i->s[0]), *b = R64(c, i->s[1]);
  LANE_LOOP(d[l] = p >> l & 1 ? a[l] : b[l]);
  return STEP_NEXT;
}

/* slct: a where the third source is >= 0, else b (-0 counts as 0, NaN as negative). */
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

#define SLCT(name, T)                                                                     \
  HANDLER(name) {                                                                         \
    T *d = REGS(T, i->d[0]);                                                              \
    const T *a = REGS(T, i->s[0]), *b = REGS(T, i->s[1]);                                 \
    u32 p = not_negative(R32(c, i->s[2]), i->form.compare.as_float, i->form.compare.ftz); \
    LANE_LOOP(d[l] = p >> l & 1 ? a[l] : b[l]);                                           \
    return STEP_NEXT;                                                                     \
  }
SLCT(SLCT_32, u32);
SLCT(SLCT_64, u64);

static Step op_MOV_PRED(Ctx *c, const Ins *i) {
  set_pred(c, i->d[0], predicate(c, i, 0, i->form.compare.negated_a));
  return STEP_NEXT;
}

static Step op_NOT_PRED(Ctx *c, const Ins *i) {
  set_pred(c, i->d[0], ~predicate(c, i, 0, i->form.compare.negated_a));
  return STEP_NEXT;
}

static Step op_AND_PRED(Ctx *c, const Ins *i) {
  set_pred(c, i->d[0], predicate(c, i, 0, i->form.compare.negated_a) & predicate(c, i, 1, i->form.compare.negated_b));
  return STEP_NEXT;
}

static Step op_OR_PRED(Ctx *c, const Ins *i) {
  set_pred(c, i->d[0], predicate(c, i, 0, i->form.compare.negated_a) | predicate(c, i, 1, i->form.compare.negated_b));
  return STEP_NEXT;
}

static Step op_XOR_PRED(Ctx *c, const Ins *i) {
  set_pred(c, i->d[0], predicate(c, i, 0, i->form.compare.negated_a) ^ predicate(c, i, 1, i->form.compare.negated_b));
  return STEP_NEXT;
}

/* Exponent field e, all ones `ones`, mantissa not zero `m`. */
static bool is_class(FloatClass class, u32 e, u32 ones, bool m) {
  switch (class) {
    case CLASS_FINITE:
      return e != ones;
    case CLASS_INFINITE:
      return e == ones && !m;
    case CLASS_NUMBER:
      return e != ones || !m;
    case CLASS_NOTANUMBER:
      return e == ones && m;
    case CLASS_NORMAL:
      return e ? e != ones : !m; /* zeros count as normal (PTX ISA, testp) */
    default:
      return !e && m;
  }
}

static Step op_TESTP_F32(Ctx *c, const Ins *i) {
  u32 out = 0;
  const u32 *s = R32(c, i->s[0]);
  FOR_LANES (c->mask, l)
    out |= (u32)is_class((FloatClass)i->form.compare.number, s[l] >> 23 & 0xFF, 0xFF, s[l] << 9 != 0) << l;
  set_pred(c, i->d[0], out);
  return STEP_NEXT;
}

static Step op_TESTP_F64(Ctx *c, const Ins *i) {
  u32 out = 0;
  const u64 *s = R64(c, i->s[0]);
  FOR_LANES (c->mask, l)
    out |= (u32)is_class((FloatClass)i->form.compare.number, (u32)(s[l] >> 52) & 0x7FF, 0x7FF, s[l] << 12 != 0) << l;
  set_pred(c, i->d[0], out);
  return STEP_NEXT;
}

OP_TABLE(predicate) = {
#define E(n) {#n, op_##n}
    E(SETP),    E(SET),      E(SELP_32),   E(SELP_64),   E(MOV_PRED), E(NOT_PRED), E(AND_PRED),
    E(OR_PRED), E(XOR_PRED), E(TESTP_F32), E(TESTP_F64), E(SLCT_32),  E(SLCT_64),  {NULL, NULL}};
