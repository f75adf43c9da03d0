/* Integer arithmetic (PTX ISA, "Integer Arithmetic Instructions").  16-bit values are zero-extended lanes. */
#include "arith/numeric.h"

#define S16(x) ((i16)(u16)(x))
BINARY(ADD_16, u32, u32, (u16)(a + b));
BINARY(ADD_32, u32, u32, a + b);
BINARY(ADD_64, u64, u64, a + b);
BINARY(SUB_16, u32, u32, (u16)(a - b));
BINARY(SUB_32, u32, u32, a - b);
BINARY(SUB_64, u64, u64, a - b);
BINARY(MUL_LO_16, u32, u32, (u16)(a * b));
BINARY(MUL_LO_32, u32, u32, a * b);
BINARY(MUL_LO_64, u64, u64, a * b);
BINARY(MUL_HI_U32, u32, u32, ((u64)a * b) >> 32);
BINARY(MUL_HI_S32, u32, i32, ((i64)a * b) >> 32);
BINARY(MUL_HI_U16, u32, u32, (u16)((a * b) >> 16));
BINARY(MUL_HI_S16, u32, u32, (u16)((S16(a) * S16(b)) >> 16));
BINARY(MUL_HI_U64, u64, u64, ((unsigned __int128)a * b) >> 64);
BINARY(MUL_HI_S64, u64, i64, ((__int128)a * b) >> 64);
BINARY(MUL_WIDE_U32, u64, u32, (u64)a * b);
BINARY(MUL_WIDE_S32, u64, i32, (i64)a * b);
BINARY(MUL_WIDE_U16, u32, u32, a * b);
BINARY(MUL_WIDE_S16, u32, u32, S16(a) * S16(b));
TERNARY(MAD_LO_16, u32, u32, u32, (u16)(a * b + e));
TERNARY(MAD_LO_32, u32, u32, u32, a * b + e);
TERNARY(MAD_LO_64, u64, u64, u64, a * b + e);
TERNARY(MAD_HI_U32, u32, u32, u32, (((u64)a * b) >> 32) + e);
TERNARY(MAD_HI_S32, u32, i32, u32, (u32)(((i64)a * b) >> 32) + e);
TERNARY(MAD_HI_U16, u32, u32, u32, (u16)(((a * b) >> 16) + e));
TERNARY(MAD_HI_S16, u32, u32, u32, (u16)((u32)((S16(a) * S16(b)) >> 16) + e));
TERNARY(MAD_HI_U64, u64, u64, u64, (u64)(((unsigned __int128)a * b) >> 64) + e);
TERNARY(MAD_HI_S64, u64, i64, u64, (u64)(((__int128)a * b) >> 64) + e);
TERNARY(MAD_WIDE_U32, u64, u32, u64, (u64)a * b + e);
TERNARY(MAD_WIDE_S32, u64, i32, u64, (u64)((i64)a * b) + e);
TERNARY(MAD_WIDE_U16, u32, u32, u32, a * b + e);
TERNARY(MAD_WIDE_S16, u32, u32, u32, (u32)(S16(a) * S16(b)) + e);

/* .sat: clamped to the range of s32 instead of wrapping. */
static inline u32 clamp32(i64 v) {
  return (u32)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
}

