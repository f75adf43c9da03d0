/* Cluster barrier, DSMEM addresses, cluster launch control (PTX ISA, "barrier.cluster", "mapa", "getctarank",
 * "clusterlaunchcontrol"). */
#include "machine/core.h"
#include "sync/mbarrier.h"
#include "memory/timing.h"

/* ---- barrier.cluster ------------------------------------------------------------------------- */
static void try_complete(Cluster *cl) {
  for (u32 r = 0; r < cl->n_ctas; r++)
    for (u32 w = 0; w < cl->ctas[r].n_warps; w++) {
      const Warp *x = &cl->ctas[r].warps[w];
      if (live_lanes(x) & ~x->cluster_in)
        return;
    }
  for (u32 r = 0; r < cl->n_ctas; r++)
    for (u32 w = 0; w < cl->ctas[r].n_warps; w++) {
      Warp *x = &cl->ctas[r].warps[w];
      x->cluster_out |= x->cluster_in;
      x->cluster_in = 0;
    }
  cl->bar_generation++;
  cl->bar_arrived = 0;
  see_flip(cl, &cl->bar_check);
  cl->bar_t_done = cl->bar_t + T_CLUSTER_BARRIER;
  cl->bar_t = 0;
  note_progress(cl);
}

/* .aligned: all threads of the warp execute the instruction together. */
static Step meet(Ctx *c, const Ins *i) {
  return i->form.cluster_barrier.aligned ? warp_converge(c, live_lanes(c->w)) : STEP_NEXT;
}

/* A relaxed arrival orders nothing. */
static Step op_arrive(Ctx *c, const Ins *i) {
  Warp *w = c->w;
  Cluster *cl = c->cl;
  Step s = meet(c, i);
  if (s != STEP_NEXT)
    return s;
  u32 again = c->mask & (w->cluster_in | w->cluster_out);
  if (again)
    return fault(c, "cluster-barrier", "lanes %08x arrive again without barrier.cluster.wait", again);
  w->cluster_in |= c->mask;
  cl->bar_arrived += (u32)__builtin_popcount(c->mask);
  see_arrive(c, &cl->bar_check, SCOPE_CLUSTER | (i->form.cluster_barrier.relaxed ? 0 : ORDER_RELEASE));
  if (c->sp->t > cl->bar_t)
    cl->bar_t = c->sp->t;
  note_progress(cl);
  try_complete(cl);
  return STEP_NEXT;
}

static Step op_wait(Ctx *c, const Ins *i) {
  Warp *w = c->w;
  Cluster *cl = c->cl;
  Step s = meet(c, i);
  if (s != STEP_NEXT)
    return s;
  u32 lost = c->mask & ~(w->cluster_in | w->cluster_out);
  if (lost)
    return fault(c, "cluster-barrier", "lanes %08x wait without barrier.cluster.arrive", lost);
  try_complete(cl); /* threads that exit count as arrived */
  if (c->mask & w->cluster_in)
    return block(c, WAIT_CLUSTER, 0, 0, cl->bar_generation);
  w->cluster_out &= ~c->mask;
  see_acquire(c, &cl->bar_check);
  if (cl->bar_t_done > c->sp->t)
    c->sp->t = cl->bar_t_done;
  return STEP_NEXT;
}

/* ---- addresses ------------------------------------------------------------------------------- */
#define NO_RANK 0xFFu /* no CTA has it: a use of the address is refused */

/* mapa: s: address, rank; imm: offset.  Generic addresses keep their window.
 * A rank beyond the cluster is no error yet: kernels map for all lanes and use only those that exist. */
static Step op_mapa(Ctx *c, const Ins *i) {
  const u32 *ranks = R32(c, i->s[1]);
  FOR_LANES (c->mask, l) {
    u32 rank = ranks[l] < c->cl->n_ctas ? ranks[l] : NO_RANK;
    if (i->form.window.wide) {
      u64 a = R64(c, i->s[0])[l] + (u64)i->imm;
      R64(c, i->d[0])[l] = a >> 32 << 32 | window_at(rank, window_offset((u32)a));
    } else
      R32(c, i->d[0])[l] = window_at(rank, window_offset(R32(c, i->s[0])[l] + (u32)i->imm));
  }
  return STEP_NEXT;
}

static Step op_getctarank(Ctx *c, const Ins *i) {
  FOR_LANES (c->mask, l) {
    u32 a = i->form.window.wide ? (u32)R64(c, i->s[0])[l] : R32(c, i->s[0])[l];
    R32(c, i->d[0])[l] = window_rank(a);
  }
  return STEP_NEXT;
}

