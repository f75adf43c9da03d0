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

SyncObject *object_of(Check *k, const Cluster *cl, void **object) {
  if (*object)
    return *object;
  SyncObject *o = calloc(1, sizeof *o);
  const Mbar *b = mbar_of(cl, object, &o->rank);
  if (b) {
    o->is_mbar = true;
    o->offset = b->offset;
    if (k->n_mbar < MAX_MBAR_DIMS)
      k->n_mbar++;
    else
      cl->m->lost = true; /* two objects share a dimension from here on */
    o->dim = k->mbar0 + k->n_mbar - 1;
    if (k->strict_scope) {
      o->near = clock_new(k);
      o->near_pub = clock_new(k);
    }
    o->waited = calloc(k->n_warps, sizeof(u32));
    o->wait_line = calloc(k->n_warps, sizeof(u32));
  } else
    o->generation = calloc(k->n_warps, sizeof(u32));
  o->acc = clock_new(k);
  for (u32 g = 0; g < (b ? 1 : PUBLISHED); g++)
    o->pub[g] = clock_new(k);
  k->objects = grow(k->objects, k->n_objects, &k->cap_objects, sizeof *k->objects);
  k->objects[k->n_objects++] = o;
  return *object = o;
}

static Ctx async_ctx(const AsyncOp *op) {
  return (Ctx){.m = op->cta->cl->m,
               .cl = op->cta->cl,
               .cta = op->cta,
               .w = op->warp,
               .ins = op->ins,
               .mask = 1u << (op->lane & 31)};
}

/* To the letter, a signal carries the tcgen05 work of its own warp as far as the last
 * tcgen05.fence::before_thread_sync, which a commit includes; what others have published goes on through any signal
 * (CHECK_STRICT_FENCE). */
static void publish(const Check *k, u32 *into, const u32 *from, u32 w) {
  if (!k->strict_fence)
    return;
  for (u32 d = w; d < k->bulk_read0; d += k->n_warps)
    into[k->tensor0 + d] = most(into[k->tensor0 + d], from[d]);
}

static void release_async(Check *k, AsyncOp *op, SyncObject *o) {
  const Issue *issue = issue_of(op);
  Ctx c = async_ctx(op);
  u32 w = warp_dim(k, op->cta, op->warp->index);
  mbar_use(&c, op, k, o, issue->at);
  for (u32 near = 0; near < (o->near ? 2 : 1); near++) {
    Clock into = near ? o->near : o->acc;
    clock_join(k, into, issue->at);
    if (op->fifo == FIFO_CP_ASYNC)
      into[k->cp0 + w] = most(into[k->cp0 + w], issue->epoch);
    else if (issue->epoch)
      publish(k, into, issue->at, w);
  }
  o->last_line = op->line;
}

/* A relaxed signal: what a release fence of its scope covers; Tensor Memory before a tcgen05.fence, initialisations
 * before a fence.mbarrier_init; and that the warp has come this far. */
static void fenced_signal(const Ctx *c, Check *k, Clock into, u32 w, u32 scope) {
  Clock from = k->rel[w][scope - 1];
  if (!from)
    return;
  clock_join(k, into, from);
  lanes_mark_fenced(c, k, w, scope - 1, into);
}

static void relaxed_signal(const Ctx *c, Check *k, Clock into, u32 w) {
  const u32 *own = lanes_view(k, w, c->mask);
  if (k->before[w])
    raise_to(into + k->tensor0, k->before[w], k->bulk_read0);
  if (k->strict_fence)
    raise_to(into + k->tensor0, own + k->tensor0, k->bulk_read0);
  into[k->init0 + w] = most(into[k->init0 + w], own[k->init0 + w]);
  for (u32 d = 0; d < k->n_warps; d++)
    into[k->exec0 + d] = most(into[k->exec0 + d], executed(k, own, d));
}

/* A relaxed wait: memory only after an acquire fence; Tensor Memory and execution at once, for tcgen05.fence::
 * after_thread_sync is not asked for (shipped kernels have none, and it is no instruction of the chip). */
static void relaxed_wait(const Check *k, Clock own, const u32 *from) {
  if (!k->strict_fence)
    raise_to(own + k->tensor0, from, k->bulk_read0);
  raise_to(own + k->tensor0, from + k->tensor0, k->bulk_read0);
  raise_to(own + k->init0, from + k->init0, k->n_warps);
  raise_to(own + k->exec0, from + k->exec0, k->n_warps);
}

/* To the letter (CHECK_STRICT_SCOPE), a release of CTA scope carries no memory to a barrier of another CTA, on which
 * only threads of that one can wait. */
