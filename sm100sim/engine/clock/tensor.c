/* The tensor core of Blackwell: tcgen05.mma of one warp, and who hears when MMAs are done. */
#include "clock/state.h"

/* Operands in shared memory are read while the MMA runs, before anything else that wants the port. */
void read_operands(Sm *sm, double end, double service, double passes) {
  sm->operands_until = end;
  sm->operand_share = service > 0 ? fmin(passes / service, 1) : 0;
  sm->shared[CLOCK_SHARED_PORT].busy += passes;
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
  c->mma_cause[cta_of(c, w)] = x->step;
  set_read(x, x->at + x->op->read_latency);
  record_span(c, x, CLOCK_WHY_COUNT + CLOCK_SHARED_TENSOR, end - service, end);
}

void commit_mma(Clock *c, const Execution *x) {
  u32 cta = cta_of(c, x->w), cause = c->mma_done[cta] > x->at ? c->mma_cause[cta] : x->step;
  double done = fmax(x->at, c->mma_done[cta]) + c->chip->commit_latency;
  for (u32 k = 0; k < x->event->objects; k++) {
    u32 id = x->w->copy * c->in->n_mbarriers + c->in->objects[x->event->first_object + k];
    bool remote = c->mbarriers[id].rank != x->w->info->rank;
    double at = done + (remote ? c->chip->remote_latency : 0);
    send_message(c, (Message){.time = at, .mbarrier = id, .arrivals = 1, .cause = cause});
  }
  set_read(x, x->at + x->op->read_latency);
}
