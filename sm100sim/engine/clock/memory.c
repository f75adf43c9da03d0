/* Shared, global and Tensor Memory, and copies. */
#include "clock/state.h"

/* The barriers of an event hear that its bytes are there. */
static void deliver_bytes(Clock *c, const Execution *x, double at) {
  const ClockEvent *e = x->event;
  for (u32 k = 0; k < e->objects; k++)
    send_message(c, (Message){.time = at,
                              .mbarrier = x->w->copy * c->in->n_mbarriers + c->in->objects[e->first_object + k],
                              .cause = x->step,
                              .bytes = -(i64)e->size});
}

/* Operands are gathered (that was `x->at`), a request a cycle enters, and takes 128 bytes a cycle. */
void access_shared(Clock *c, const Execution *x) {
  Sm *sm = &c->sms[x->w->sm];
  double entered = serve(&sm->shared[CLOCK_SHARED_REQUEST], x->at, c->chip->request_cycles);
  double passed = pass_shared(c, sm, entered, passes_of(x), x->op->write_barrier != NONE32);
  queue_enter(&sm->sub[x->w->sub].requests, c->now, passed - passes_of(x));
  set_result(x, passed + latency_of(x));
  set_read(x, entered + x->op->read_latency);
  if (x->event)
    deliver_bytes(c, x, passed + x->event->latency);
}

/* A load asks the L1 for a line a cycle, at shared memory's port; what it lacks comes from the L2. The answer is when
 * all is there. `near`: until the L1 answers. */
static double fetch_global(Clock *c, const Execution *x, double entered, double near) {
  Sm *sm = &c->sms[x->w->sm];
  L1Answer l1 = ask_l1(c, x);
  double asked = l1.lines ? pass_shared(c, sm, entered, l1.lines, true) : entered, done = entered;
  if (l1.missing < x->event->pieces)
    done = fmax(l1.there, asked + near);
  if (x->event->pieces && !l1.missing)
    return done;
  double share = x->event->pieces ? (double)l1.missing / x->event->pieces : 1;
  double moved = serve(&sm->shared[CLOCK_SHARED_MEMORY], asked, x->event->memory * share) + latency_of(x);
  fill_l1(c, x, moved);
  return fmax(done, moved);
}

/* What lanes store leaves the SM on the way of bulk stores, where a chip says how fast; a store that it has not taken
 * stays in the queue of requests. */
static double pass_global(Clock *c, const Execution *x, double near) {
  Sm *sm = &c->sms[x->w->sm];
  double entered = serve(&sm->shared[CLOCK_SHARED_REQUEST], x->at, c->chip->request_cycles);
  if (x->event->service > 0)
    entered = serve(&sm->shared[CLOCK_SHARED_STORE], entered, x->event->service);
  double done = fetch_global(c, x, entered, near);
  drop_lines(c, x);
  queue_enter(&sm->sub[x->w->sub].requests, c->now, entered);
  set_result(x, done);
  set_read(x, entered + x->op->read_latency);
  return done;
}

void access_global(Clock *c, const Execution *x) {
  x->w->accessed = fmax(x->w->accessed, pass_global(c, x, c->chip->l1_latency));
}

/* The copies that the warp has issued so far are done at `at`, or later. */
static void store_until(const Execution *x, double at) {
  if (at < x->w->store_done)
    return;
  x->w->store_done = at;
  x->w->store_cause = x->step;
}

/* Copies of lanes from global to shared memory, which the warp may wait for in groups. What arrives is written beside
 * the operands of products: an H100 copies as fast beside products that read all the time (h100_lanes.json), and an
 * H200's products take as long beside copies as alone (h200_apart.json). */
void copy_lanes(Clock *c, const Execution *x) {
  store_until(x, pass_global(c, x, c->chip->l1_copy_latency) + x->event->passes);
}

/* Loads and stores share one path per sub-partition. */
void access_tmem(Clock *c, const Execution *x, bool store) {
  Server *path = &c->sms[x->w->sm].sub[x->w->sub].unit[CLOCK_UNIT_TMEM];
  double end = serve(path, x->at, service_of(x)), done = end + latency_of(x);
  if (store && done >= x->w->tmem_stored) {
    x->w->tmem_stored = done;
    x->w->tmem_cause = x->step;
  }
  set_result(x, done);
  set_read(x, end + x->op->read_latency);
}

/* The engine begins boxes some cycles apart, whatever it works at, and works off their rows one box after the other;
 * bytes come through the SM's share of the L2. */
void copy_load(Clock *c, const Execution *x) {
  Sm *sm = &c->sms[x->w->sm];
  const ClockEvent *e = x->event;
  double begun = fmax(x->at, sm->next_copy), end = serve(&sm->shared[CLOCK_SHARED_COPY], begun, e->service);
  sm->next_copy = begun + c->chip->copy_issue_cycles;
  if (c->chip->copy_queue > 0)
    queue_enter(&sm->copies, c->now, end);
  double moved = serve(&sm->shared[CLOCK_SHARED_MEMORY], end - e->service, e->memory);
  double done = fmax(end, moved) + e->latency;
  deliver_bytes(c, x, done);
  set_read(x, x->at + x->op->read_latency);
  record_span(c, x, CLOCK_WHY_COUNT + CLOCK_SHARED_COPY, end - e->service, done);
}

void copy_store(Clock *c, const Execution *x) {
  Sm *sm = &c->sms[x->w->sm];
  double end = serve(&sm->shared[CLOCK_SHARED_STORE], x->at, x->event->service);
  serve(&sm->shared[CLOCK_SHARED_MEMORY], x->at, x->event->memory);
  store_until(x, end);
  set_read(x, x->at + x->op->read_latency);
  record_span(c, x, CLOCK_WHY_COUNT + CLOCK_SHARED_STORE, end - x->event->service, end);
}

void bulk_commit(Clock *c, const Execution *x) {
  u64 place = x->w->bulk_groups++ % CLOCK_BULK_GROUPS;
  (void)c;
  x->w->bulk_done[place] = x->w->store_done;
  x->w->bulk_cause[place] = x->w->store_cause;
}

void bulk_wait(Clock *c, const Execution *x) {
  u64 groups = x->w->bulk_groups;
  (void)c;
  if (groups <= x->event->count)
    return;
  u64 place = (groups - x->event->count - 1) % CLOCK_BULK_GROUPS;
  block(x, x->w->bulk_done[place] + x->event->latency, CLOCK_WHY_COPY, x->w->bulk_cause[place]);
}