BINARY(ADD_SAT_S32, u32, i32, clamp32((i64)a + b));
BINARY(SUB_SAT_S32, u32, i32, clamp32((i64)a - b));
TERNARY(MAD_HI_SAT_S32, u32, i32, i32, clamp32((((i64)a * b) >> 32) + e));
/* sad: |a - b| + c */
TERNARY(SAD_U16, u32, u32, u32, (u16)((a < b ? b - a : a - b) + e));
TERNARY(SAD_S16, u32, u32, u32, (u16)((u32)abs(S16(a) - S16(b)) + e));
TERNARY(SAD_U32, u32, u32, u32, (a < b ? b - a : a - b) + e);
TERNARY(SAD_S32, u32, i32, u32, (a < b ? (u32)b - (u32)a : (u32)a - (u32)b) + e);
TERNARY(SAD_U64, u64, u64, u64, (a < b ? b - a : a - b) + e);
TERNARY(SAD_S64, u64, i64, u64, (a < b ? (u64)b - (u64)a : (u64)a - (u64)b) + e);
/* Two 16-bit values in a register: each half on its own. */
#define HALVES(lo, hi) ((u32)(u16)(lo) | (u32)(u16)(hi) << 16)
#define MIN_OF(x, y) ((x) < (y) ? (x) : (y))
#define MAX_OF(x, y) ((x) > (y) ? (x) : (y))
BINARY(ADD_U16X2, u32, u32, HALVES(a + b, (a >> 16) + (b >> 16)));
BINARY(MIN_U16X2, u32, u32, HALVES(MIN_OF((u16)a, (u16)b), MIN_OF(a >> 16, b >> 16)));
BINARY(MAX_U16X2, u32, u32, HALVES(MAX_OF((u16)a, (u16)b), MAX_OF(a >> 16, b >> 16)));
BINARY(MIN_S16X2, u32, u32, HALVES(MIN_OF(S16(a), S16(b)), MIN_OF(S16(a >> 16), S16(b >> 16))));
BINARY(MAX_S16X2, u32, u32, HALVES(MAX_OF(S16(a), S16(b)), MAX_OF(S16(a >> 16), S16(b >> 16))));
/* Division by zero gives all ones, the remainder the dividend: an unspecified value that hardware produces. */
BINARY(DIV_U32, u32, u32, b ? a / b : NONE32);
BINARY(DIV_S32, u32, i32, b == 0 ? -1 : b == -1 ? (i32)(0u - (u32)a) : a / b);
BINARY(DIV_U64, u64, u64, b ? a / b : ~0ull);
BINARY(DIV_S64, u64, i64, b == 0 ? -1 : b == -1 ? (i64)(0ull - (u64)a) : a / b);
BINARY(DIV_U16, u32, u32, b ? a / b : 0xFFFF);
BINARY(DIV_S16, u32, u32, (u16)(S16(b) ? S16(a) / S16(b) : -1));
BINARY(REM_U32, u32, u32, b ? a % b : a);
BINARY(REM_S32, u32, i32, b == 0 ? a : b == -1 ? 0 : a % b);
BINARY(REM_U64, u64, u64, b ? a % b : a);
BINARY(REM_S64, u64, i64, b == 0 ? a : b == -1 ? 0 : a % b);
BINARY(REM_U16, u32, u32, b ? a % b : a);
BINARY(REM_S16, u32, u32, (u16)(S16(b) ? S16(a) % S16(b) : S16(a)));
BINARY(MIN_U16, u32, u32, a < b ? a : b);
BINARY(MAX_U16, u32, u32, a > b ? a : b);
BINARY(MIN_S16, u32, u32, (u16)(S16(a) < S16(b) ? a : b));
BINARY(MAX_S16, u32, u32, (u16)(S16(a) > S16(b) ? a : b));
BINARY(MIN_U32, u32, u32, a < b ? a : b);
BINARY(MAX_U32, u32, u32, a > b ? a : b);
BINARY(MIN_S32, u32, i32, a < b ? a : b);
BINARY(MAX_S32, u32, i32, a > b ? a : b);
BINARY(MIN_U64, u64, u64, a < b ? a : b);
BINARY(MAX_U64, u64, u64, a > b ? a : b);
BINARY(MIN_S64, u64, i64, a < b ? a : b);
BINARY(MAX_S64, u64, i64, a > b ? a : b);
UNARY(NEG_16, u32, u32, (u16)(0u - a));
UNARY(NEG_32, u32, u32, 0u - a);
UNARY(NEG_64, u64, u64, 0ull - a);
UNARY(ABS_16, u32, u32, (u16)(S16(a) < 0 ? 0u - a : a));
UNARY(ABS_32, u32, u32, (i32)a < 0 ? 0u - a : a);
UNARY(ABS_64, u64, u64, (i64)a < 0 ? 0ull - a : a);
UNARY(POPC_32, u32, u32, __builtin_popcount(a));
UNARY(POPC_64, u32, u64, __builtin_popcountll(a));
UNARY(CLZ_32, u32, u32, a ? __builtin_clz(a) : 32);
UNARY(CLZ_64, u32, u64, a ? __builtin_clzll(a) : 64);

static inline u32 reverse32(u32 x) {
  x = (x >> 1 & 0x55555555u) | (x & 0x55555555u) << 1;
  x = (x >> 2 & 0x33333333u) | (x & 0x33333333u) << 2;
  x = (x >> 4 & 0x0F0F0F0Fu) | (x & 0x0F0F0F0Fu) << 4;
  return __builtin_bswap32(x);
}

UNARY(BREV_32, u32, u32, reverse32(a));
UNARY(BREV_64, u64, u64, ((u64)reverse32((u32)a) << 32) | reverse32((u32)(a >> 32)));

static inline u32 find_top(u32 x, bool sign, bool shift) {
  if (sign && (i32)x < 0)
    x = ~x;
  if (!x)
    return NONE32;
  u32 at = 31u - (u32)__builtin_clz(x);
  return shift ? 31 - at : at;
}

static inline u32 find_top64(u64 x, bool sign, bool shift) {
  if (sign && (i64)x < 0)
    x = ~x;
  if (!x)
    return NONE32;
  u32 at = 63u - (u32)__builtin_clzll(x);
  return shift ? 63 - at : at;
}

