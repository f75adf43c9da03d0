/* One wgmma.mma_async between its issue by the four warps of a warpgroup and its landing. */
#ifndef SM100SIM_WGMMA_H
#define SM100SIM_WGMMA_H
#include "mma/mma.h"

#define WGMMA_M 64u
#define WGMMA_A_REGISTERS_COUNT 4u

/* The accumulation model of sm_90 (Options.exact_mma), compared with an H200: bits that aligned terms keep. */
enum { WGMMA_FRACTION = 25, WGMMA_FRACTION_FP8 = 13 };

enum { S_SCALE_D, S_B, S_A };

typedef struct {
  InstrDesc q;
  SmemDesc a, b;
  u64 a_bits, b_bits;
  bool a_registers, accumulate, sparse;
  u32 k;             /* of B; q.k counts the elements of A that are there */
  u32 group, number; /* warpgroup of the CTA; position in its order, from 1 on */
  u32 joined;        /* warps that have issued it */
} WgMma;

/* Row and column of element `e` of a thread's part of D; rows count from the warp's first. */
static inline u32 d_row(u32 lane, u32 e) {
  return lane / 4 + 8 * (e / 2 % 2);
}

static inline u32 d_column(u32 lane, u32 e) {
  return 8 * (e / 4) + 2 * (lane % 4) + e % 2;
}

void wgmma_land(Machine *m, AsyncOp *op);
#endif
