/* Happens-before edges: releases, acquires, phases of barriers, fences. */
#include "check/check.h"

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

SyncObject *object_of(Check *check, const Cluster *cl, void **object) {
  if (*object)
    return *object;
  SyncObject *o = mem_new(check->machine, 1, sizeof *o);
  const Mbar *b = mbar_of(cl, object, &o->rank);
  if (b) {
    o->is_mbar = true;
    o->offset = b->offset;
    if (check->n_mbar_dims < MAX_MBAR_DIMS)
      check->n_mbar_dims++;
    else
      cl->m->lost = true; /* two objects share a dimension from here on */
    o->dim = check->first.mbar + check->n_mbar_dims - 1;
    if (check->strict_scope) {
      o->near = clock_new(check);
      o->near_pub = clock_new(check);
    }
    o->waited = mem_new(check->machine, check->n_warps, sizeof(u32));
    o->wait_line = mem_new(check->machine, check->n_warps, sizeof(u32));
  } else
    o->generation = mem_new(check->machine, check->n_warps, sizeof(u32));
  o->acc = clock_new(check);
  for (u32 g = 0; g < (b ? 1 : PUBLISHED); g++)
    o->pub[g] = clock_new(check);
  check->objects = mem_grow(check->machine, check->objects, check->n_objects, &check->cap_objects,
                            sizeof *check->objects);
  check->objects[check->n_objects++] = o;
  return *object = o;
}

static Ctx async_ctx(const AsyncOp *op) {
  return (Ctx){.m = op->cta->cl->m,
               .cl = op->cta->cl,
               .cta = op->cta,
               .w = op->warp,
               .ins = op->ins,
               .mask = lane_bit(op->lane)};
}

/* To the letter, a signal carries the tcgen05 work of its own warp as far as the last
 * tcgen05.fence::before_thread_sync, which a commit includes; what others have published goes on through any signal
 * (CHECK_STRICT_FENCE). */
void publish(const Check *check, u32 *into, const u32 *from, u32 w) {
  if (!check->strict_fence)
    return;
  for (u32 d = w; d < check->first.bulk_read; d += check->n_warps)
    into[check->first.tensor + d] = most(into[check->first.tensor + d], from[d]);
}

static void release_async(Check *check, AsyncOp *op, SyncObject *o) {
  const Issue *issue = issue_of(op);
  Ctx c = async_ctx(op);
  u32 w = warp_dim(check, op->cta, op->warp->index);
  mbar_use(&c, op, check, o, issue->at);
  for (u32 near = 0; near < (o->near ? 2 : 1); near++) {
    Clock into = near ? o->near : o->acc;
    clock_join(check, into, issue->at);
    if (op->fifo == FIFO_CP_ASYNC)
      into[check->first.cp + w] = most(into[check->first.cp + w], issue->epoch);
    else if (issue->epoch)
      publish(check, into, issue->at, w);
  }
  o->last_line = op->line;
}

/* A relaxed signal: what a release fence of its scope covers; Tensor Memory before a tcgen05.fence, initialisations
 * before a fence.mbarrier_init; and that the warp has come this far. */
static void fenced_signal(const Ctx *c, Check *check, Clock into, u32 w, u32 scope) {
  Clock from = check->released[w][scope - 1];
  if (!from)
    return;
  clock_join(check, into, from);
  lanes_mark_fenced(c, check, w, scope - 1, into);
}

static void relaxed_signal(const Ctx *c, Check *check, Clock into, u32 w) {
  const u32 *own = lanes_view(check, w, c->mask);
  if (check->before_fence[w])
    raise_to(into + check->first.tensor, check->before_fence[w], check->first.bulk_read);
  if (check->strict_fence)
    raise_to(into + check->first.tensor, own + check->first.tensor, check->first.bulk_read);
  into[check->first.init + w] = most(into[check->first.init + w], own[check->first.init + w]);
  for (u32 d = 0; d < check->n_warps; d++)
    into[check->first.executed + d] = most(into[check->first.executed + d], executed(check, own, d));
}

/* A relaxed wait: memory only after an acquire fence; Tensor Memory and execution at once, for tcgen05.fence::
 * after_thread_sync is not asked for (shipped kernels have none, and it is no instruction of the chip). */
static void relaxed_wait(const Check *check, Clock own, const u32 *from) {
  if (!check->strict_fence)
    raise_to(own + check->first.tensor, from, check->first.bulk_read);
  raise_to(own + check->first.tensor, from + check->first.tensor, check->first.bulk_read);
  raise_to(own + check->first.init, from + check->first.init, check->n_warps);
  raise_to(own + check->first.executed, from + check->first.executed, check->n_warps);
}

/* To the letter (CHECK_STRICT_SCOPE), a release of CTA scope carries no memory to a barrier of another CTA, on which
 * only threads of that one can wait. */
void see_arrive(Ctx *c, void **object, u32 order) {
  Check *check = c->m->check;
  if (!check)
    return;
  SyncObject *o = object_of(check, c->cl, object);
  u32 w = warp_dim(check, c->cta, c->w->index);
  const u32 *own = lanes_view(check, w, c->mask);
  if (o->is_mbar) {
    mbar_use(c, NULL, check, o, own);
    mbar_arrival(c, check, o, own);
  } else
    o->generation[w] = o->flips;
  bool far = o->near && cta_of(check, w) != o->rank, reaches = !far || (order & ORDER_SCOPE) >= SCOPE_CLUSTER;
  for (u32 near = 0; near < (o->near && !far ? 2 : 1); near++) {
    Clock into = near ? o->near : o->acc;
    if (order & ORDER_RELEASE && reaches) {
      lanes_release(c, check, w, into);
      continue;
    }
    if (reaches && !(order & ORDER_RELEASE))
      fenced_signal(c, check, into, w, far ? SCOPE_CLUSTER : SCOPE_CTA);
    relaxed_signal(c, check, into, w);
  }
  check->warps[w][w]++;
  o->last_line = c->ins->line;
}

