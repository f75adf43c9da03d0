/* tcgen05.commit: an mbarrier arrival when the prior MMAs, copies and shifts of the thread are complete
 * (PTX ISA, "tcgen05.commit"), and the modelled occupancy of the tensor pipe. */
#include "mma/mma.h"
#include "sync/mbarrier.h"

void pipe_occupy(Ctx *c, AsyncOp *op, u32 key, u64 cycles, u64 fixed, u64 *start) {
  Cluster *cl = c->cl;
  *start = op->t_issue > cl->mma_free_at[key] ? op->t_issue : cl->mma_free_at[key];
  cl->mma_free_at[key] = *start + cycles;
  op->t_done = *start + cycles + fixed;
  if (op->t_done > cl->mma_done_at[key])
    cl->mma_done_at[key] = op->t_done;
}

typedef struct {
  u32 offset, ranks;
  bool travels;
} Commit; /* travels: only arrivals in other CTAs are left */

/* The last commit of a shipped kernel frees buffers that nobody loads again, and nobody waits for it: it is lost when
 * the CTA has gone (docs/originals.md). */
static bool commit_arrive(Machine *m, AsyncOp *op, u32 offset, u32 rank) {
  Cluster *cl = op->cta->cl;
  Cta *cta = &cl->ctas[rank];
  if (cta->exited) {
    Ctx c = landing_ctx(m, op);
    finding(&c, 0, "exited-cta", "commit arrives in CTA %u, which has exited", rank);
    return true;
  }
  Mbar *b = mbar_at(cta, offset);
  if (!b) {
    fault_async(m, op, "no-mbarrier", "no live mbarrier at offset 0x%x of CTA %u", offset, rank);
    return false;
  }
  if (cta != op->cta)
    see_remote_commit(op, &b->check);
  see_release(NULL, op, &b->check);
  const char *rule = mbar_arrive(cl, b, 1, op->t_done);
  if (rule)
    fault_async(m, op, "mbarrier-arrive", "mbarrier at offset 0x%x of CTA %u: %s", offset, rank, rule);
  return !rule;
}

/* The arrival in the own CTA comes in order with the MMAs.  Nothing promises in which order the signals of several
 * commits reach another CTA, so each of those is queued again and lands at any later moment. */
static void commit_land(Machine *m, AsyncOp *op) {
  Commit *q = (Commit *)op->payload;
  u32 own = q->ranks & 1u << op->cta->rank;
  bool first = !q->travels;
  if (own && !commit_arrive(m, op, q->offset, op->cta->rank))
    return;
  q->ranks &= ~own;
  if (q->ranks && !first) {
    u32 rank = first_lane(q->ranks);
    if (!commit_arrive(m, op, q->offset, rank))
      return;
    q->ranks &= q->ranks - 1;
  }
  op->fifo = FIFO_NONE;
  q->travels = true;
  op->again = q->ranks != 0;
}

/* A commit covers the operations of its own thread only: name a thread whose work it misses. */
static void commit_owner_lint(Ctx *c, u32 group) {
  for (u32 h = 0; h < group; h++) {
    const Cta *cta = h ? cta_peer(c->cta) : c->cta;
    for (u32 w = 0; w < cta->n_warps && w < MAX_WARPS; w++)
      if (cta->mma_open[w]) {
        finding(c, 0, "commit-other-thread",
                "this thread issued no MMA or copy; lane %u of warp %u in CTA %u did and has not committed",
                first_lane(cta->mma_open[w]), w, cta->rank);
        return;
      }
  }
}

static Step commit_ranks(Ctx *c, const Ins *i, u32 addr, u32 *ranks) {
  u32 lane = first_lane(c->mask), all = (1u << c->cl->n_ctas) - 1;
  *ranks = i->form.tmem.multicast ? R32(c, i->s[1])[lane] & 0xFFFF : lane_bit(window_rank(addr));
  if (i->form.tmem.multicast && !*ranks)
    return fault(c, "multicast-mask", "the multicast mask is empty");
  if (*ranks & ~all)
    return fault(c, "multicast-mask", "mask 0x%x names CTAs outside the cluster of %u", *ranks, c->cl->n_ctas);
  return STEP_NEXT;
}

/* tcgen05.commit.cta_group::{1,2}.mbarrier::arrive::one{.shared::cluster}{.multicast::cluster}.b64 [mbar]{, mask}.
 * s: mbar, mask; imm: address offset. */
static Step op_commit(Ctx *c, const Ins *i) {
  Step s;
  u32 addr, ranks;
  Cta *owner;
  const char *err;
  if ((s = single_lane(c, "tcgen05.commit")) != STEP_NEXT || (s = tcgen05_group(c, i->form.tmem.group)) != STEP_NEXT)
    return s;
  if ((s = shared_operand(c, i->s[0], i->form.tmem.address_bits, i->imm, i->form.tmem.generic, &addr)) != STEP_NEXT)
    return s;
  if (addr & 7)
    return fault(c, "misaligned", "mbarrier address 0x%x is not a multiple of 8", addr);
  if (!smem_at(c->cl, c->cta, addr, 8, false, &owner, &err))
    return fault(c, "mbarrier-address", "mbarrier 0x%x: %s", addr, err);
  if ((s = commit_ranks(c, i, addr, &ranks)) != STEP_NEXT)
    return s;
  bool own_work = c->cta->mma_lanes[c->w->index] & c->mask;
  if (!own_work)
    commit_owner_lint(c, i->form.tmem.group);
  c->cta->mma_open[c->w->index] &= ~c->mask;
  u32 key = mma_fifo_key(c->cta, i->form.tmem.group);
  /* A thread without work of its own waits for nobody: its arrival may come before other threads' MMAs. */
  AsyncOp *op = async_new(c, own_work ? FIFO_MMA : FIFO_NONE, key, commit_land, sizeof(Commit));
  *(Commit *)op->payload = (Commit){window_offset(addr), ranks, false};
  if (own_work && c->cl->mma_done_at[key] > op->t_done)
    op->t_done = c->cl->mma_done_at[key];
  async_submit(c->cl, op);
  return c->m->faulted ? STEP_FAULT : STEP_NEXT;
}

OP_TABLE(tcopy) = {{"TMEM_CP", op_copy}, {"MMA_COMMIT", op_commit}, {NULL, NULL}};
