/* Who runs next: the loop over one cluster's warps, the landing of asynchronous work, deadlock detection.
 *
 * A split runs until it blocks, exits or has used its quantum.  A blocked split is tried again only
 * after something observable changed (`Cluster.progress`).  When nothing can run, asynchronous work
 * lands; when there is none, suspended try_waits time out (PTX ISA, mbarrier.try_wait: the wait is
 * "potentially blocking" with a system-dependent limit); when even that changes nothing, it is a deadlock. */
#include "machine/core.h"
#include "machine/record.h"
#include "machine/share.h"

#define PROGRESS_STEP 100000u /* instructions between two words to whoever reads our progress */
#define LOOK 8u               /* of these between two looks at what other threads have touched */
#define QUANTUM_FAST 2048u
#define QUANTUM_RANDOM 48u
#define HORIZON 64u        /* cycles that warps may be ahead of one another in mode "timed" */
#define TIMEOUT_ROUNDS 64u /* time-outs without progress before the run is called a deadlock */

static bool registers_valid(Ctx *c, const Ins *i) {
  const u32 *v = c->w->valid;
  u32 unset = i->guard == NONE32 ? 0 : c->sp->mask & ~v[slot_index(i->guard)];
  if (unset)
    finding(c, 0, "uninitialised-register", "the guard predicate is read before it was written (lanes %08x)", unset);
  for (u32 k = 0; k < i->ns; k++)
    if ((v[slot_index(i->s[k])] & c->mask) != c->mask) {
      finding(c, 0, "uninitialised-register", "source operand %u is read before it was written (lanes %08x)", k,
              c->mask & ~v[slot_index(i->s[k])]);
      return false;
    }
  return true;
}

static inline void arrive_if_joined(Ctx *c) {
  Split *sp = c->sp;
  if (sp->live && sp->join >= 0 && sp->pc == c->w->joins[sp->join].at)
    split_arrive(c);
}

static Step execute(Ctx *c, const Ins *i) {
  Machine *m = c->m;
  Split *sp = c->sp;
  c->ins = i;
  c->mask = i->guard == NONE32 ? sp->mask : sp->mask & (i->guard_neg ? ~PRED(c, i->guard) : PRED(c, i->guard));
  if (c->w->valid)
    registers_valid(c, i);
  if (!c->mask) {
    if (m->records)
      record_step(c, i, sp->mask, m->n_values);
    sp->pc++;
    sp->t += 1;
    arrive_if_joined(c);
    return STEP_NEXT;
  }
  if (c->w->loads_open)
    see_registers(c, i);
  if (c->w->wgmma_watched)
    see_wgmma_registers(c, i);
  u64 before = sp->t, values = m->n_values;
  u32 active = sp->mask;
  if (m->records)
    record_values(c, i);
  Step step = i->fn(c, i);
  if (m->records && step != STEP_FAULT)
    record_end(c, i, step, active, values);
  if (step == STEP_BLOCK)
    return step;
  m->op_count[i->op]++;
  m->line_count[i - m->prog.code]++;
  m->instructions++;
  m->thread_instructions += (u64)__builtin_popcount(c->mask);
  c->w->instructions++;
  if (c->w->valid)
    for (u32 k = 0; k < i->nd; k++)
      c->w->valid[slot_index(i->d[k])] |= c->mask;
  if (step == STEP_FAULT || step == STEP_EXIT)
    return step;
  if (m->tracing && sp->t > before)
    trace_event(m, EV_WAIT, c->cta, c->w->index, i->line, before, sp->t, 0, 0);
  if (m->tracing && (m->opt.check & CHECK_RACES) && (i->unit == UNIT_LSU || i->unit == UNIT_TMEM))
    trace_event(m, EV_ACCESS, c->cta, c->w->index, i->line, sp->t, sp->t + i->cost, 0, 0);
  if (step == STEP_NEXT) {
    sp->pc++;
    sp->t += i->cost;
  }
  arrive_if_joined(c);
  return step;
}

