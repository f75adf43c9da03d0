/* One execution: the unit that it takes, and what else it does. */
#include "clock/state.h"

static void free_scoreboard(const Execution *x, u32 k, double at) {
  WarpState *w = x->w;
  if (at < w->result[k])
    return;
  w->result_of[k] = (ClockReason)x->op->reason;
  w->result_cause[k] = x->step;
  w->result[k] = at;
}

void set_result(const Execution *x, double at) {
  u32 k = x->op->write_barrier;
  if (k == NONE32)
    return;
  free_scoreboard(x, k, at);
}

void set_read(const Execution *x, double at) {
  u32 k = x->op->read_barrier;
  if (k == NONE32)
    return;
  free_scoreboard(x, k, at);
}

/* The warp issues nothing before `until`, for what another execution does or for its own (`CLOCK_NO_STEP`). */
void block(const Execution *x, double until, ClockReason why, u32 cause) {
  if (until < x->w->blocked_until)
    return;
  x->w->blocked_until = until;
  x->w->blocked_by = why;
  x->w->blocked_cause = cause;
}

/* Something that a warp waits for is known: look at its sub-partition again. */
void wake(Clock *c, WarpState *w, double at) {
  Sub *sub = &c->sms[w->sm].sub[w->sub];
  sub->next = fmin(sub->next, fmax(at, c->now));
}

void record_span(Clock *c, const Execution *x, u32 what, double start, double end) {
  if (c->totals->records < c->in->room)
    c->records[c->totals->records] = (ClockRecord){start, end, x->w->id, x->index, what, x->w->sm, x->step};
  c->totals->records++;
}

/* A fence also waits for mbarriers that its warp initialises. */
static void fence(const Execution *x, double from) {
  block(x, fmax(from, x->event ? 0 : x->w->initialised) + latency_of(x), CLOCK_WHY_BLOCKED, CLOCK_NO_STEP);
}

static void take_units(Clock *c, Execution *x) {
  Sub *sub = &c->sms[x->w->sm].sub[x->w->sub];
  x->at = c->now;
  if (x->op->even)
    sub->even_free = fmax(sub->even_free, c->now) + x->op->even;
  if (x->op->odd)
    sub->odd_free = fmax(sub->odd_free, c->now) + x->op->odd;
  if (x->op->unit != CLOCK_UNIT_NONE)
    x->at = serve(&sub->unit[x->op->unit], c->now, x->op->service);
  if (x->op->also != CLOCK_UNIT_NONE)
    x->at = fmax(x->at, serve(&sub->unit[x->op->also], c->now, x->op->service));
}

void execute(Clock *c, const Execution *given) {
  Execution taken = *given, *x = &taken;
  take_units(c, x);
  if (x->op->writes)
    note_writes(c, x);
  if (x->op->l1 == CLOCK_L1_FORGET)
    forget_lines(c, &c->sms[x->w->sm]);
  switch ((ClockAction)action_of(x)) {
    case CLOCK_ACT_MBARRIER_INIT:
      init_mbarriers(c, x);
      break;
    case CLOCK_ACT_MBARRIER_ARRIVE:
      arrive_mbarriers(c, x);
      break;
    case CLOCK_ACT_MBARRIER_WAIT:
      wait_mbarrier(c, x);
      break;
    case CLOCK_ACT_WGMMA:
      issue_wgmma(c, x);
      break;
    case CLOCK_ACT_WGMMA_WAIT:
      wait_wgmma(c, x);
      break;
    case CLOCK_ACT_MMA:
      issue_mma(c, x);
      break;
    case CLOCK_ACT_MMA_COMMIT:
      commit_mma(c, x);
      break;
    case CLOCK_ACT_COPY_LOAD:
      copy_load(c, x);
      break;
    case CLOCK_ACT_COPY_STORE:
      copy_store(c, x);
      break;
    case CLOCK_ACT_BULK_COMMIT:
      bulk_commit(c, x);
      break;
    case CLOCK_ACT_BULK_WAIT:
      bulk_wait(c, x);
      break;
    case CLOCK_ACT_TMEM_LOAD:
    case CLOCK_ACT_TMEM_STORE:
      access_tmem(c, x, action_of(x) == CLOCK_ACT_TMEM_STORE);
      break;
    case CLOCK_ACT_TMEM_FENCE:
      block(x, x->w->tmem_stored, CLOCK_WHY_TMEM, x->w->tmem_cause);
      break;
    case CLOCK_ACT_SHARED:
      access_shared(c, x);
      break;
    case CLOCK_ACT_GLOBAL:
      access_global(c, x);
      break;
    case CLOCK_ACT_LANE_COPY:
      copy_lanes(c, x);
      break;
    case CLOCK_ACT_NAMED_SYNC:
    case CLOCK_ACT_NAMED_ARRIVE:
      named_barrier(c, x, action_of(x) == CLOCK_ACT_NAMED_SYNC);
      break;
    case CLOCK_ACT_CLUSTER_ARRIVE:
      cluster_arrive(c, x);
      break;
    case CLOCK_ACT_CLUSTER_WAIT:
      cluster_wait(c, x);
      break;
    case CLOCK_ACT_BLOCK:
      fence(x, x->at);
      break;
    case CLOCK_ACT_MEMORY_FENCE: /* and for what it asked of global memory */
      fence(x, fmax(x->at, x->w->accessed));
      break;
    case CLOCK_ACT_NONE:
    case CLOCK_ACT_COUNT:
      break;
  }
  if (action_of(x) == CLOCK_ACT_NONE) {
    set_result(x, x->at + latency_of(x));
    set_read(x, x->at + x->op->read_latency);
  }
}
