/* mbarriers, named barriers, and the barrier of a cluster. */
#include "clock/state.h"

static bool earlier(const Message *a, const Message *b) {
  return a->time < b->time || (a->time == b->time && a->order < b->order);
}

static void swap(Message *a, Message *b) {
  Message m = *a;
  *a = *b;
  *b = m;
}

/* Its order is given here. */
void send_message(Clock *c, Message m) {
  if (c->n_heap == c->heap_room) {
    u32 room = c->heap_room ? 2 * c->heap_room : 256;
    Message *heap = realloc(c->heap, room * sizeof *heap);
    if (!heap) {
      c->no_memory = true;
      return;
    }
    c->heap = heap;
    c->heap_room = room;
  }
  u32 k = c->n_heap++;
  m.order = c->messages++;
  c->heap[k] = m;
  for (; k && earlier(&c->heap[k], &c->heap[(k - 1) / 2]); k = (k - 1) / 2)
    swap(&c->heap[k], &c->heap[(k - 1) / 2]);
}

static Message take_message(Clock *c) {
  Message first = c->heap[0];
  c->heap[0] = c->heap[--c->n_heap];
  for (u32 k = 0;;) {
    u32 least = k;
    for (u32 child = 2 * k + 1; child <= 2 * k + 2 && child < c->n_heap; child++)
      if (earlier(&c->heap[child], &c->heap[least]))
        least = child;
    if (least == k)
      return first;
    swap(&c->heap[k], &c->heap[least]);
    k = least;
  }
}

static void wake_waiters(Clock *c, Mbarrier *b, const Message *m) {
  u32 kept = 0;
  for (u32 k = 0; k < b->n_waiters; k++) {
    Waiter wait = b->waiters[k];
    if (wait.phase > b->phases) {
      b->waiters[kept++] = wait;
      continue;
    }
    WarpState *w = &c->warps[wait.warp];
    double seen = m->time + c->chip->wake_latency;
    u32 *cause = wait.scoreboard == NONE32 ? &w->blocked_cause : &w->result_cause[wait.scoreboard];
    if (seen >= wait.earliest)
      *cause = m->cause;
    seen = fmax(seen, wait.earliest);
    *(wait.scoreboard == NONE32 ? &w->blocked_until : &w->result[wait.scoreboard]) = seen;
    wake(c, w, seen);
  }
  b->n_waiters = kept;
}

static void hear(Clock *c, const Message *m) {
  Mbarrier *b = &c->mbarriers[m->mbarrier];
  b->bytes += m->bytes;
  b->pending -= m->arrivals;
  if (b->count && b->pending == 0 && b->bytes == 0) {
    b->phases++;
    b->pending = b->count;
    wake_waiters(c, b, m);
  }
}

void deliver_messages(Clock *c) {
  while (c->n_heap && c->heap[0].time <= c->now) {
    Message m = take_message(c);
    hear(c, &m);
  }
}

static u32 object(const Clock *c, const Execution *x, u32 k) {
  return c->in->objects[x->event->first_object + k];
}

static u32 mbarrier_of(const Clock *c, const Execution *x, u32 k) {
  return x->w->copy * c->in->n_mbarriers + object(c, x, k);
}

/* Without an event it is a turn of a loop over lanes: all that these initialise counts in the last one. */
void init_mbarriers(Clock *c, const Execution *x) {
  for (u32 k = 0; x->event && k < x->event->objects; k++) {
    Mbarrier *b = &c->mbarriers[mbarrier_of(c, x, k)];
    b->count = b->pending = c->in->mbarrier_counts[object(c, x, k)];
    b->phases = 0;
    b->bytes = 0;
  }
  if (c->chip->init_latency <= 0) /* the chip does not say how long it takes */
    return;
  x->w->initialised = x->at + c->chip->init_latency;
  set_result(x, x->w->initialised);
  set_read(x, x->at + x->op->read_latency);
}

/* Arrivals and expected bytes become visible together, later where the barrier is another CTA's. */
void arrive_mbarriers(Clock *c, const Execution *x) {
  for (u32 k = 0; k < x->event->objects; k++) {
    u32 id = mbarrier_of(c, x, k);
    bool remote = c->mbarriers[id].rank != x->w->info->rank;
    double at = x->at + c->chip->arrive_latency + (remote ? c->chip->remote_latency : 0);
    i64 expected = (i64)x->event->size;
    send_message(
        c, (Message){.time = at, .mbarrier = id, .arrivals = x->event->count, .cause = x->step, .bytes = expected});
  }
  set_result(x, x->at + c->chip->arrive_latency);
  set_read(x, x->at + x->op->read_latency);
}

