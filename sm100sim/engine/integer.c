/* Integer arithmetic (PTX ISA, "Integer Arithmetic Instructions").  16-bit values are zero-extended lanes. */
#include "numeric.h"

#define S16(x) ((i16)(u16)(x))
#define ALL_TYPES(X) X(U16, u32, u32) X(S16, u32, u32) X(U32, u32, u32) X(S32, u32, i32) X(U64, u64, u64) X(S64, u64, i64)
BINARY(ADD_16, u32, u32, (u16)(a + b)) BINARY(ADD_32, u32, u32, a + b) BINARY(ADD_64, u64, u64, a + b)
BINARY(SUB_16, u32, u32, (u16)(a - b)) BINARY(SUB_32, u32, u32, a - b) BINARY(SUB_64, u64, u64, a - b)
BINARY(MUL_LO_16, u32, u32, (u16)(a * b)) BINARY(MUL_LO_32, u32, u32, a * b) BINARY(MUL_LO_64, u64, u64, a * b)
BINARY(MUL_HI_U32, u32, u32, ((u64)a * b) >> 32) BINARY(MUL_HI_S32, u32, i32, ((i64)a * b) >> 32)
BINARY(MUL_HI_U16, u32, u32, (u16)((a * b) >> 16)) BINARY(MUL_HI_S16, u32, u32, (u16)((S16(a) * S16(b)) >> 16))
BINARY(MUL_HI_U64, u64, u64, ((unsigned __int128)a * b) >> 64) BINARY(MUL_HI_S64, u64, i64, ((__int128)a * b) >> 64)
BINARY(MUL_WIDE_U32, u64, u32, (u64)a * b) BINARY(MUL_WIDE_S32, u64, i32, (i64)a * b)
BINARY(MUL_WIDE_U16, u32, u32, a * b) BINARY(MUL_WIDE_S16, u32, u32, S16(a) * S16(b))
TERNARY(MAD_LO_16, u32, u32, u32, (u16)(a * b + e)) TERNARY(MAD_LO_32, u32, u32, u32, a * b + e) TERNARY(MAD_LO_64, u64, u64, u64, a * b + e)
TERNARY(MAD_HI_U32, u32, u32, u32, (((u64)a * b) >> 32) + e) TERNARY(MAD_HI_S32, u32, i32, u32, (u32)(((i64)a * b) >> 32) + e)
TERNARY(MAD_WIDE_U32, u64, u32, u64, (u64)a * b + e) TERNARY(MAD_WIDE_S32, u64, i32, u64, (u64)((i64)a * b) + e)
TERNARY(MAD_WIDE_U16, u32, u32, u32, a * b + e) TERNARY(MAD_WIDE_S16, u32, u32, u32, (u32)(S16(a) * S16(b)) + e)
/* Division by zero gives all ones, the remainder the dividend: an unspecified value that hardware produces. */
BINARY(DIV_U32, u32, u32, b ? a / b : NONE32) BINARY(DIV_S32, u32, i32, b == 0 ? -1 : b == -1 ? (i32)(0u - (u32)a) : a / b)
BINARY(DIV_U64, u64, u64, b ? a / b : ~0ull) BINARY(DIV_S64, u64, i64, b == 0 ? -1 : b == -1 ? (i64)(0ull - (u64)a) : a / b)
BINARY(DIV_U16, u32, u32, b ? a / b : 0xFFFF) BINARY(DIV_S16, u32, u32, (u16)(S16(b) ? S16(a) / S16(b) : -1))
BINARY(REM_U32, u32, u32, b ? a % b : a) BINARY(REM_S32, u32, i32, b == 0 ? a : b == -1 ? 0 : a % b)
BINARY(REM_U64, u64, u64, b ? a % b : a) BINARY(REM_S64, u64, i64, b == 0 ? a : b == -1 ? 0 : a % b)
BINARY(REM_U16, u32, u32, b ? a % b : a) BINARY(REM_S16, u32, u32, (u16)(S16(b) ? S16(a) % S16(b) : S16(a)))
BINARY(MIN_U16, u32, u32, a < b ? a : b) BINARY(MAX_U16, u32, u32, a > b ? a : b)
BINARY(MIN_S16, u32, u32, (u16)(S16(a) < S16(b) ? a : b)) BINARY(MAX_S16, u32, u32, (u16)(S16(a) > S16(b) ? a : b))
BINARY(MIN_U32, u32, u32, a < b ? a : b) BINARY(MAX_U32, u32, u32, a > b ? a : b)
BINARY(MIN_S32, u32, i32, a < b ? a : b) BINARY(MAX_S32, u32, i32, a > b ? a : b)
BINARY(MIN_U64, u64, u64, a < b ? a : b) BINARY(MAX_U64, u64, u64, a > b ? a : b)
BINARY(MIN_S64, u64, i64, a < b ? a : b) BINARY(MAX_S64, u64, i64, a > b ? a : b)
UNARY(NEG_16, u32, u32, (u16)(0u - a)) UNARY(NEG_32, u32, u32, 0u - a) UNARY(NEG_64, u64, u64, 0ull - a)
UNARY(ABS_16, u32, u32, (u16)(S16(a) < 0 ? 0u - a : a)) UNARY(ABS_32, u32, u32, (i32)a < 0 ? 0u - a : a) UNARY(ABS_64, u64, u64, (i64)a < 0 ? 0ull - a : a)
UNARY(POPC_32, u32, u32, __builtin_popcount(a)) UNARY(POPC_64, u32, u64, __builtin_popcountll(a))
UNARY(CLZ_32, u32, u32, a ? __builtin_clz(a) : 32) UNARY(CLZ_64, u32, u64, a ? __builtin_clzll(a) : 64)
static inline u32 reverse32(u32 x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1; x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0F0F0F0Fu) | (x & 0x0F0F0F0Fu) << 4;
  return __builtin_bswap32(x);
}
UNARY(BREV_32, u32, u32, reverse32(a))
UNARY(BREV_64, u64, u64, ((u64)reverse32((u32)a) << 32) | reverse32((u32)(a >> 32)))
static inline u32 find_top(u32 x, bool sign, bool shift) {
  if (sign && (i32)x < 0) x = ~x;
  if (!x) return NONE32;
  u32 at = 31u - (u32)__builtin_clz(x);
  return shift ? 31 - at : at;
}
static inline u32 find_top64(u64 x, bool sign, bool shift) {
  if (sign && (i64)x < 0) x = ~x;
  if (!x) return NONE32;
  u32 at = 63u - (u32)__builtin_clzll(x);
  return shift ? 63 - at : at;
}
UNARY(BFIND_32, u32, u32, find_top(a, i->sub[0], i->sub[1])) UNARY(BFIND_64, u32, u64, find_top64(a, i->sub[0], i->sub[1]))
static inline u32 extract(u32 a, u32 pos, u32 len, bool sign) {
  pos &= 255; len &= 255;
  u32 top = pos + len - 1 > 31 ? 31 : pos + len - 1;
  u32 fill = sign && len ? a >> top & 1 : 0, out = 0;
  for (u32 k = 0; k < 32; k++) out |= (k < len && pos + k < 32 ? a >> (pos + k) & 1 : fill) << k;
  return out;
}
static Step op_BFE_32(Ctx *c, const Ins *i) {
  u32 *d = R32(c, i->d[0]), *a = R32(c, i->s[0]), *p = R32(c, i->s[1]), *n = R32(c, i->s[2]);
  FOR_LANES(c->mask, l) d[l] = extract(a[l], p[l], n[l], i->sub[0]);
  return STEP_NEXT;
}
static Step op_BFI_32(Ctx *c, const Ins *i) {
  u32 *d = R32(c, i->d[0]), *a = R32(c, i->s[0]), *b = R32(c, i->s[1]), *p = R32(c, i->s[2]), *n = R32(c, i->s[3]);
  FOR_LANES(c->mask, l) {
    u32 out = b[l], pos = p[l] & 255, len = n[l] & 255;
    for (u32 k = 0; k < len && pos + k < 32; k++) out = (out & ~(1u << (pos + k))) | (a[l] >> k & 1) << (pos + k);
    d[l] = out;
  }
  return STEP_NEXT;
}
OP_TABLE(integer) = {
#define E(n) {#n, op_##n},
    E(ADD_16) E(ADD_32) E(ADD_64) E(SUB_16) E(SUB_32) E(SUB_64) E(MUL_LO_16) E(MUL_LO_32) E(MUL_LO_64) E(MUL_HI_U16) E(MUL_HI_S16)
    E(MUL_HI_U32) E(MUL_HI_S32) E(MUL_HI_U64) E(MUL_HI_S64) E(MUL_WIDE_U16) E(MUL_WIDE_S16) E(MUL_WIDE_U32) E(MUL_WIDE_S32)
    E(MAD_LO_16) E(MAD_LO_32) E(MAD_LO_64) E(MAD_HI_U32) E(MAD_HI_S32) E(MAD_WIDE_U32) E(MAD_WIDE_S32) E(MAD_WIDE_U16) E(MAD_WIDE_S16)
    E(DIV_U16) E(DIV_S16) E(DIV_U32) E(DIV_S32) E(DIV_U64) E(DIV_S64) E(REM_U16) E(REM_S16) E(REM_U32) E(REM_S32) E(REM_U64) E(REM_S64)
    E(MIN_U16) E(MIN_S16) E(MIN_U32) E(MIN_S32) E(MIN_U64) E(MIN_S64) E(MAX_U16) E(MAX_S16) E(MAX_U32) E(MAX_S32) E(MAX_U64) E(MAX_S64)
    E(NEG_16) E(NEG_32) E(NEG_64) E(ABS_16) E(ABS_32) E(ABS_64) E(POPC_32) E(POPC_64) E(CLZ_32) E(CLZ_64) E(BREV_32) E(BREV_64)
    E(BFIND_32) E(BFIND_64) E(BFE_32) E(BFI_32) {NULL, NULL}};
