/* Tensor Memory as the tcgen05 files see it: addresses, the checks they share, cell validity.
 *
 * A TMEM address is lane << 16 | column; bits 30-31 are free for the program, which carries scale
 * factor ids there (PTX ISA, "Tensor Memory Addressing").  Allocation unit: 32 columns, all lanes. */
#ifndef SM100SIM_TMEM_H
#define SM100SIM_TMEM_H
#include "machine/handler.h"

#define TMEM_SLICE 32u

enum { CELL_LOW = 1, CELL_FULL = 3 }; /* tmem_valid: bits 0-15 hold a written value; the whole cell does */

static inline u32 taddr_col(u32 a) {
  return a & 0xFFFF;
}

static inline u32 taddr_lane(u32 a) {
  return a >> 16 & 0x3FFF;
}

/* Many kernels use no Tensor Memory: that of a CTA comes with the first access. */
u32 *tmem_first_use(const Cta *cta);

static inline u32 *tmem_row(const Cta *cta, u32 lane) {
  return (cta->tmem ? cta->tmem : tmem_first_use(cta)) + (size_t)lane * TMEM_COLS;
}

/* The other CTA of the pair (cluster ranks that differ in bit 0), or NULL. */
static inline Cta *cta_peer(const Cta *cta) {
  u32 r = cta->rank ^ 1;
  return r < cta->cl->n_ctas ? &cta->cl->ctas[r] : NULL;
}

/* In-order family of a CTA's MMAs, copies, shifts and commits: one per pair with cta_group::2. */
static inline u32 mma_fifo_key(const Cta *cta, u32 group) {
  return group == 2 ? cta->rank & ~1u : cta->rank;
}

/* Fault code of the first rule that columns [col, col + n) break in `cta`, or NULL. */
const char *tmem_columns_rule(const Cta *cta, u32 col, u32 n);
/* STEP_NEXT, or a fault that names the operand.  A kernel that never allocates is given all columns. */
Step tmem_columns(Ctx *c, Cta *owner, u32 col, u32 n, const char *operand);
/* The same at the landing of an asynchronous operation; false after a fault. */
bool tmem_columns_landing(Machine *m, const AsyncOp *op, const Cta *owner, u32 col, u32 n, const char *operand);
/* One cta_group per CTA, and a peer in the cluster for cta_group::2. */
Step tcgen05_group(Ctx *c, u32 group);
/* The same for operations that reach into the peer: it must not have exited. */
Step pair_alive(Ctx *c, u32 group, const char *what);
/* .sync.aligned: all 32 lanes of the warp execute the instruction together. */
Step whole_warp(Ctx *c);
/* Operations with the issue granularity of one thread (PTX ISA, "Issue Granularity"). */
Step single_lane(Ctx *c, const char *what);
/* A 32-bit operand that must agree in all active lanes. */
Step uniform32(Ctx *c, u32 slot, const char *operand, u32 *value);
/* Window address of [slot + offset]; generic 64-bit addresses must point into the shared window. */
Step shared_operand(Ctx *c, u32 slot, u32 bits, i64 offset, bool generic, u32 *addr);
/* Record that the operation of the executing lane is open until a commit. */
void mma_note_issue(Ctx *c);

void tmem_mark(Cta *cta, u32 lane, u32 n_lanes, u32 col, u32 n_cols, u8 state);
/* Reports the first cell of the block that lacks the `need` bits; `c` carries the place in the program. */
void tmem_expect(Ctx *c, Cta *cta, u32 lane, u32 n_lanes, u32 col, u32 n_cols, u8 need, const char *operand);
/* Handlers of alloc.c, for the table in ldst.c. */
Step op_tmem_alloc(Ctx *c, const Ins *i);
Step op_tmem_dealloc(Ctx *c, const Ins *i);
Step op_tmem_relinquish(Ctx *c, const Ins *i);
const char *tmem_exit_check(Cta *cta);
/* A context for findings at the landing of `op`. */
Ctx landing_ctx(Machine *m, const AsyncOp *op);
#endif
