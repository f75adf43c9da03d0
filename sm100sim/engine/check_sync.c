/* Happens-before edges: releases, acquires, fences and the ends of asynchronous groups. */
#include "check.h"

static const Mbar *mbar_of(const Cluster *cl, void **object, u32 *rank) {
  for (u32 r = 0; r < cl->n_ctas; r++) {
    const Cta *cta = &cl->ctas[r];
    if ((void *)object >= (void *)cta->mbars && (void *)object < (void *)(cta->mbars + cta->n_mbars)) {
      *rank = r;
      return (const Mbar *)((const char *)object - offsetof(Mbar, check));
    }
  }
  return NULL;
}
static SyncObject *object_of(Check *k, const Cluster *cl, void **object) {
  if (*object) return *object;
  SyncObject *o = calloc(1, sizeof *o);
  o->acc = clock_new(k->dims); o->pub = clock_new(k->dims);
  const Mbar *b = mbar_of(cl, object, &o->rank);
  if (b) { o->is_mbar = true; o->offset = b->offset; o->dim = k->mbar0 + k->n_mbar++ % MAX_MBAR_DIMS; }
  if (k->n_objects == k->cap_objects) {
    k->cap_objects = k->cap_objects ? 2 * k->cap_objects : 64;
    k->objects = realloc(k->objects, k->cap_objects * sizeof *k->objects);
  }
  k->objects[k->n_objects++] = o;
  return *object = o;
}
/* Other agents than the initialising CTA's own threads may use an mbarrier only after its initialiser has
 * executed fence.mbarrier_init (PTX ISA, "membar/fence"): asynchronous work, and threads of other CTAs. */
static void init_must_be_fenced(Ctx *c, AsyncOp *op, const Check *k, SyncObject *o) {
  if (!k->protocol || !o->is_mbar || o->fenced || o->told || (!op && c->cta->rank == o->rank)) return;
  o->told = true;
  Ctx d = c ? *c : (Ctx){.m = op->cta->cl->m, .cl = op->cta->cl, .cta = op->cta, .w = op->warp, .ins = op->ins, .mask = 1u << (op->lane & 31)};
  finding(&d, 0, "mbarrier-init-not-fenced", "%s uses the mbarrier at CTA %u + 0x%x, whose initialiser has not executed fence.mbarrier_init",
          op ? "asynchronous work" : "a thread of another CTA", o->rank, o->offset);
}
void see_release(Ctx *c, AsyncOp *op, void **object) {
  const Cluster *cl = c ? c->cl : op->cta->cl;
  Check *k = cl->m->check;
  if (!k) return;
  SyncObject *o = object_of(k, cl, object);
  init_must_be_fenced(c, op, k, o);
  if (op) {
    clock_join(&o->acc, (Clock *)(uintptr_t)op->clock_id, k->dims);
    if (op->fifo == FIFO_NONE && o->is_mbar) k->ops[op_id(op, k->landing)] = (OpDone){o->dim, o->flips + 1, 0, 0};
    return;
  }
  u32 w = warp_dim(k, c->cta, c->w->index);
  clock_join(&o->acc, &k->warps[w], k->dims);
  k->warps[w].vc[w]++;
}
/* A phase of an mbarrier, or a generation of another barrier, ended: what arrived in it becomes visible to its
 * waiters.  What arrives for the next one must not, even if a waiter goes on late. */