void see_arrive(Ctx *c, void **object, u32 order) {
  Check *k = c->m->check;
  if (!k)
    return;
  SyncObject *o = object_of(k, c->cl, object);
  u32 w = warp_dim(k, c->cta, c->w->index);
  const u32 *own = lanes_view(k, w, c->mask);
  if (o->is_mbar) {
    mbar_use(c, NULL, k, o, own);
    mbar_arrival(c, k, o, own);
  } else
    o->generation[w] = o->flips;
  bool far = o->near && cta_of(k, w) != o->rank, reaches = !far || (order & ORDER_SCOPE) >= SCOPE_CLUSTER;
  for (u32 near = 0; near < (o->near && !far ? 2 : 1); near++) {
    Clock into = near ? o->near : o->acc;
    if (order & ORDER_RELEASE && reaches) {
      lanes_release(c, k, w, into);
      continue;
    }
    if (reaches && !(order & ORDER_RELEASE))
      fenced_signal(c, k, into, w, far ? SCOPE_CLUSTER : SCOPE_CTA);
    relaxed_signal(c, k, into, w);
  }
  k->warps[w][w]++;
  o->last_line = c->ins->line;
}

void see_release(Ctx *c, AsyncOp *op, void **object) {
  if (!op) {
    see_arrive(c, object, ORDER_SCOPE | ORDER_RELEASE);
    return;
  }
  Check *k = op->cta->cl->m->check;
  if (!k)
    return;
  SyncObject *o = object_of(k, op->cta->cl, object);
  Ctx d = async_ctx(op);
  mbar_arrival(&d, k, o, issue_of(op)->at);
  release_async(k, op, o);
}

void see_remote_commit(const AsyncOp *op, void **object) {
  Check *k = op->cta->cl->m->check;
  if (!k)
    return;
  SyncObject *o = object_of(k, op->cta->cl, object);
  o->commit_phase = o->flips + 1;
}

/* The bytes of a copy are complete: the copy is over for all who see this phase end.  An instruction
 * mbarrier.complete_tx is relaxed and orders nothing. */
void see_complete_tx(Ctx *c, AsyncOp *op, void **object) {
  const Cluster *cl = op ? op->cta->cl : c->cl;
  Check *k = cl->m->check;
  if (!k)
    return;
  SyncObject *o = object_of(k, cl, object);
  if (!op)
    return;
  release_async(k, op, o);
  o->tx_phase = o->flips + 1;
  OpDone *done = &k->ops[issue_of(op)->id];
  for (u32 r = 0; r < k->n_ctas; r++)
    if (r == k->landing || !done[r].epoch) {
      done[r].dim = o->dim;
      done[r].epoch = o->flips + 1;
    }
}

/* A phase of an mbarrier, or a generation of another barrier, ended: what arrived in it becomes visible to its
 * waiters.  What arrives for the next one must not, even if a waiter goes on late. */
void see_flip(Cluster *cl, void **object) {
  Check *k = cl->m->check;
  if (!k)
    return;
  SyncObject *o = object_of(k, cl, object);
  if (o->is_mbar) {
    mbar_phase_end(cl, k, o);
    o->acc[o->dim] = ++o->flips;
    clock_copy(k, o->pub[0], o->acc);
    if (o->near) {
      o->near[o->dim] = o->flips;
      clock_copy(k, o->near_pub, o->near);
    }
    return;
  }
  clock_copy(k, o->pub[o->flips++ % PUBLISHED], o->acc);
  memset(o->acc, 0, k->words * sizeof(u32));
}

Clock pending(const Ctx *c, Check *k, u32 w, u32 level) {
  if (!k->pend[w][level])
    k->pend[w][level] = clock_new(k);
  k->pended[w][level] |= lanes_partial(c, k) ? c->mask : NONE32;
  return k->pend[w][level];
}

void see_wait(Ctx *c, void **object, u32 order) {
  Check *k = c->m->check;
  if (!k)
    return;
  SyncObject *o = object_of(k, c->cl, object);
  u32 w = warp_dim(k, c->cta, c->w->index);
  if (o->is_mbar) {
    mbar_use(c, NULL, k, o, lanes_view(k, w, c->mask));
    o->observed = true;
    o->waited[w] = k->warps[w][w];
    o->wait_line[w] = c->ins->line;
    bool wide = !o->near || (order & ORDER_SCOPE) >= SCOPE_CLUSTER;
    if (!(order & ORDER_ACQUIRE)) {
      clock_join(k, pending(c, k, w, 0), o->near ? o->near_pub : o->pub[0]);
      if (o->near && wide)
        clock_join(k, pending(c, k, w, SCOPE_CLUSTER - 1), o->pub[0]);
    }
    if (!(order & ORDER_ACQUIRE) || !wide) {
      FOR_CLOCKS(c, k, w, own) relaxed_wait(k, own, o->pub[0]);
    }
    if (order & ORDER_ACQUIRE) {
      lanes_acquire(c, k, w, wide ? o->pub[0] : o->near_pub);
      k->met[w] = most(k->met[w], o->pub[0][w]);
    }
    return;
  }
  if (o->flips - o->generation[w] > PUBLISHED)
    c->m->lost = true;
  lanes_acquire(c, k, w, o->pub[o->generation[w] % PUBLISHED]);
  k->met[w] = most(k->met[w], o->pub[o->generation[w] % PUBLISHED][w]);
}