/* Run one split; true when it executed at least one instruction. */
static bool run_split(Machine *m, Cluster *cl, Warp *w, Split *sp, u32 quantum, u64 until) {
  Ctx c = {.m = m, .cl = cl, .cta = w->cta, .w = w, .sp = sp, .r = w->regs};
  bool ran = false;
  while (quantum-- && sp->live && !m->faulted && sp->t < until) {
    if (sp->pc >= m->prog.n_code) {
      c.mask = sp->mask;
      fault(&c, "ran-off-end", "no instruction follows");
      break;
    }
    Step step = execute(&c, &m->prog.code[sp->pc]);
    if (step == STEP_BLOCK) {
      sp->blocked = true;
      sp->seen_progress = cl->progress;
      return ran;
    }
    ran = true;
    sp->blocked = false;
    sp->timed_out = false;
    sp->why.kind = WAIT_NOTHING;
    if (m->opt.mode == MODE_RANDOM && cl->n_async && (rng_next(cl) & 15) == 0)
      async_land_one(cl);
  }
  return ran;
}

static inline bool may_run(const Cluster *cl, const Split *sp) {
  return sp->live && !(sp->blocked && !sp->timed_out && sp->seen_progress == cl->progress);
}

static bool run_warp(Machine *m, Cluster *cl, Warp *w, u32 quantum, u64 until) {
  bool ran = false;
  u32 unseen = w->n_live; /* until one of them has run, there are no others */
  for (u32 k = 0; k < LANES && w->n_live && (ran || unseen) && !m->faulted && !m->stop; k++) {
    Split *sp = &w->splits[k];
    unseen -= !ran && sp->live;
    if (!may_run(cl, sp))
      continue;
    ran |= run_split(m, cl, w, sp, quantum, until);
  }
  return ran;
}

static u32 live_warps(const Cluster *cl) {
  u32 n = 0;
  for (u32 k = 0; k < cl->n_ctas; k++)
    n += cl->ctas[k].n_warps - cl->ctas[k].warps_exited;
  return n;
}

static Warp *nth_warp(Cluster *cl, u32 n) {
  for (u32 k = 0; k < cl->n_ctas; k++) {
    if (n < cl->ctas[k].n_warps)
      return &cl->ctas[k].warps[n];
    n -= cl->ctas[k].n_warps;
  }
  return NULL;
}

/* The modelled time of the next thing that can happen; NEVER when nothing can. */
static u64 next_time(const Cluster *cl) {
  u64 next = async_next(cl);
  for (u32 k = 0; k < cl->n_ctas; k++)
    for (u32 w = 0; w < cl->ctas[k].n_warps; w++) {
      const Warp *warp = &cl->ctas[k].warps[w];
      u32 left = warp->n_live;
      for (const Split *sp = warp->splits; left; sp++) {
        left -= sp->live;
        if (may_run(cl, sp) && sp->t < next)
          next = sp->t;
      }
    }
  return next;
}

/* One turn in mode "timed": what happens up to the horizon, or else the horizon goes to where something happens. */
static bool turn_in_time(Machine *m, Cluster *cl, u32 n_warps) {
  bool ran = false;
  for (u32 k = 0; k < n_warps && !m->faulted; k++)
    ran |= run_warp(m, cl, nth_warp(cl, k), QUANTUM_FAST, cl->horizon);
  ran |= async_land_due(cl, cl->horizon);
  if (ran || m->faulted)
    return ran;
  u64 next = next_time(cl);
  if (next == NEVER)
    return false;
  cl->horizon = (next > cl->horizon ? next : cl->horizon) + HORIZON;
  return true;
}

/* One turn for every warp.  Other modes than fast start anywhere, leave warps out and cut turns short. */
static bool turn(Machine *m, Cluster *cl, u32 n_warps) {
  bool ran = false, random = m->opt.mode == MODE_RANDOM;
  if (m->opt.mode == MODE_TIMED)
    return turn_in_time(m, cl, n_warps);
  u32 start = m->opt.mode == MODE_FAST ? 0 : (u32)(rng_next(cl) % n_warps);
  for (u32 k = 0; k < n_warps && !m->faulted; k++) {
    if (random && (rng_next(cl) & 3) == 0)
      continue;
    u32 quantum = random ? 1 + (u32)(rng_next(cl) % QUANTUM_RANDOM) : QUANTUM_FAST;
    ran |= run_warp(m, cl, nth_warp(cl, (start + k) % n_warps), quantum, NEVER);
  }
  return ran;
}

static bool time_out_waits(Cluster *cl) {
  bool any = false;
  for (u32 k = 0; k < cl->n_ctas; k++)
    for (u32 w = 0; w < cl->ctas[k].n_warps; w++)
      for (u32 s = 0; s < LANES; s++) {
        Split *sp = &cl->ctas[k].warps[w].splits[s];
        if (sp->live && sp->blocked && sp->why.kind == WAIT_MBARRIER) {
          sp->timed_out = true;
          any = true;
        }
      }
  return any;
}

