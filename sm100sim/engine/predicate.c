/* setp, selp, set and predicate logic (PTX ISA, "Comparison and Selection Instructions"). */
#include "formats.h"
#include "numeric.h"

/* Comparison codes, the order of isa/predicate.py: eq ne lt le gt ge, then unordered forms, num, nan. */
enum { C_EQ, C_NE, C_LT, C_LE, C_GT, C_GE, C_EQU, C_NEU, C_LTU, C_LEU, C_GTU, C_GEU, C_NUM, C_NAN };
#define COMPARE(T, X) static u32 compare_##T##_bits(const T *a, const T *b, u32 op) { u32 out = 0; \
  switch (op) { \
    case C_EQ: for (u32 l = 0; l < LANES; l++) out |= (u32)(a[l] == b[l]) << l; break; \
    case C_NE: for (u32 l = 0; l < LANES; l++) out |= (u32)(a[l] X b[l]) << l; break; \
    case C_LT: for (u32 l = 0; l < LANES; l++) out |= (u32)(a[l] < b[l]) << l; break; \
    case C_LE: for (u32 l = 0; l < LANES; l++) out |= (u32)(a[l] <= b[l]) << l; break; \
    case C_GT: for (u32 l = 0; l < LANES; l++) out |= (u32)(a[l] > b[l]) << l; break; \
    default:   for (u32 l = 0; l < LANES; l++) out |= (u32)(a[l] >= b[l]) << l; } return out; }