void see_flip(Cluster *cl, void **object) {
  Check *k = cl->m->check;
  if (!k) return;
  SyncObject *o = object_of(k, cl, object);
  o->flips++;
  if (o->is_mbar) o->acc.vc[o->dim] = o->flips;
  clock_copy(&o->pub, &o->acc, k->dims);
}
void see_acquire(Ctx *c, void **object) {
  Check *k = c->m->check;
  if (!k) return;
  SyncObject *o = object_of(k, c->cl, object);
  clock_join(&k->warps[warp_dim(k, c->cta, c->w->index)], &o->pub, k->dims);
}
static void fence_inits(Ctx *c, Check *k) {
  for (u32 b = 0; b < c->cta->n_mbars; b++) {
    Mbar *m = &c->cta->mbars[b];
    if (m->live && m->init_warp == c->w->index) object_of(k, c->cl, &m->check)->fenced = true;
  }
}
void see_fence(Ctx *c, u32 kind) {
  Check *k = c->m->check;
  if (!k) return;
  u32 w = warp_dim(k, c->cta, c->w->index);
  Clock *own = &k->warps[w];
  switch (kind) {
    case FENCE_PROXY_ASYNC: memcpy(own->ac, own->vc, k->dims * sizeof(u32)); own->vc[w]++; break;
    case FENCE_MBARRIER_INIT: fence_inits(c, k); break;
    case FENCE_WAIT_ST: own->vc[k->st0 + w] = k->st_seq[w]; break;
    default: break;
  }
}
/* Bulk groups of a thread: a commit closes the open one, a wait for all but `pending` learns of the others. */
void see_bulk_commit(Ctx *c) {
  Check *k = c->m->check;
  if (k) k->bulk_group[warp_dim(k, c->cta, c->w->index)]++;
}
void see_bulk_wait(Ctx *c, u32 pending, bool read_only) {
  Check *k = c->m->check;
  if (!k) return;
  u32 w = warp_dim(k, c->cta, c->w->index), closed = k->bulk_group[w] - 1;
  u32 done = closed > pending ? closed - pending : 0;
  u32 *read = &k->warps[w].vc[k->bulk_read0 + w], *all = &k->warps[w].vc[k->bulk_all0 + w];
  if (done > *read) *read = done;
  if (!read_only && done > *all) *all = done;
}
void see_cp_wait(Ctx *c, u32 landed) {
  Check *k = c->m->check;
  if (!k) return;
  u32 w = warp_dim(k, c->cta, c->w->index);
  if (landed > k->warps[w].vc[k->cp0 + w]) k->warps[w].vc[k->cp0 + w] = landed;
}
/* Shared memory of a CTA dies with it: what other CTAs and their MMA queues signalled to its barriers must have
 * been seen by one of its threads before the last of them leaves (PTX ISA, "Distributed shared memory"; the
 * hardware raises "cluster target block not present" otherwise). */
static void exit_must_be_last(Ctx *c, const Check *k) {
  const Cta *cta = c->cta;
  for (u32 w = 0; w < cta->n_warps; w++) if (live_lanes(&cta->warps[w])) return;
  u32 first = warp_dim(k, cta, 0);
  for (u32 o = 0; o < k->n_objects; o++) {
    const SyncObject *b = k->objects[o];
    if (!b->is_mbar || b->rank != cta->rank) continue;
    for (u32 d = 0; d < k->st0; d++) {
      bool own = (d >= first && d < first + cta->n_warps) || d == k->mma0 + cta->rank;
      u32 seen = 0;
      for (u32 w = 0; w < cta->n_warps; w++) seen = seen > k->warps[first + w].vc[d] ? seen : k->warps[first + w].vc[d];
      if (own || b->acc.vc[d] <= seen) continue;
      finding(c, 0, "cta-exits-early", "CTA %u exits although no thread of it has seen the last signal of %s %u to its mbarrier at 0x%x",
              cta->rank, d < k->mma0 ? "warp" : "the MMA pipe of CTA", d < k->mma0 ? d % k->warps_per_cta : d - k->mma0, b->offset);
      return;
    }
  }
}
/* Copies from shared memory must have been read before their thread leaves (PTX ISA, "cp.async.bulk.wait_group"). */
void see_exit(Ctx *c) {
  const Check *k = c->m->check;
  if (!k || !k->protocol || live_lanes(c->w)) return;
  u32 w = warp_dim(k, c->cta, c->w->index);
  if (k->bulk_stored[w] > k->warps[w].vc[k->bulk_read0 + w])
    finding(c, 0, "bulk-group-not-waited", "warp %u of CTA %u exits without cp.async.bulk.wait_group for its copies from shared memory", c->w->index, c->cta->rank);
  if (c->cl->n_ctas > 1) exit_must_be_last(c, k);
}
