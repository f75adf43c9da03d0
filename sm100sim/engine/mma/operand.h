/* Operands of tcgen05.mma as panels of doubles, where every element type is exact. */
#ifndef SM100SIM_UMMA_OPERAND_H
#define SM100SIM_UMMA_OPERAND_H
#include "mma/descriptor.h"

#define PANEL_N 264u         /* row pitch of the B panel and of accumulator rows; 256 padded against cache aliasing */
#define PANEL_K 64u          /* most elements of A along K in one instruction (4-bit kinds) */
#define MOST_K (2 * PANEL_K) /* of B, where such an A is sparse */
#define SMEM_UNITS (SMEM_MAX / 16)

typedef struct {
  Cta *cta;
  SmemDesc d;
  ElemType type;
  bool mn_major, negate;
  u32 rows, k;
} SmemOperand;

typedef struct {
  u64 words[SMEM_UNITS / 64 + 2];
} UnitSet; /* 16-byte units of a shared window */

/* Bytes from the start address to the end of the farthest unit, before the swizzle. */
u32 operand_extent(const SmemOperand *o);
/* Write element (row, k) to out[row * row_pitch + k * k_pitch]; false when a unit lies outside the CTA's
 * shared memory.  `touched` (or NULL) collects the units that were read. */
bool operand_gather(const SmemOperand *o, double *out, u32 row_pitch, u32 k_pitch, UnitSet *touched);
/* Report the units as asynchronous reads of `op`, as runs of adjacent bytes. */
void units_observe(AsyncOp *op, Cta *cta, const UnitSet *units);

static inline void unit_add(UnitSet *s, u32 addr) {
  s->words[addr >> 10] |= 1ull << (addr >> 4 & 63);
}

/* 32 bytes of packed elements -> doubles (an A row in Tensor Memory). */
void elements_decode(ElemType t, const u8 *bytes32, bool negate, double *out);
double ue8m0_value(u8 x);
double e4m3_value(u8 x);
double half_value(u16 x);
int elem_min_exponent(ElemType t); /* exponent of the smallest normal number */
#endif
