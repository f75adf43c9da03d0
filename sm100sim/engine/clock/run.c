/* A run of the clocked machine: from cycle to cycle in which something can happen. */
#include "clock/state.h"

/* The next cycle with something to do; CLOCK_NEVER: nothing will ever happen. */
static double next_cycle(const Clock *c) {
  double next = c->n_heap ? ceil(c->heap[0].time) : CLOCK_NEVER;
  for (u32 k = 0; k < c->in->ranks; k++) {
    for (u32 s = 0; s < CLOCK_SUBS; s++)
      next = fmin(next, ceil(c->sms[k].sub[s].next));
    if (c->sms[k].n_products)
      next = fmin(next, ceil(c->sms[k].product_end));
  }
  return next;
}

static void one_cycle(Clock *c) {
  deliver_messages(c);
  for (u32 k = 0; k < c->in->ranks; k++)
    end_products(c, &c->sms[k]);
  for (u32 k = 0; k < c->in->ranks; k++)
    for (u32 s = 0; s < CLOCK_SUBS; s++) {
      Sub *sub = &c->sms[k].sub[s];
      if (sub->next <= c->now)
        issue_cycle(c, sub);
    }
}

static u32 run(Clock *c) {
  while (c->live && !c->no_memory) {
    one_cycle(c);
    double next = next_cycle(c);
    if (c->live && next == CLOCK_NEVER)
      return CLOCK_STUCK;
    if (next != CLOCK_NEVER)
      c->now = fmax(next, c->now + 1);
  }
  return c->no_memory ? CLOCK_NO_MEMORY : CLOCK_FINISHED;
}

static void sum_up(Clock *c, ClockPartBusy *parts) {
  ClockTotals *t = c->totals;
  for (u32 k = 0; k < c->n_warps; k++)
    t->cycles = fmax(t->cycles, c->warp_times[k].end);
  for (u32 k = 0; k < c->in->ranks; k++) {
    for (u32 s = 0; s < CLOCK_SUBS; s++) {
      const Sub *sub = &c->sms[k].sub[s];
      ClockPartBusy *part = &parts[k * CLOCK_SUBS + s];
      part->issued = (double)sub->issued;
      for (u32 u = 0; u < CLOCK_UNIT_COUNT; u++)
        t->busy[u] += part->busy[u] = sub->unit[u].busy;
    }
    for (u32 u = 0; u < CLOCK_SHARED_COUNT; u++)
      t->shared_busy[u] += c->sms[k].shared[u].busy;
  }
  for (u32 k = c->n_warps; k-- > 0;)
    if (!c->warps[k].over) {
      t->stuck_warp = k;
      t->stuck_op = (u32)c->in->order[c->warps[k].info->first + c->warps[k].at];
    }
}

u32 sm100_clock_run(const ClockInput *input, ClockTotals *out_totals, ClockWarpTimes *out_warps, ClockOpTimes *out_ops,
                    ClockRecord *out_records, ClockStand *out_stands, double *out_issued, ClockPartBusy *out_parts) {
  Clock c = {.in = input, .chip = &input->chip, .totals = out_totals, .warp_times = out_warps};
  c.op_times = out_ops;
  c.records = out_records;
  c.stands = out_stands;
  c.issued = out_issued;
  u32 answer = build_clock(&c) ? run(&c) : CLOCK_NO_MEMORY;
  if (answer != CLOCK_NO_MEMORY)
    sum_up(&c, out_parts);
  free_clock(&c);
  return answer;
}