UNARY(BFIND_32, u32, u32, find_top(a, form.a_signed, form.shift_amount));
UNARY(BFIND_64, u32, u64, find_top64(a, form.a_signed, form.shift_amount));

/* Position and length: the low byte of their operands (PTX ISA, bfe, bfi), but all 32 bits in the 64-bit forms
 * (H200 record). */
static inline u32 field_amount(u32 v, u32 width) {
  return width == 32 ? v & 255 : v > 128 ? 128 : v;
}

/* What lies beyond the top bit is zero or the sign. */
static inline u64 extract(u64 a, u32 pos, u32 len, u32 width, bool sign) {
  pos = field_amount(pos, width);
  len = field_amount(len, width);
  u32 inside = pos < width ? width - pos : 0, n = len < inside ? len : inside, top = pos + len - 1;
  u64 mask = n > 63 ? ~0ull : (1ull << (n & 63)) - 1, field = pos > 63 ? 0 : a >> (pos & 63);
  u64 fill = sign && len && (a >> (top < width ? top : width - 1) & 1) ? ~mask : 0;
  return (field & mask) | fill;
}

static inline u64 insert(u64 a, u64 b, u32 pos, u32 len, u32 width) {
  pos = field_amount(pos, width);
  len = field_amount(len, width);
  u64 mask = len > 63 ? ~0ull : (1ull << (len & 63)) - 1;
  mask = pos < width ? mask << (pos & 63) : 0;
  return (b & ~mask) | (a << (pos & 63) & mask);
}

#define BFE(name, T, width)                                               \
  HANDLER(name) {                                                         \
    T *d = REGS(T, i->d[0]);                                              \
    const T *a = REGS(T, i->s[0]);                                        \
    const u32 *p = R32(c, i->s[1]), *n = R32(c, i->s[2]);                 \
    MODIFIERS;                                                            \
    LANE_LOOP(d[l] = (T)extract(a[l], p[l], n[l], width, form.a_signed)); \
    return STEP_NEXT;                                                     \
  }
BFE(BFE_32, u32, 32);
BFE(BFE_64, u64, 64);
#define BFI(name, T, width)                                     \
  HANDLER(name) {                                               \
    T *d = REGS(T, i->d[0]);                                    \
    const T *a = REGS(T, i->s[0]), *b = REGS(T, i->s[1]);       \
    const u32 *p = R32(c, i->s[2]), *n = R32(c, i->s[3]);       \
    LANE_LOOP(d[l] = (T)insert(a[l], b[l], p[l], n[l], width)); \
    return STEP_NEXT;                                           \
  }
BFI(BFI_32, u32, 32);
BFI(BFI_64, u64, 64);

/* Bits `pos` to `pos + len - 1`; `wrap`: the low five bits of both count (PTX ISA, bmsk). */
static inline u32 bit_mask(u32 pos, u32 len, bool wrap) {
  if (wrap)
    pos &= 31, len &= 31;
  u64 ones = len > 31 ? 0xFFFFFFFFu : (1ull << len) - 1;
  return pos > 31 ? 0 : (u32)(ones << pos);
}

BINARY(BMSK_CLAMP, u32, u32, bit_mask(a, b, false));
BINARY(BMSK_WRAP, u32, u32, bit_mask(a, b, true));

/* dp4a; `sa`, `sb`: the bytes of a, of b are signed. */
static inline u32 dot4(u32 a, u32 b, u32 e, bool sa, bool sb) {
  for (u32 k = 0; k < 4; k++) {
    u32 x = a >> (8 * k) & 255, y = b >> (8 * k) & 255;
    e += (u32)((sa ? (i32)(i8)x : (i32)x) * (sb ? (i32)(i8)y : (i32)y));
  }
  return e;
}

TERNARY(DP4A, u32, u32, u32, dot4(a, b, e, form.a_signed, form.b_signed));

/* dp2a: two 16-bit values of a times bytes `first` and the next of b. */
static inline u32 dot2(u32 a, u32 b, u32 e, u32 first, bool sa, bool sb) {
  for (u32 k = 0; k < 2; k++) {
    u32 x = a >> (16 * k) & 0xFFFF, y = b >> (8 * (first + k)) & 255;
    e += (u32)((sa ? (i32)(i16)x : (i32)x) * (sb ? (i32)(i8)y : (i32)y));
  }
  return e;
}

TERNARY(DP2A_LO, u32, u32, u32, dot2(a, b, e, 0, form.a_signed, form.b_signed));
TERNARY(DP2A_HI, u32, u32, u32, dot2(a, b, e, 2, form.a_signed, form.b_signed));

