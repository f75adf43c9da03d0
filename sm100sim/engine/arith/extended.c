/* Integer arithmetic with carry (PTX ISA, "Extended-Precision Integer Arithmetic Instructions").  Destinations: the
 * result and CC.CF, 0 or 1; the last source is the carry or borrow that comes in. */
#include "arith/numeric.h"

typedef unsigned __int128 u128;

#define WITH_CARRY(name, T, N, W, X, value)                                                  \
  HANDLER(name) {                                                                            \
    T *d = REGS(T, i->d[0]);                                                                 \
    u32 *carry = R32(c, i->d[1]);                                                            \
    const T *x = REGS(T, i->s[0]), *y = REGS(T, i->s[1]), *z = REGS(T, i->s[N - 1]);         \
    const u32 *from = R32(c, i->s[N]);                                                       \
    LANE_LOOP(X a = (X)x[l]; X b = (X)y[l]; T e = z[l]; W v = (value); (void)e; d[l] = (T)v; \
              carry[l] = (u32)(v >> (8 * sizeof(T))) & 1);                                   \
    return STEP_NEXT;                                                                        \
  }
/* Of a wider sum or difference, the bit above the result is the carry, or the borrow. */
#define SUM(name, T, W) WITH_CARRY(name, T, 2, W, T, (W)a + b + from[l])
#define DIFFERENCE(name, T, W) WITH_CARRY(name, T, 2, W, T, (W)a - b - from[l])
#define PRODUCT(name, T, W, X, half) WITH_CARRY(name, T, 3, W, X, (W)(T)(half) + e + from[l])
SUM(ADDC_32, u32, u64)
SUM(ADDC_64, u64, u128)
DIFFERENCE(SUBC_32, u32, u64)
DIFFERENCE(SUBC_64, u64, u128)
PRODUCT(MADC_LO_32, u32, u64, u32, a *b)
PRODUCT(MADC_LO_64, u64, u128, u64, a *b)
PRODUCT(MADC_HI_U32, u32, u64, u32, (u64)a *b >> 32)
PRODUCT(MADC_HI_S32, u32, u64, i32, (i64)a *b >> 32)
PRODUCT(MADC_HI_U64, u64, u128, u64, (u128)a *b >> 64)
PRODUCT(MADC_HI_S64, u64, u128, i64, (__int128)a *b >> 64)

OP_TABLE(extended) = {
#define E(n) {#n, op_##n}
    E(ADDC_32),     E(ADDC_64),     E(SUBC_32),     E(SUBC_64),     E(MADC_LO_32), E(MADC_LO_64),
    E(MADC_HI_U32), E(MADC_HI_S32), E(MADC_HI_U64), E(MADC_HI_S64), {NULL, NULL}};
