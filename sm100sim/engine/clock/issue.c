/* Which warp a sub-partition issues from. */
#include "clock/state.h"

/* Same-line instructions come along; the next line is prefetched, the target of a jump is not. */
void fetch(Clock *c, WarpState *w, u32 from) {
  Sm *sm = &c->sms[w->sm];
  u32 line = c->in->ops[c->in->order[w->info->first + w->at]].line;
  u32 before = from == NONE32 ? NONE32 : c->in->ops[from].line;
  if (line == before)
    return;
  u32 ways = (u32)c->chip->icache_ways, sets = (u32)c->chip->icache_lines / ways;
  CacheLine *set = &sm->cache[line % sets * ways], *oldest = set;
  for (u32 k = 0; k < ways; k++) {
    if (set[k].line == line) {
      set[k].used = c->now;
      w->fetched_at = set[k].ready;
      return;
    }
    if (set[k].used < oldest->used)
      oldest = &set[k];
  }
  double cost = before != NONE32 && line == before + 1 ? c->chip->icache_next : c->chip->icache_jump;
  *oldest = (CacheLine){line, c->now, c->now + cost};
  w->fetched_at = oldest->ready;
}

Execution next_execution(const Clock *c, WarpState *w) {
  u64 at = w->info->first + w->at;
  u32 index = (u32)c->in->order[at];
  i32 event = c->in->event[at];
  return (Execution){w, &c->in->ops[index], event < 0 ? NULL : &c->in->events[event], index, step_of(c, w), 0};
}

/* When has the unit a place? A queue of n entries takes one more while at most n - 1 are before it. */
static double admitted(const Clock *c, const Sub *sub, u32 unit, double service) {
  double depth = c->chip->queue[unit];
  return unit == CLOCK_UNIT_NONE || depth <= 0 ? 0 : sub->unit[unit].free_at - (depth - 1) * service;
}

static double place_in_queues(Clock *c, const Sub *sub, const Execution *x) {
  double until = 0;
  switch ((ClockAction)action_of(x)) {
    case CLOCK_ACT_WGMMA:
      return wgmma_refused(c, x->w, &until) ? until : 0;
    case CLOCK_ACT_MMA:
      return queue_full(&sub->mmas, c->chip->mma_queue, c->now, &until) ? until : 0;
    case CLOCK_ACT_SHARED:
    case CLOCK_ACT_GLOBAL:
      return queue_full(&sub->requests, c->chip->request_queue, c->now, &until) ? until : 0;
    case CLOCK_ACT_COPY_LOAD: {
      const Queue *copies = &c->sms[x->w->sm].copies;
      return c->chip->copy_queue > 0 && queue_full(copies, c->chip->copy_queue, c->now, &until) ? until : 0;
    }
    default:
      return 0;
  }
}

/* When may the banks of registers be asked for the sources? Each gives a register a cycle. */
static double banks_ready(const Clock *c, const Sub *sub, const ClockOp *op) {
  double even = op->even ? sub->even_free : 0, odd = op->odd ? sub->odd_free : 0;
  return fmax(even, odd) - c->chip->bank_ahead;
}

/* When can the warp issue, as far as known now? */
static double ready_at(Clock *c, const Sub *sub, WarpState *w) {
  Execution x = next_execution(c, w);
  double at = fmax(fmax(w->fixed_at, w->branch_at), fmax(w->blocked_until, w->fetched_at));
  for (u32 k = 0; k < CLOCK_SCOREBOARDS; k++)
    if (x.op->wait_mask >> k & 1)
      at = fmax(at, w->result[k]);
  if (at > c->now)
    return at;
  double place = fmax(admitted(c, sub, x.op->unit, x.op->service), admitted(c, sub, x.op->also, x.op->service));
  if (x.op->writes && x.op->action != CLOCK_ACT_WGMMA)
    place = fmax(place, admitted(c, sub, CLOCK_UNIT_WRITE, x.op->service));
  place = fmax(place, banks_ready(c, sub, x.op));
  double queue = place_in_queues(c, sub, &x);
  if (fmax(place, queue) > c->now) {
    w->unit_by = queue > place ? CLOCK_WHY_QUEUE : CLOCK_WHY_PIPE;
    return w->unit_at = fmax(place, queue);
  }
  return at;
}

