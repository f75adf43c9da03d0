/* Logic, shifts, bytes (PTX ISA, "Logic and Shift Instructions", "prmt", "lop3", "shf"). */
#include "arith/numeric.h"

BINARY(AND_32, u32, u32, a & b);
BINARY(OR_32, u32, u32, a | b);
BINARY(XOR_32, u32, u32, a ^ b);
BINARY(AND_64, u64, u64, a & b);
BINARY(OR_64, u64, u64, a | b);
BINARY(XOR_64, u64, u64, a ^ b);
UNARY(NOT_16, u32, u32, (u16)~a);
UNARY(NOT_32, u32, u32, ~a);
UNARY(NOT_64, u64, u64, ~a);
UNARY(CNOT_16, u32, u32, a == 0);
UNARY(CNOT_32, u32, u32, a == 0);
UNARY(CNOT_64, u64, u64, a == 0);
/* Amounts beyond the width give 0 or the sign (PTX ISA, shl, shr). */
SHIFT(SHL_16, u32, u32, n > 15 ? 0 : (u16)(a << n));
SHIFT(SHL_32, u32, u32, n > 31 ? 0 : a << n);
SHIFT(SHL_64, u64, u64, n > 63 ? 0 : a << n);
SHIFT(SHR_U16, u32, u32, n > 15 ? 0 : a >> n);
SHIFT(SHR_U32, u32, u32, n > 31 ? 0 : a >> n);
SHIFT(SHR_U64, u64, u64, n > 63 ? 0 : a >> n);
SHIFT(SHR_S16, u32, u32, (u16)((i16)(u16)a >> (n > 15 ? 15 : n)));
SHIFT(SHR_S32, u32, i32, a >> (n > 31 ? 31 : n));
SHIFT(SHR_S64, u64, i64, a >> (n > 63 ? 63 : n));

static inline u32 funnel(u32 lo, u32 hi, u32 n, bool right, bool wrap) {
  n = wrap ? n & 31 : n > 32 ? 32 : n;
  u64 both = (u64)hi << 32 | lo;
  return right ? (u32)(both >> n) : (u32)((both << n) >> 32);
}

TERNARY(SHF_32, u32, u32, u32, funnel(a, b, e, form.right, form.wrap));

static inline u32 lut3(u32 a, u32 b, u32 e, u32 lut) {
  u32 out = 0;
  if (lut & 1)
    out |= ~a & ~b & ~e;
  if (lut & 2)
    out |= ~a & ~b & e;
  if (lut & 4)
    out |= ~a & b & ~e;
  if (lut & 8)
    out |= ~a & b & e;
  if (lut & 16)
    out |= a & ~b & ~e;
  if (lut & 32)
    out |= a & ~b & e;
  if (lut & 64)
    out |= a & b & ~e;
  if (lut & 128)
    out |= a & b & e;
  return out;
}

TERNARY(LOP3_32, u32, u32, u32, lut3(a, b, e, form.table));

/* The selector of prmt: four nibbles, or one of the modes f4e b4e rc8 ecl ecr rc16. */
static u32 selector(PrmtMode mode, u32 n) {
  n &= 3;
  switch (mode) {
    case PRMT_F4E:
      return n == 0 ? 0x3210 : n == 1 ? 0x4321 : n == 2 ? 0x5432 : 0x6543;
    case PRMT_B4E:
      return n == 0 ? 0x5670 : n == 1 ? 0x6701 : n == 2 ? 0x7012 : 0x0123;
    case PRMT_RC8:
      return n * 0x1111;
    case PRMT_ECL:
      return n == 0 ? 0x3210 : n == 1 ? 0x3211 : n == 2 ? 0x3222 : 0x3333;
    case PRMT_ECR:
      return n == 0 ? 0x0000 : n == 1 ? 0x1110 : n == 2 ? 0x2210 : 0x3210;
    default:
      return n & 1 ? 0x3232 : 0x1010;
  }
}

/* Nibble: a byte of {b, a} by number, with bit 3 its sign spread over the byte. */
static inline u32 chosen_byte(u64 both, u32 nibble) {
  u32 byte = (u32)(both >> (8 * (nibble & 7))) & 0xFF;
  return nibble & 8 ? (byte >> 7) * 0xFF : byte;
}

static inline u32 permute(u32 a, u32 b, u32 sel) {
  u64 both = (u64)b << 32 | a;
  return chosen_byte(both, sel) | chosen_byte(both, sel >> 4) << 8 | chosen_byte(both, sel >> 8) << 16 |
         chosen_byte(both, sel >> 12) << 24;
}

static Step op_PRMT_32(Ctx *c, const Ins *i) {
  PrmtMode mode = (PrmtMode)i->form.integer.mode;
  u32 *d = R32(c, i->d[0]), sel[LANES];
  const u32 *a = R32(c, i->s[0]), *b = R32(c, i->s[1]), *n = R32(c, i->s[2]);
  if (mode != PRMT_INDEX)
    for (u32 l = 0; l < LANES; l++)
      sel[l] = selector(mode, n[l]);
  else
    memcpy(sel, n, sizeof sel);
  LANE_LOOP(d[l] = permute(a[l], b[l], sel[l]));
  return STEP_NEXT;
}