void see_release(Ctx *c, AsyncOp *op, void **object) {
  if (!op) {
    see_arrive(c, object, ORDER_SCOPE | ORDER_RELEASE);
    return;
  }
  Check *check = op->cta->cl->m->check;
  if (!check)
    return;
  SyncObject *o = object_of(check, op->cta->cl, object);
  Ctx d = async_ctx(op);
  mbar_arrival(&d, check, o, issue_of(op)->at);
  release_async(check, op, o);
}

void see_remote_commit(const AsyncOp *op, void **object) {
  Check *check = op->cta->cl->m->check;
  if (!check)
    return;
  SyncObject *o = object_of(check, op->cta->cl, object);
  o->commit_phase = o->flips + 1;
}

/* The bytes of a copy are complete: the copy is over for all who see this phase end.  An instruction
 * mbarrier.complete_tx is relaxed and orders nothing. */
void see_complete_tx(Ctx *c, AsyncOp *op, void **object) {
  const Cluster *cl = op ? op->cta->cl : c->cl;
  Check *check = cl->m->check;
  if (!check)
    return;
  SyncObject *o = object_of(check, cl, object);
  if (!op)
    return;
  release_async(check, op, o);
  o->tx_phase = o->flips + 1;
  OpDone *done = &check->past->ops[issue_of(op)->id];
  for (u32 r = 0; r < check->n_ctas; r++)
    if (r == check->landing || !done[r].epoch) {
      done[r].dim = o->dim;
      done[r].epoch = o->flips + 1;
    }
}

/* A phase of an mbarrier, or a generation of another barrier, ended: what arrived in it becomes visible to its
 * waiters.  What arrives for the next one must not, even if a waiter goes on late. */
void see_flip(Cluster *cl, void **object) {
  Check *check = cl->m->check;
  if (!check)
    return;
  SyncObject *o = object_of(check, cl, object);
  if (o->is_mbar) {
    mbar_phase_end(cl, check, o);
    o->acc[o->dim] = ++o->flips;
    clock_copy(check, o->pub[0], o->acc);
    if (o->near) {
      o->near[o->dim] = o->flips;
      clock_copy(check, o->near_pub, o->near);
    }
    return;
  }
  clock_copy(check, o->pub[o->flips++ % PUBLISHED], o->acc);
  memset(o->acc, 0, check->clock_words * sizeof(u32));
}

Clock pending(const Ctx *c, Check *check, u32 w, u32 level) {
  if (!check->pending[w][level])
    check->pending[w][level] = clock_new(check);
  check->pended[w][level] |= lanes_partial(c, check) ? c->mask : NONE32;
  return check->pending[w][level];
}

void see_wait(Ctx *c, void **object, u32 order) {
  Check *check = c->m->check;
  if (!check)
    return;
  SyncObject *o = object_of(check, c->cl, object);
  u32 w = warp_dim(check, c->cta, c->w->index);
  if (o->is_mbar) {
    mbar_use(c, NULL, check, o, lanes_view(check, w, c->mask));
    o->observed = true;
    o->waited[w] = check->warps[w][w];
    o->wait_line[w] = c->ins->line;
    bool wide = !o->near || (order & ORDER_SCOPE) >= SCOPE_CLUSTER;
    if (!(order & ORDER_ACQUIRE)) {
      clock_join(check, pending(c, check, w, 0), o->near ? o->near_pub : o->pub[0]);
      if (o->near && wide)
        clock_join(check, pending(c, check, w, SCOPE_CLUSTER - 1), o->pub[0]);
    }
    if (!(order & ORDER_ACQUIRE) || !wide) {
      FOR_CLOCKS (c, check, w, own)
        relaxed_wait(check, own, o->pub[0]);
    }
    if (order & ORDER_ACQUIRE) {
      lanes_acquire(c, check, w, wide ? o->pub[0] : o->near_pub);
      check->met[w] = most(check->met[w], o->pub[0][w]);
    }
    return;
  }
  if (o->flips - o->generation[w] > PUBLISHED)
    c->m->lost = true;
  lanes_acquire(c, check, w, o->pub[o->generation[w] % PUBLISHED]);
  check->met[w] = most(check->met[w], o->pub[o->generation[w] % PUBLISHED][w]);
}

/* bar.warp.sync orders what the lanes of a warp did before with what any of them does after. */
void see_warp_sync(Ctx *c, u32 members) {
  Check *check = c->m->check;
  bool all = !(live_lanes(c->w) & ~members);
  if (!check || !(all || check->strict_lanes))
    return;
  u32 w = warp_dim(check, c->cta, c->w->index);
  if (all)
    lanes_meet(check, w);
  else {
    Ctx some = *c;
    Clock met = clock_new(check);
    some.mask = members & live_lanes(c->w);
    lanes_release(&some, check, w, met);
    lanes_acquire(&some, check, w, met);
    mem_free(met);
  }
  check->warps[w][w]++;
}

void see_acquire(Ctx *c, void **object) {
  see_wait(c, object, ORDER_SCOPE | ORDER_ACQUIRE);
}