/* Product of the low 24 bits, 48 bits (CUDA Math API, __mul24: the high 8 bits of both are ignored). */
static inline u64 product24(u32 a, u32 b, bool sign) {
  return sign ? (u64)((i64)((i32)(a << 8) >> 8) * ((i32)(b << 8) >> 8)) : (u64)(a & 0xFFFFFF) * (b & 0xFFFFFF);
}

TERNARY(MAD24_LO, u32, u32, u32, (u32)product24(a, b, form.a_signed) + e);
TERNARY(MAD24_HI, u32, u32, u32, (u32)(product24(a, b, form.a_signed) >> 16) + e);

/* The low n bits of a; n of 32 and more: all of them, or its low five bits. */
static inline u32 extend(u32 a, u32 n, bool sign, bool clamp) {
  if (n > 31 && clamp)
    return a;
  n &= 31;
  u32 mask = ~0u << n, fill = n && sign && a >> ((n - 1) & 31) & 1 ? mask : 0;
  return (a & ~mask) | fill;
}

BINARY(SZEXT_CLAMP, u32, u32, extend(a, b, form.a_signed, true));
BINARY(SZEXT_WRAP, u32, u32, extend(a, b, form.a_signed, false));

/* Position of the |n|-th set bit from `base` on, up or, for a negative n, down; n = 0: the base's own. */
static inline u32 find_set(u32 mask, u32 base, i32 n) {
  u32 count = n < 0 ? 0u - (u32)n : (u32)n;
  if (!n)
    return base < 32 && mask >> base & 1 ? base : NONE32;
  for (u32 at = base; at < 32; at += n > 0 ? 1u : NONE32)
    if (mask >> at & 1 && !--count)
      return at;
  return NONE32;
}

TERNARY(FNS, u32, u32, i32, find_set(a, b, e));
OP_TABLE(integer) = {
#define E(n) {#n, op_##n}
    E(ADD_16),       E(ADD_32),       E(ADD_64),       E(SUB_16),       E(SUB_32),       E(SUB_64),
    E(MUL_LO_16),    E(MUL_LO_32),    E(MUL_LO_64),    E(MUL_HI_U16),   E(MUL_HI_S16),   E(MUL_HI_U32),
    E(MUL_HI_S32),   E(MUL_HI_U64),   E(MUL_HI_S64),   E(MUL_WIDE_U16), E(MUL_WIDE_S16), E(MUL_WIDE_U32),
    E(MUL_WIDE_S32), E(MAD_LO_16),    E(MAD_LO_32),    E(MAD_LO_64),    E(MAD_HI_U32),   E(MAD_HI_S32),
    E(MAD_WIDE_U32), E(MAD_WIDE_S32), E(MAD_WIDE_U16), E(MAD_WIDE_S16), E(DIV_U16),      E(DIV_S16),
    E(DIV_U32),      E(DIV_S32),      E(DIV_U64),      E(DIV_S64),      E(REM_U16),      E(REM_S16),
    E(REM_U32),      E(REM_S32),      E(REM_U64),      E(REM_S64),      E(MIN_U16),      E(MIN_S16),
    E(MIN_U32),      E(MIN_S32),      E(MIN_U64),      E(MIN_S64),      E(MAX_U16),      E(MAX_S16),
    E(MAX_U32),      E(MAX_S32),      E(MAX_U64),      E(MAX_S64),      E(NEG_16),       E(NEG_32),
    E(NEG_64),       E(ABS_16),       E(ABS_32),       E(ABS_64),       E(POPC_32),      E(POPC_64),
    E(CLZ_32),       E(CLZ_64),       E(BREV_32),      E(BREV_64),      E(BFIND_32),     E(BFIND_64),
    E(BFE_32),       E(BFI_32),       E(BFE_64),       E(BFI_64),       E(DP4A),         E(MAD_HI_U16),
    E(MAD_HI_S16),   E(MAD_HI_U64),   E(MAD_HI_S64),   E(ADD_SAT_S32),  E(SUB_SAT_S32),  E(MAD_HI_SAT_S32),
    E(SAD_U16),      E(SAD_S16),      E(SAD_U32),      E(SAD_S32),      E(SAD_U64),      E(SAD_S64),
    E(ADD_U16X2),    E(MIN_U16X2),    E(MAX_U16X2),    E(MIN_S16X2),    E(MAX_S16X2),    E(BMSK_CLAMP),
    E(BMSK_WRAP),    E(DP2A_LO),      E(DP2A_HI),      E(MAD24_LO),     E(MAD24_HI),     E(SZEXT_CLAMP),
    E(SZEXT_WRAP),   E(FNS),          {NULL, NULL}};