/* ---- moves ------------------------------------------------------------------------------------ */
UNARY(MOV_32, u32, u32, a);
UNARY(MOV_64, u64, u64, a);

static Step op_MOV_128(Ctx *c, const Ins *i) {
  u64 *d = R64(c, i->d[0]), *s = R64(c, i->s[0]);
  FOR_LANES (c->mask, l) {
    d[l] = s[l];
    d[LANES + l] = s[LANES + l];
  }
  return STEP_NEXT;
}

static Step op_PACK_64(Ctx *c, const Ins *i) {
  u64 *d = R64(c, i->d[0]);
  const u32 *lo = R32(c, i->s[0]), *hi = R32(c, i->s[1]);
  LANE_LOOP(d[l] = (u64)hi[l] << 32 | lo[l]);
  return STEP_NEXT;
}

static Step op_UNPACK_64(Ctx *c, const Ins *i) {
  const u64 *s = R64(c, i->s[0]);
  u32 *lo = R32(c, i->d[0]), *hi = R32(c, i->d[1]);
  LANE_LOOP(u64 v = s[l]; lo[l] = (u32)v; hi[l] = (u32)(v >> 32));
  return STEP_NEXT;
}

/* A 32-bit register of two halves. */
BINARY(PACK_32, u32, u32, (a & 0xFFFF) | b << 16);
static Step op_UNPACK_32(Ctx *c, const Ins *i) {
  const u32 *s = R32(c, i->s[0]);
  u32 *lo = R32(c, i->d[0]), *hi = R32(c, i->d[1]);
  LANE_LOOP(u32 v = s[l]; lo[l] = v & 0xFFFF; hi[l] = v >> 16);
  return STEP_NEXT;
}

/* The parts fill a 32-bit (2 x 16, 4 x 8) or 64-bit (4 x 16) register. */
static Step op_PACK(Ctx *c, const Ins *i) {
  u32 bits = i->form.move.bits;
  bool wide = bits * i->ns > 32;
  FOR_LANES (c->mask, l) {
    u64 v = 0;
    for (u32 k = 0; k < i->ns; k++)
      v |= (u64)(R32(c, i->s[k])[l] & ((1u << bits) - 1)) << (bits * k);
    if (wide)
      R64(c, i->d[0])[l] = v;
    else
      R32(c, i->d[0])[l] = (u32)v;
  }
  return STEP_NEXT;
}

static Step op_UNPACK(Ctx *c, const Ins *i) {
  u32 bits = i->form.move.bits;
  bool wide = bits * i->nd > 32;
  FOR_LANES (c->mask, l) {
    u64 v = wide ? R64(c, i->s[0])[l] : R32(c, i->s[0])[l];
    for (u32 k = 0; k < i->nd; k++)
      R32(c, i->d[k])[l] = (u32)(v >> (bits * k)) & ((1u << bits) - 1);
  }
  return STEP_NEXT;
}

static Step op_PACK_128(Ctx *c, const Ins *i) {
  FOR_LANES (c->mask, l)
    if (i->ns == 2) {
      R128LO(c, i->d[0])[l] = R64(c, i->s[0])[l];
      R128HI(c, i->d[0])[l] = R64(c, i->s[1])[l];
    } else {
      R128LO(c, i->d[0])[l] = (u64)R32(c, i->s[1])[l] << 32 | R32(c, i->s[0])[l];
      R128HI(c, i->d[0])[l] = (u64)R32(c, i->s[3])[l] << 32 | R32(c, i->s[2])[l];
    }
  return STEP_NEXT;
}

static Step op_UNPACK_128(Ctx *c, const Ins *i) {
  FOR_LANES (c->mask, l) {
    u64 lo = R128LO(c, i->s[0])[l], hi = R128HI(c, i->s[0])[l];
    if (i->nd == 2) {
      R64(c, i->d[0])[l] = lo;
      R64(c, i->d[1])[l] = hi;
      continue;
    }
    R32(c, i->d[0])[l] = (u32)lo;
    R32(c, i->d[1])[l] = (u32)(lo >> 32);
    R32(c, i->d[2])[l] = (u32)hi;
    R32(c, i->d[3])[l] = (u32)(hi >> 32);
  }
  return STEP_NEXT;
}

OP_TABLE(logic) = {
#define E(n) {#n, op_##n}
    E(AND_32),  E(OR_32),    E(XOR_32),     E(AND_64),   E(OR_64),     E(XOR_64),  E(NOT_16),    E(NOT_32),
    E(NOT_64),  E(CNOT_16),  E(CNOT_32),    E(CNOT_64),  E(SHL_16),    E(SHL_32),  E(SHL_64),    E(SHR_U16),
    E(SHR_U32), E(SHR_U64),  E(SHR_S16),    E(SHR_S32),  E(SHR_S64),   E(SHF_32),  E(LOP3_32),   E(PRMT_32),
    E(MOV_32),  E(MOV_64),   E(MOV_128),    E(PACK_32),  E(UNPACK_32), E(PACK_64), E(UNPACK_64), E(PACK),
    E(UNPACK),  E(PACK_128), E(UNPACK_128), {NULL, NULL}};
