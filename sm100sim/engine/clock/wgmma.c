/* wgmma: products of warp groups, one after the other, and the registers that they write.
 *
 * An accumulator's registers go through the same write ports as those of other instructions: a pair of them, one in
 * either bank, in two cycles. The product goes first, and what has to pass the ports has the other cycles. Without a
 * product there is room for all: of an H200's sub-partition four maxima and an exponential take the 8 cycles of either
 * (benchmarks, h200_mixtures.json). */
#include "clock/state.h"

static WarpGroup *group_of(const Clock *c, const WarpState *w) {
  return &c->groups[w->copy * c->in->n_groups + w->info->group];
}

/* The first warp of a group takes the entry of the queue; the others join it. */
bool wgmma_refused(Clock *c, WarpState *w, double *until) {
  WarpGroup *g = group_of(c, w);
  return w->wgmmas == g->created && queue_full(&c->sms[w->sm].wgmmas, c->chip->wgmma_queue, c->now, until);
}

/* Until when products will read their operands, as far as they are queued. */
static double reading_until(const Sm *sm) {
  double until = sm->product_end;
  for (u32 k = 1; k < sm->n_products; k++)
    until += sm->products[(sm->first_product + k) % CLOCK_QUEUE_RING].service;
  return until;
}

static void start_product(Sm *sm, double at) {
  const Product *p = &sm->products[sm->first_product];
  sm->product_start = at;
  sm->product_end = at + p->service;
  read_operands(sm, reading_until(sm), p->service, p->passes);
}

static void wake_all(Clock *c, const Sm *sm, const WarpGroup *g) {
  for (u32 k = 0; k < c->n_warps; k++) {
    WarpState *w = &c->warps[k];
    if (w->awaited && group_of(c, w) == g && w->awaited <= g->executed) {
      w->blocked_until = g->done[(w->awaited - 1) % CLOCK_WGMMA_RING];
      w->blocked_cause = g->by[(w->awaited - 1) % CLOCK_WGMMA_RING];
      w->awaited = 0;
    }
    if (&c->sms[w->sm] == sm)
      wake(c, w, c->now); /* it may stand before the queue */
  }
}

/* Products that have ended by now, each followed by the next. */
void end_products(Clock *c, Sm *sm) {
  while (sm->n_products && sm->product_end <= c->now) {
    Product p = sm->products[sm->first_product];
    WarpGroup *g = p.group;
    Server *tensor = &sm->shared[CLOCK_SHARED_TENSOR];
    tensor->busy += sm->product_end - sm->product_start;
    tensor->free_at = sm->product_end;
    record_span(c, &p.issued, CLOCK_WHY_COUNT + CLOCK_SHARED_TENSOR, sm->product_start, sm->product_end);
    sm->wgmmas.leaves[g->entry[p.slot]] = sm->product_end;
    g->done[p.slot] = sm->product_end + p.rest;
    g->executed++;
    sm->first_product = (sm->first_product + 1) % CLOCK_QUEUE_RING;
    if (--sm->n_products)
      start_product(sm, sm->product_end);
    wake_all(c, sm, g);
  }
}

/* Beside products an instruction takes `writes` thirds of a cycle of what these leave of the write ports. */
void note_writes(Clock *c, const Execution *x) {
  Sm *sm = &c->sms[x->w->sm];
  if (c->chip->product_writes <= 0 || x->op->action == CLOCK_ACT_WGMMA || !sm->n_products)
    return;
  const Product *p = &sm->products[sm->first_product];
  double left = 1 - c->chip->product_writes * fmin(p->registers / p->service, 1);
  serve(&sm->sub[x->w->sub].unit[CLOCK_UNIT_WRITE], c->now, x->op->writes / 3.0 / left);
}

void issue_wgmma(Clock *c, const Execution *x) {
  WarpState *w = x->w;
  WarpGroup *g = group_of(c, w);
  Sm *sm = &c->sms[w->sm];
  Queue *q = &sm->wgmmas;
  u32 slot = (u32)(w->wgmmas % CLOCK_WGMMA_RING);
  if (w->wgmmas++ == g->created) {
    g->created++;
    queue_enter(q, c->now, CLOCK_NEVER);
    g->joined[slot] = 0;
    g->entry[slot] = (q->first + q->used - 1) % CLOCK_QUEUE_RING;
  }
  if (x->op->group_end)
    w->group_ends[w->groups++ % CLOCK_RECENT_GROUPS] = w->wgmmas;
  if (++g->joined[slot] < g->members)
    return;
  g->by[slot] = x->step;
  u32 last = (sm->first_product + sm->n_products++) % CLOCK_QUEUE_RING;
  sm->products[last] = (Product){g, *x, slot, service_of(x), passes_of(x), latency_of(x), x->op->writes};
  if (sm->n_products == 1)
    start_product(sm, fmax(c->now, sm->shared[CLOCK_SHARED_TENSOR].free_at));
  sm->operands_until = reading_until(sm);
}

void wait_wgmma(Clock *c, const Execution *x) {
  WarpState *w = x->w;
  WarpGroup *g = group_of(c, w);
  u32 keep = x->op->keep;
  if (w->groups <= keep)
    return;
  u64 awaited = w->group_ends[(w->groups - keep - 1) % CLOCK_RECENT_GROUPS];
  if (awaited <= g->executed) {
    u64 slot = (awaited - 1) % CLOCK_WGMMA_RING;
    block(x, g->done[slot], CLOCK_WHY_TENSOR, g->by[slot]);
    return;
  }
  w->awaited = awaited;
  block(x, CLOCK_NEVER, CLOCK_WHY_TENSOR, CLOCK_NO_STEP);
}