/* A try_wait suspends its warp; what the functional run saw succeed is taken to succeed here, when the phase ends. */
void wait_mbarrier(Clock *c, const Execution *x) {
  u32 scoreboard = x->op->write_barrier;
  double earliest = x->at + c->chip->wait_latency;
  set_result(x, earliest);
  set_read(x, x->at + x->op->read_latency);
  if (scoreboard == NONE32)
    block(x, earliest, CLOCK_WHY_MBARRIER, CLOCK_NO_STEP);
  if (!x->event->objects)
    return;
  Mbarrier *b = &c->mbarriers[mbarrier_of(c, x, 0)];
  if (b->phases >= x->event->phase)
    return;
  if (b->n_waiters == b->room) {
    u32 room = b->room ? 2 * b->room : 16;
    Waiter *waiters = realloc(b->waiters, room * sizeof *waiters);
    if (!waiters) {
      c->no_memory = true;
      return;
    }
    b->waiters = waiters;
    b->room = room;
  }
  b->waiters[b->n_waiters++] = (Waiter){x->w->id, x->event->phase, scoreboard, earliest};
  if (scoreboard == NONE32)
    x->w->blocked_until = CLOCK_NEVER;
  else
    x->w->result[scoreboard] = CLOCK_NEVER;
}

static void release_named(Clock *c, NamedBarrier *b, double at, u32 cause) {
  for (u32 k = b->waiting; k; k = c->next_waiting[k - 1]) {
    c->warps[k - 1].blocked_until = at;
    c->warps[k - 1].blocked_cause = cause;
    wake(c, &c->warps[k - 1], at);
  }
  *b = (NamedBarrier){0};
}

/* The barrier unit takes one arrival after the other; the last one releases all who wait. A barrier without a count is
   of all threads of the CTA but those that have exited, as for `sync/barrier.c`. */
void named_barrier(Clock *c, const Execution *x, bool waits) {
  Sm *sm = &c->sms[x->w->sm];
  NamedBarrier *b = &c->named[x->w->copy * c->in->ranks * CLOCK_NAMED + object(c, x, 0)];
  double taken = serve(&sm->shared[CLOCK_SHARED_BARRIER], x->at, c->chip->named_warp);
  set_result(x, taken);
  if (waits) {
    block(x, CLOCK_NEVER, CLOCK_WHY_NAMED_BARRIER, CLOCK_NO_STEP);
    c->next_waiting[x->w->id] = b->waiting;
    b->waiting = x->w->id + 1;
  }
  b->all = !x->event->count;
  if (++b->arrived * LANES >= (b->all ? c->living[cta_of(c, x->w)] * LANES : x->event->count))
    release_named(c, b, taken + c->chip->named_latency, x->step);
}

/* Who exits was the last that a barrier of all threads stood for. */
void named_leave(Clock *c, const WarpState *w) {
  u32 cta = cta_of(c, w), living = --c->living[cta];
  for (NamedBarrier *b = &c->named[cta * CLOCK_NAMED]; b < &c->named[(cta + 1) * CLOCK_NAMED]; b++)
    if (b->all && b->arrived >= living)
      release_named(c, b, c->now + c->chip->named_latency, step_of(c, w));
}

static void end_cluster_phase(Clock *c, ClusterBarrier *b, u32 copy, u32 cause) {
  b->arrived = 0;
  b->phases++;
  b->released = fmax(b->taken, c->now) + c->chip->cluster_latency;
  b->cause = cause;
  for (u32 k = 0; k < c->in->n_warps; k++) {
    WarpState *w = &c->warps[copy * c->in->n_warps + k];
    if (w->blocked_by == CLOCK_WHY_CLUSTER_BARRIER && w->blocked_until == CLOCK_NEVER) {
      w->blocked_until = b->released;
      w->blocked_cause = cause;
      wake(c, w, b->released);
    }
  }
}

/* Arrivals pass their SM's barrier unit one after the other, as those of named barriers do: a barrier of a cluster
 * takes an H200 75 cycles of one warp a CTA and 98 of twelve (sharing/h200_orders.json). */
void cluster_arrive(Clock *c, const Execution *x) {
  ClusterBarrier *b = &c->clusters[x->w->copy];
  Server *unit = &c->sms[x->w->sm].shared[CLOCK_SHARED_BARRIER];
  x->w->cluster_phases++;
  b->taken = fmax(b->taken, serve(unit, x->at, c->chip->named_warp));
  if (++b->arrived >= b->warps)
    end_cluster_phase(c, b, x->w->copy, x->step);
}

void cluster_wait(Clock *c, const Execution *x) {
  const ClusterBarrier *b = &c->clusters[x->w->copy];
  bool over = b->phases >= x->w->cluster_phases;
  block(x, over ? b->released : CLOCK_NEVER, CLOCK_WHY_CLUSTER_BARRIER, over ? b->cause : CLOCK_NO_STEP);
}

void cluster_leave(Clock *c, const WarpState *w) {
  ClusterBarrier *b = &c->clusters[w->copy];
  if (--b->warps && b->arrived >= b->warps)
    end_cluster_phase(c, b, w->copy, step_of(c, w));
}
