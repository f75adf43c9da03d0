/* What an instruction handler sees, and what it may do.
 *
 * One handler is the meaning of one instruction form.  It runs for one *split* (the lanes of a warp
 * that share a program counter), reads and writes registers through the R32/R64/PRED accessors for
 * the lanes in `c->mask`, and answers with a Step:
 *   STEP_NEXT   done, go to the following instruction
 *   STEP_JUMP   done, the handler already placed the split(s)
 *   STEP_BLOCK  nothing was changed; execute again when the machine has moved (set c->sp->why first)
 *   STEP_EXIT   the lanes in c->mask have left the kernel
 *   STEP_FAULT  fault() was called; the run stops and the report names the instruction
 * A handler that may block must not change any state before it is sure to complete.
 * Throughout, `c` is the context of the executing split, `i` the instruction, `m` the machine, `cl` the cluster, `w`
 * the warp, `l` a lane.  State is in state.h, semantics in the family files; only schedule.c decides who runs.
 */
#ifndef SM100SIM_HANDLER_H
#define SM100SIM_HANDLER_H
#include "check/observe.h"
#include "machine/alloc.h"
#include "machine/async.h"
#include "machine/registers.h"
#include "machine/report.h"

static inline void note_progress(Cluster *cl) {
  cl->progress++;
}

/* A strong read, a wait that found its phase not complete, or an atomic that changed nothing. */
static inline void note_poll(Cluster *cl) {
  cl->polled = true;
}

static inline Step block(Ctx *c, WaitKind k, u32 rank, u32 addr, u64 want) {
  c->sp->why = (Why){k, rank, addr, want};
  return STEP_BLOCK;
}

/* ---- addresses in the shared window: the CTA's rank, and an offset in its window ---------------- */
static inline u32 window_rank(u32 address) {
  return address >> WINDOW_RANK_SHIFT;
}

static inline u32 window_offset(u32 address) {
  return address & ((1u << WINDOW_RANK_SHIFT) - 1);
}

static inline u32 window_at(u32 rank, u32 offset) {
  return rank << WINDOW_RANK_SHIFT | offset;
}

/* ---- warps (warp/control.c) ------------------------------------------------------------------- */
/* Bring the lanes of `members` together at this instruction; STEP_NEXT when c->mask covers them. */
Step warp_converge(Ctx *c, u32 members);
/* An instruction whose lanes act one after the other, each seen by itself. */
Step lane_by_lane(Ctx *c, const Ins *i, Step (*act)(Ctx *c, const Ins *i, u32 lane));

static inline u32 live_lanes(const Warp *w) {
  return w->lanes & ~w->exited;
}

/* ---- handler tables: each family file defines one ------------------------------------------- */
typedef struct {
  const char *name;
  Handler fn;
} OpDef;

#define OP_TABLE(family) const OpDef ops_##family[]
#endif