/* bar.warp.sync orders what the lanes of a warp did before with what any of them does after. */
void see_warp_sync(Ctx *c, u32 members) {
  Check *k = c->m->check;
  bool all = !(live_lanes(c->w) & ~members);
  if (!k || !(all || k->strict_lanes))
    return;
  u32 w = warp_dim(k, c->cta, c->w->index);
  if (all)
    lanes_meet(k, w);
  else {
    Ctx some = *c;
    Clock met = clock_new(k);
    some.mask = members & live_lanes(c->w);
    lanes_release(&some, k, w, met);
    lanes_acquire(&some, k, w, met);
    free(met);
  }
  k->warps[w][w]++;
}

void see_acquire(Ctx *c, void **object) {
  see_wait(c, object, ORDER_SCOPE | ORDER_ACQUIRE);
}

/* ---- fences ---------------------------------------------------------------------------------- */
/* A release fence lends its strength to later relaxed signals, an acquire fence to earlier relaxed waits and
 * reads, within its scope (PTX ISA, "Release and Acquire Patterns"). */
static void memory_fence(const Ctx *c, Check *k, u32 w, u32 scope, u32 order) {
  Ctx some = *c;
  for (u32 s = 0; s < scope && order & ORDER_ACQUIRE; s++) {
    some.mask = c->mask & k->pended[w][s];
    if (some.mask)
      lanes_acquire(&some, k, w, k->pend[w][s]);
  }
  if (!(order & ORDER_RELEASE))
    return;
  for (u32 s = 0; s < scope; s++) {
    if (!k->rel[w][s])
      k->rel[w][s] = clock_new(k);
    clock_join(k, k->rel[w][s], lanes_view(k, w, c->mask));
    FOR_LANES (c->mask, l)
      k->fenced[w][s][l] = k->warps[w][w];
  }
  k->warps[w][w]++;
}

/* What the lanes know becomes visible to the asynchronous proxy, and what they did themselves. */
static void proxy_fence(const Ctx *c, Check *k, u32 w, u32 spaces) {
  FOR_CLOCKS(c, k, w, own)
  for (u32 space = 0; space < 2; space++) {
    u32 *proxy = proxy_clock(k, own, space);
    if (!(spaces >> space & 1))
      continue;
    raise_to(proxy, own, k->mma0);
    if (!k->strict_lanes)
      continue;
    raise_to(proxy_all(k, proxy), own + k->all0, k->n_warps);
    raise_to(proxy_lane(k, proxy), own + k->lane0, k->n_lane);
    lanes_mark(c, k, w, own[w], proxy_all(k, proxy), proxy_lane(k, proxy));
  }
  k->warps[w][w]++;
}

static void tensor_after(const Ctx *c, Check *k, u32 w) {
  if (!k->strict_fence)
    return;
  FOR_CLOCKS(c, k, w, own) memcpy(own + k->after0, own + k->tensor0, k->bulk_read0 * sizeof(u32));
}

static void tensor_before(const Ctx *c, Check *k, u32 w) {
  if (k->strict_fence) {
    FOR_CLOCKS(c, k, w, own) publish(k, own, own, w);
  } else {
    const u32 *own = lanes_view(k, w, c->mask);
    if (!k->before[w])
      k->before[w] = clock_new(k);
    for (u32 d = 0; d < k->bulk_read0; d++)
      k->before[w][d] = tensor_known(k, own, d);
  }
  k->warps[w][w]++;
}

void see_fence(Ctx *c, u32 kind, u32 arg) {
  Check *k = c->m->check;
  if (!k)
    return;
  u32 w = warp_dim(k, c->cta, c->w->index);
  switch (kind) {
    case FENCE_PROXY_ASYNC:
      proxy_fence(c, k, w, arg);
      break;
    case FENCE_MBARRIER_INIT: {
      FOR_CLOCKS(c, k, w, own) own[k->init0 + w] = 1 + k->inits[w];
      break;
    }
    case FENCE_WAIT_ST:
      lanes_set(k, w, k->st0 + w, k->st_seq[w]);
      break;
    case FENCE_AFTER:
      tensor_after(c, k, w);
      break;
    case FENCE_BEFORE:
      tensor_before(c, k, w);
      break;
    case FENCE_WAIT_LD:
      loads_waited(k, c->w, w);
      break;
    case FENCE_MEMBAR:
      memory_fence(c, k, w, arg & ORDER_SCOPE, arg);
      break;
    default:
      break;
  }
}

void see_cp_wait(Ctx *c, u32 landed) {
  Check *k = c->m->check;
  if (!k)
    return;
  u32 w = warp_dim(k, c->cta, c->w->index);
  FOR_CLOCKS(c, k, w, own) own[k->cp0 + w] = most(own[k->cp0 + w], landed);
}
