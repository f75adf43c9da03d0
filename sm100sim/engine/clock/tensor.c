/* The tensor core: wgmma of warp groups, tcgen05.mma of one warp, and who hears when they are done. */
#include "clock/state.h"

static WarpGroup *group_of(const Clock *c, const WarpState *w) {
  return &c->groups[w->copy * c->in->n_groups + w->info->group];
}

/* Operands in shared memory are read while the MMA runs, before anything else that wants the port. */
static void read_operands(Sm *sm, double end, double service, double passes) {
  sm->operands_until = end;
  sm->operand_share = service > 0 ? fmin(passes / service, 1) : 0;
  sm->shared[CLOCK_SHARED_PORT].busy += passes;
}

/* The first warp of a group takes the entry of the queue; the others join it. */
bool wgmma_refused(Clock *c, WarpState *w, double *until) {
  WarpGroup *g = group_of(c, w);
  return w->wgmmas == g->created && queue_full(&c->sms[w->sm].wgmmas, c->chip->wgmma_queue, c->now, until);
}

static void start_wgmma(Clock *c, const Execution *x, WarpGroup *g, u32 slot) {
  Sm *sm = &c->sms[x->w->sm];
  double service = service_of(x), end = serve(&sm->shared[CLOCK_SHARED_TENSOR], c->now, service);
  read_operands(sm, end, service, passes_of(x));
  sm->wgmmas.leaves[g->entry[slot]] = end;
  g->done[slot] = end + latency_of(x);
  g->executed++;
  record_span(c, x, CLOCK_WHY_COUNT + CLOCK_SHARED_TENSOR, end - service, end);
  for (u32 k = 0; k < c->n_warps; k++) {
    WarpState *w = &c->warps[k];
    if (w->awaited && group_of(c, w) == g && w->awaited <= g->executed) {
      w->blocked_until = g->done[(w->awaited - 1) % CLOCK_WGMMA_RING];
      w->awaited = 0;
    }
    if (w->sm == x->w->sm)
      wake(c, w, c->now); /* it may stand before the queue */
  }
}

void issue_wgmma(Clock *c, const Execution *x) {
  WarpState *w = x->w;
  WarpGroup *g = group_of(c, w);
  Queue *q = &c->sms[w->sm].wgmmas;
  u32 slot = (u32)(w->wgmmas % CLOCK_WGMMA_RING);
  if (w->wgmmas++ == g->created) {
    g->created++;
    queue_enter(q, c->now, CLOCK_NEVER);
    g->joined[slot] = 0;
    g->entry[slot] = (q->first + q->used - 1) % CLOCK_QUEUE_RING;
  }
  if (x->op->group_end)
    w->group_ends[w->groups++ % CLOCK_RECENT_GROUPS] = w->wgmmas;
  if (++g->joined[slot] == g->members)
    start_wgmma(c, x, g, slot);
}

void wait_wgmma(Clock *c, const Execution *x) {
  WarpState *w = x->w;
  WarpGroup *g = group_of(c, w);
  u32 keep = x->op->keep;
  if (w->groups <= keep)
    return;
  u64 awaited = w->group_ends[(w->groups - keep - 1) % CLOCK_RECENT_GROUPS];
  if (awaited <= g->executed) {
    block(x, g->done[(awaited - 1) % CLOCK_WGMMA_RING], CLOCK_WHY_TENSOR);
    return;
  }
  w->awaited = awaited;
  block(x, CLOCK_NEVER, CLOCK_WHY_TENSOR);
}

/* An MMA starts a `latency` after its issue, when the tensor cores that it takes are free. */
void issue_mma(Clock *c, const Execution *x) {
  WarpState *w = x->w;
  Sm *sm = &c->sms[w->sm], *other = x->event->pair ? &c->sms[w->sm ^ 1] : NULL;
  Server *tensor = &sm->shared[CLOCK_SHARED_TENSOR];
  double at = c->now + latency_of(x), service = service_of(x);
  if (other)
    at = fmax(at, other->shared[CLOCK_SHARED_TENSOR].free_at);
  double end = serve(tensor, at, service);
  read_operands(sm, end, service, passes_of(x));
  if (other) {
    serve(&other->shared[CLOCK_SHARED_TENSOR], end - service, service);
    read_operands(other, end, service, passes_of(x));
  }
  queue_enter(&sm->sub[w->sub].mmas, c->now, end);
  c->mma_done[cta_of(c, w)] = end;
  set_read(x, x->at + x->op->read_latency);
  record_span(c, x, CLOCK_WHY_COUNT + CLOCK_SHARED_TENSOR, end - service, end);
}

void commit_mma(Clock *c, const Execution *x) {
  double done = fmax(x->at, c->mma_done[cta_of(c, x->w)]) + c->chip->commit_latency;
  for (u32 k = 0; k < x->event->objects; k++) {
    u32 id = x->w->copy * c->in->n_mbarriers + c->in->objects[x->event->first_object + k];
    bool remote = c->mbarriers[id].rank != x->w->info->rank;
    send_message(c, done + (remote ? c->chip->remote_latency : 0), id, 1, 0);
  }
  set_read(x, x->at + x->op->read_latency);
}