COMPARE(u32, !=) COMPARE(i32, !=) COMPARE(u64, !=) COMPARE(i64, !=)
static bool compare_double(double a, double b, u32 op) {
  bool un = a != a || b != b;
  switch (op) {
    case C_EQ: return a == b;
    case C_NE: return !un && a != b;
    case C_LT: return a < b;
    case C_LE: return a <= b;
    case C_GT: return a > b;
    case C_GE: return a >= b;
    case C_EQU: return un || a == b;
    case C_NEU: return un || a != b;
    case C_LTU: return un || a < b;
    case C_LEU: return un || a <= b;
    case C_GTU: return un || a > b;
    case C_GEU: return un || a >= b;
    case C_NUM: return !un;
    default: return un;
  }
}
enum { K_U32, K_S32, K_U64, K_S64, K_S16, K_F32, K_F64, K_F16, K_BF16 };
/* sub[0] = comparison | kind << 8 | ftz << 16 */
static u32 compare(Ctx *c, const Ins *i) {
  u32 op = i->sub[0] & 255, kind = i->sub[0] >> 8 & 255; bool ftz = i->sub[0] >> 16 & 1;
  u32 a = i->s[0], b = i->s[1], out = 0;
  switch (kind) {
    case K_U32: return compare_u32_bits(R32(c, a), R32(c, b), op);
    case K_S32: return compare_i32_bits(RI32(c, a), RI32(c, b), op);
    case K_U64: return compare_u64_bits(R64(c, a), R64(c, b), op);
    case K_S64: return compare_i64_bits(RI64(c, a), RI64(c, b), op);
    default: break;
  }
  FOR_LANES(c->mask, l) {
    double x, y;
    if (kind == K_F64) { x = RF64(c, a)[l]; y = RF64(c, b)[l]; }
    else if (kind == K_F32) { x = RF32(c, a)[l]; y = RF32(c, b)[l]; if (ftz) { x = flush((float)x); y = flush((float)y); } }
    else if (kind == K_S16) { x = (i16)R32(c, a)[l]; y = (i16)R32(c, b)[l]; }
    else { Format f = kind == K_F16 ? FMT_F16 : FMT_BF16; x = format_decode(f, R32(c, a)[l] & 0xFFFF); y = format_decode(f, R32(c, b)[l] & 0xFFFF); }
    out |= (u32)compare_double(x, y, op) << l;
  }
  return out;
}
/* sub[1] = combination: 0 none, 1 and, 2 or, 3 xor with predicate s[2] (sub[2] = negated); d[1], when there, gets the complement. */
static Step op_SETP(Ctx *c, const Ins *i) {
  u32 v = compare(c, i), w = ~v;
  if (i->sub[1]) {
    u32 p = PRED(c, i->s[2]); if (i->sub[2]) p = ~p;
    v = i->sub[1] == 1 ? v & p : i->sub[1] == 2 ? v | p : v ^ p;
    w = i->sub[1] == 1 ? w & p : i->sub[1] == 2 ? w | p : w ^ p;
  }
  set_pred(c, i->d[0], v);
  if (i->nd > 1) set_pred(c, i->d[1], w);
  return STEP_NEXT;
}
/* set: sub[3] = 1 the result is f32 1.0 or 0, else all ones or 0 */
static Step op_SET(Ctx *c, const Ins *i) {
  u32 v = compare(c, i), yes = i->sub[3] ? 0x3F800000u : NONE32;
  FOR_LANES(c->mask, l) R32(c, i->d[0])[l] = v >> l & 1 ? yes : 0;
  return STEP_NEXT;
}
/* sub[0]: the predicate is negated */
static Step op_SELP_32(Ctx *c, const Ins *i) {
  u32 *d = R32(c, i->d[0]), p = PRED(c, i->s[2]) ^ (i->sub[0] ? NONE32 : 0); const u32 *a = R32(c, i->s[0]), *b = R32(c, i->s[1]);
  LANE_LOOP(d[l] = p >> l & 1 ? a[l] : b[l]) return STEP_NEXT;
}
static Step op_SELP_64(Ctx *c, const Ins *i) {
  u64 *d = R64(c, i->d[0]); u32 p = PRED(c, i->s[2]) ^ (i->sub[0] ? NONE32 : 0); const u64 *a = R64(c, i->s[0]), *b = R64(c, i->s[1]);
  LANE_LOOP(d[l] = p >> l & 1 ? a[l] : b[l]) return STEP_NEXT;
}
/* sub[0]: bit k set = source k is negated */
#define P(k) (PRED(c, i->s[k]) ^ (i->sub[0] >> (k) & 1 ? NONE32 : 0))
static Step op_MOV_PRED(Ctx *c, const Ins *i) { set_pred(c, i->d[0], P(0)); return STEP_NEXT; }
static Step op_NOT_PRED(Ctx *c, const Ins *i) { set_pred(c, i->d[0], ~P(0)); return STEP_NEXT; }
static Step op_AND_PRED(Ctx *c, const Ins *i) { set_pred(c, i->d[0], P(0) & P(1)); return STEP_NEXT; }
static Step op_OR_PRED(Ctx *c, const Ins *i) { set_pred(c, i->d[0], P(0) | P(1)); return STEP_NEXT; }
static Step op_XOR_PRED(Ctx *c, const Ins *i) { set_pred(c, i->d[0], P(0) ^ P(1)); return STEP_NEXT; }
static Step op_TESTP_F32(Ctx *c, const Ins *i) {
  u32 out = 0;
  FOR_LANES(c->mask, l) {
    u32 u = R32(c, i->s[0])[l], e = u >> 23 & 255, m = u & 0x7FFFFF; bool v;
    switch (i->sub[0]) {
      case 0: v = e != 255; break;
      case 1: v = e == 255 && !m; break;
      case 2: v = e != 255 || !m; break;
      case 3: v = e == 255 && m; break;
      case 4: v = e && e != 255; break;
      default: v = !e && m;
    }
    out |= (u32)v << l;
  }
  set_pred(c, i->d[0], out);
  return STEP_NEXT;
}
OP_TABLE(predicate) = {
#define E(n) {#n, op_##n},
    E(SETP) E(SET) E(SELP_32) E(SELP_64) E(MOV_PRED) E(NOT_PRED) E(AND_PRED) E(OR_PRED) E(XOR_PRED) E(TESTP_F32) {NULL, NULL}};