static bool all_blocked(const Cluster *cl) {
  for (u32 k = 0; k < cl->n_ctas; k++)
    for (u32 w = 0; w < cl->ctas[k].n_warps; w++)
      for (u32 s = 0; s < LANES; s++) {
        if (may_run(cl, &cl->ctas[k].warps[w].splits[s]))
          return false;
      }
  return true;
}

/* Nothing moves: lanes that wait for others only to go on together need not. */
static bool part_lanes(Cluster *cl) {
  bool any = false;
  for (u32 k = 0; k < cl->n_ctas; k++)
    for (u32 w = 0; w < cl->ctas[k].n_warps; w++)
      any |= joins_let_go(&cl->ctas[k].warps[w]);
  return any;
}

/* A warp that may run, and the instruction it is at: one of those that run without an end. */
static Ctx running(Machine *m, Cluster *cl, u32 *line) {
  Ctx c = {.m = m, .cl = cl, .cta = &cl->ctas[0]};
  *line = 0;
  for (u32 k = 0; k < cl->n_ctas; k++)
    for (u32 w = 0; w < cl->ctas[k].n_warps; w++)
      for (u32 s = 0; s < LANES; s++) {
        Split *sp = &cl->ctas[k].warps[w].splits[s];
        if (!sp->live || sp->blocked || sp->pc >= m->prog.n_code)
          continue;
        *line = m->prog.code[sp->pc].line;
        return (Ctx){.m = m, .cl = cl, .cta = &cl->ctas[k], .w = &cl->ctas[k].warps[w], .sp = sp, .mask = sp->mask};
      }
  return c;
}

void report_livelock(Machine *m, Cluster *cl, u64 idle) {
  char text[240];
  snprintf(text, sizeof text,
           "%llu warp instructions ran and changed nothing: no store, arrival or landing; a loop is polling for "
           "something that never comes",
           (unsigned long long)idle);
  u32 line;
  Ctx c = running(m, cl, &line);
  add_finding(m, (Place){&c, line, 0}, SEVERITY_FAULT, "livelock", text);
}

static void report_limit(Machine *m, Cluster *cl) {
  char text[160];
  snprintf(text, sizeof text, "%llu warp instructions ran, and max_instructions allows %llu",
           (unsigned long long)m->instructions, (unsigned long long)m->opt.max_instructions);
  u32 line;
  Ctx c = running(m, cl, &line);
  add_finding(m, (Place){&c, line, 0}, SEVERITY_FAULT, "too-many-instructions", text);
}

static u64 patience_of(const Machine *m, const Cluster *cl, u64 patience) {
  if (m->opt.talks)
    return cl->polled ? patience / POLLING : patience;
  return cl->polled ? patience : patience * COMPUTING;
}

/* Run until the end, or until about `patience` warp instructions have changed nothing: more while nobody polls, and
 * fewer where somebody polls for what another cluster may change. */
Turn cluster_run(Machine *m, Cluster *cl, u64 patience) {
  u32 n_warps = 0, rounds = 0, looks = 0;
  for (u32 k = 0; k < cl->n_ctas; k++)
    n_warps += cl->ctas[k].n_warps;
  u64 seen = cl->progress, at = m->instructions, published = m->instructions;
  cl->polled = false;
  while (!m->faulted && !m->stop && live_warps(cl)) {
    bool ran = turn(m, cl, n_warps);
    if (m->instructions - published > PROGRESS_STEP) {
      m->progress->instructions = published = m->instructions;
      if (m->share && !(++looks % LOOK))
        share_look(m);
    }
    if (m->opt.max_instructions && m->instructions > m->opt.max_instructions && !m->faulted) {
      report_limit(m, cl);
      return CLUSTER_ENDED;
    }
    if (cl->progress != seen) {
      seen = cl->progress;
      at = m->instructions;
      rounds = 0;
      cl->polled = false;
    }
    cl->idle = m->instructions - at;
    if (cl->idle > patience_of(m, cl, patience) && !m->faulted)
      return CLUSTER_IDLE;
    if (ran || m->faulted || !all_blocked(cl))
      continue;
    if (async_land_one(cl))
      continue;
    if (rounds++ < TIMEOUT_ROUNDS && time_out_waits(cl))
      continue;
    if (part_lanes(cl))
      continue;
    report_deadlock(m, cl);
    return CLUSTER_ENDED;
  }
  while (!m->faulted && async_land_one(cl)) {
  }
  return CLUSTER_ENDED;
}
