/* Servers and queues: who takes a unit when. */
#include "clock/state.h"

/* Take a server for `cycles` as soon as it is free; the answer is when it is done. */
double serve(Server *s, double at, double cycles) {
  double start = fmax(at, s->free_at);
  s->busy += cycles;
  return s->free_at = start + cycles;
}

static void queue_leave(Queue *q, double now) {
  while (q->used && q->leaves[q->first] <= now) {
    q->first = (q->first + 1) % CLOCK_QUEUE_RING;
    q->used--;
  }
}

/* Has a queue of `depth` entries (0: any number) no place? If so, `until` is when it may have one. */
bool queue_full(const Queue *q, double depth, double now, double *until) {
  u32 limit = depth > 0 && depth < CLOCK_QUEUE_RING ? (u32)depth : CLOCK_QUEUE_RING;
  u32 left = 0;
  while (left < q->used && q->leaves[(q->first + left) % CLOCK_QUEUE_RING] <= now)
    left++;
  if (q->used - left < limit)
    return false;
  *until = q->leaves[(q->first + q->used - limit) % CLOCK_QUEUE_RING];
  return true;
}

void queue_enter(Queue *q, double now, double leaves) {
  queue_leave(q, now);
  q->leaves[(q->first + q->used++) % CLOCK_QUEUE_RING] = leaves;
}

/* The share of the port that MMAs leave: of what comes back at most `lane_share_most` where a chip says so,
 * and at least `lane_share_least`, even beside products that read all the time (sharing/accesses.py). */
static double share_left(const Clock *c, const Sm *sm, bool comes_back) {
  double left = 1 - sm->operand_share;
  if (comes_back && c->chip->lane_share_most > 0)
    left = fmin(left, c->chip->lane_share_most);
  return fmax(left, c->chip->lane_share_least);
}

/* Passes of the shared memory by LDS and its like: operands of MMAs go first, and leave them the rest of the cycles. */
double pass_shared(Clock *c, Sm *sm, double at, double passes, bool comes_back) {
  Server *port = &sm->shared[CLOCK_SHARED_PORT];
  double start = fmax(fmax(at, port->free_at), c->now), left = passes;
  if (start < sm->operands_until && sm->operand_share > 0) {
    double rate = share_left(c, sm, comes_back), span = sm->operands_until - start;
    double served = fmin(left, span * rate);
    start = served < left ? sm->operands_until : start + served / rate;
    left -= served;
  }
  port->busy += passes;
  return port->free_at = start + left;
}