/* Cycles from the cursor until then went to a reason. */
static void spend(Clock *c, const Execution *x, double *cursor, double until, ClockReason why, u32 cause) {
  until = fmin(ceil(until), c->now);
  if (until <= *cursor)
    return;
  c->warp_times[x->w->id].reason[why] += until - *cursor;
  if (c->totals->stands < c->in->stand_room)
    c->stands[c->totals->stands] = (ClockStand){*cursor, until, x->step, cause, why, x->w->id};
  c->totals->stands++;
  *cursor = until;
}

/* What the cycles since the warp's latest instruction went to. */
static void account(Clock *c, const Execution *x) {
  WarpState *w = x->w;
  double cursor = w->issued_at + 1;
  c->warp_times[w->id].reason[CLOCK_WHY_ISSUED] += 1;
  if (c->in->stand_room)
    c->issued[x->step] = c->now;
  c->op_times[x->index].executed++;
  c->op_times[x->index].stood += fmax(c->now - cursor, 0);
  spend(c, x, &cursor, w->fixed_at, CLOCK_WHY_STALL, CLOCK_NO_STEP);
  spend(c, x, &cursor, w->branch_at, CLOCK_WHY_BRANCH, CLOCK_NO_STEP);
  if (w->blocked_until > cursor)
    record_span(c, x, w->blocked_by, cursor, w->blocked_until);
  spend(c, x, &cursor, w->blocked_until, w->blocked_by, w->blocked_cause);
  for (u32 k = 0; k < CLOCK_SCOREBOARDS; k++)
    if (x->op->wait_mask >> k & 1) {
      if (w->result[k] > cursor && w->result_of[k] == CLOCK_WHY_MBARRIER)
        record_span(c, x, CLOCK_WHY_MBARRIER, cursor, w->result[k]);
      spend(c, x, &cursor, w->result[k], w->result_of[k], w->result_cause[k]);
    }
  spend(c, x, &cursor, w->fetched_at, CLOCK_WHY_FETCH, CLOCK_NO_STEP);
  spend(c, x, &cursor, w->unit_at, w->unit_by, CLOCK_NO_STEP);
  spend(c, x, &cursor, c->now, CLOCK_WHY_NOT_SELECTED, CLOCK_NO_STEP);
}

static void end_warp(Clock *c, Sub *sub, WarpState *w) {
  w->over = true;
  c->live--;
  c->warp_times[w->id].end = c->now + 1;
  named_leave(c, w);
  cluster_leave(c, w);
  for (u32 k = 0; k < sub->n_warps; k++)
    if (sub->warps[k] == w) {
      sub->warps[k] = sub->warps[--sub->n_warps];
      break;
    }
  if (sub->last == w)
    sub->last = NULL;
  if (!c->clusters[w->copy].warps)
    next_cluster(c, w->copy);
}

static void issue(Clock *c, Sub *sub, WarpState *w) {
  Execution x = next_execution(c, w);
  account(c, &x);
  w->issued_at = c->now;
  w->fixed_at = c->now + fmax(x.op->stall, 1);
  w->blocked_until = w->branch_at = w->unit_at = 0;
  execute(c, &x);
  c->totals->issued++;
  sub->issued++;
  sub->slot_free = c->now + 1 + (x.op->yields ? c->chip->yield_cycles : 0);
  sub->last = x.op->yields ? NULL : w;
  if (++w->at == w->info->length) {
    end_warp(c, sub, w);
    return;
  }
  if ((u32)c->in->order[w->info->first + w->at] != x.index + 1)
    w->branch_at = c->now + c->chip->branch_cycles;
  fetch(c, w, x.index);
}

/* The warp that issued last goes on while its control codes say so; else the one that issued longest ago. */
void issue_cycle(Clock *c, Sub *sub) {
  WarpState *chosen = NULL;
  sub->next = CLOCK_NEVER;
  if (sub->slot_free > c->now) {
    sub->next = ceil(sub->slot_free);
    return;
  }
  for (u32 k = 0; k < sub->n_warps; k++) {
    WarpState *w = sub->warps[k];
    double at = ready_at(c, sub, w);
    if (at > c->now) {
      sub->next = fmin(sub->next, ceil(at));
      continue;
    }
    bool keeps = chosen && chosen == sub->last && c->chip->greedy > 0.5;
    bool better = !chosen || (w == sub->last && c->chip->greedy > 0.5) || w->issued_at < chosen->issued_at ||
                  (w->issued_at == chosen->issued_at && w->id < chosen->id);
    if (better && !keeps)
      chosen = w;
  }
  if (chosen) {
    issue(c, sub, chosen);
    sub->next = c->now + 1;
  }
}