/* ---- cluster launch control ------------------------------------------------------------------- */
/* The opaque response: x | y << 32, and z | cancelled << 63. */
typedef struct {
  u64 response[2];
  u32 dst, mbar, ranks;
} Cancel;

#define CANCELLED (1ull << 63)

static void cancel_land(Machine *m, AsyncOp *op) {
  const Cancel *q = (const Cancel *)op->payload;
  Cluster *cl = op->cta->cl;
  for (u32 r = 0; r < cl->n_ctas; r++) {
    if (!(q->ranks >> r & 1))
      continue;
    Cta *owner;
    const char *err;
    u8 *p = smem_at(cl, op->cta, window_at(r, q->dst), 16, false, &owner, &err);
    if (!p) {
      fault_async(m, op, "shared-address", "the response at CTA %u + 0x%x: %s", r, q->dst, err);
      return;
    }
    memcpy(p, q->response, 16);
    see_smem(NULL, op, owner, q->dst, 16, ACC_WRITE, PROXY_ASYNC);
    if (!mbar_land_tx(m, op, owner, q->mbar, 16))
      return;
  }
}

/* clusterlaunchcontrol.try_cancel.async.  s: response address, mbarrier; imm: offset of the first. */
static Step op_try_cancel(Ctx *c, const Ins *i) {
  FOR_LANES (c->mask, l) {
    const CancelForm *f = &i->form.cancel;
    Access dst = {i->s[0], f->address_bits, i->imm, (Space)f->space, 16, 16, ACC_WRITE};
    u8 *p;
    Cta *owner;
    u32 bar;
    Access mbar = mbar_access(i->s[1], f->bar_bits, f->bar_offset, (Space)f->space);
    Step s = resolve_lane(c, &dst, l, &p, &owner);
    if (s != STEP_NEXT || (s = mbar_issue(c, &mbar, l, &bar)) != STEP_NEXT)
      return s;
    if (owner != c->cta || window_rank(bar) != c->cta->rank)
      return fault(c, "shared-address", "response and mbarrier must lie in the executing CTA");
    AsyncOp *op = async_new(c, FIFO_NONE, 0, cancel_land, sizeof(Cancel));
    Cancel *q = (Cancel *)op->payload;
    u64 index;
    q->dst = smem_offset(owner, p);
    q->mbar = window_offset(bar);
    q->ranks = f->everywhere ? (1u << c->cl->n_ctas) - 1 : 1u << c->cta->rank;
    if (take_over(c->m, c->cl, &index)) {
      u32 id[3];
      cluster_id(&c->m->opt, index, id);
      const u32 *shape = c->m->opt.cluster;
      q->response[0] = id[0] * shape[0] | (u64)(id[1] * shape[1]) << 32;
      q->response[1] = id[2] * shape[2] | CANCELLED;
    }
    op->t_done = c->sp->t + T_TMA_LATENCY;
    async_submit(c->cl, op);
    if (c->m->faulted)
      return STEP_FAULT;
  }
  return STEP_NEXT;
}

static Step op_is_cancelled(Ctx *c, const Ins *i) {
  u32 bits = 0;
  FOR_LANES (c->mask, l)
    bits |= (u32)(R128HI(c, i->s[0])[l] >> 63) << l;
  set_pred(c, i->d[0], bits);
  return STEP_NEXT;
}

/* get_first_ctaid of a cancelled cluster.
 * Without a grant the result is undefined (PTX ISA): all ones here, for compilers read it speculatively. */
static Step op_first_ctaid(Ctx *c, const Ins *i) {
  FOR_LANES (c->mask, l) {
    u64 lo = R128LO(c, i->s[0])[l], hi = R128HI(c, i->s[0])[l];
    u32 id[4] = {(u32)lo, (u32)(lo >> 32), (u32)hi, 0};
    for (u32 k = 0; k < i->nd; k++)
      R32(c, i->d[k])[l] = hi & CANCELLED ? id[i->form.cancel.axes[k] & 3] : NONE32;
  }
  return STEP_NEXT;
}

OP_TABLE(cluster) = {{"CLUSTER_ARRIVE", op_arrive},
                     {"CLUSTER_WAIT", op_wait},
                     {"MAPA", op_mapa},
                     {"GETCTARANK", op_getctarank},
                     {"TRY_CANCEL", op_try_cancel},
                     {"IS_CANCELLED", op_is_cancelled},
                     {"FIRST_CTAID", op_first_ctaid},
                     {NULL, NULL}};
