/* Named barriers, bar.warp.sync and setmaxnreg (PTX ISA, "bar, barrier", "bar.warp.sync", "setmaxnreg").
 *
 * A warp counts as 32 threads.  A waiting warp is remembered by a bit: warps_in[0] waits in the open
 * generation, warps_in[1] was released and has not gone on yet. */
#include "machine/core.h"
#include "memory/timing.h"

static u32 live_threads(const Cta *cta) {
  u32 n = 0;
  for (u32 w = 0; w < cta->n_warps; w++)
    n += live_lanes(&cta->warps[w]) ? LANES : 0;
  return n;
}

static void try_complete(Ctx *c, NamedBar *b) {
  u32 target = b->count == NONE32 ? live_threads(c->cta)
                                  : b->count; /* without a count: all threads that have not exited */
  if (!b->arrived || b->arrived < target)
    return;
  b->t_done = b->t + T_NAMED_BARRIER + T_NAMED_PER_WARP * (b->arrived / LANES);
  b->generation++;
  b->arrived = 0;
  b->t = 0;
  b->warps_in[1] |= b->warps_in[0];
  b->warps_in[0] = 0;
  see_flip(c->cl, &b->check);
  b->votes_done = b->votes;
  b->votes = 0;
  note_progress(c->cl);
}

static Step check_count(Ctx *c, const NamedBar *b, u32 id, u32 count) {
  if (count != NONE32 && (!count || count % LANES))
    return fault(c, "named-barrier", "barrier %u: thread count %u is not a positive multiple of 32", id, count);
  if (count != NONE32 && count > c->cta->n_warps * LANES)
    return fault(c, "named-barrier", "barrier %u: thread count %u is more than the CTA's %u threads", id, count,
                 c->cta->n_warps * LANES);
  if (!b->arrived)
    return STEP_NEXT;
  u32 all = c->cta->n_warps * LANES, have = b->count == NONE32 ? all : b->count, want = count == NONE32 ? all : count;
  if (have != want)
    return fault(c, "named-barrier", "barrier %u: thread count %u, but %u threads arrived with count %u", id, want,
                 b->arrived, have);
  return STEP_NEXT;
}

static void arrive(Ctx *c, NamedBar *b, u32 count, u32 votes, u32 kind) {
  if (!b->arrived) {
    b->count = count;
    b->kind = kind;
    b->votes = kind == BAR_RED_AND ? 1 : 0;
  }
  b->arrived += LANES;
  if (kind == BAR_RED_POPC)
    b->votes += (u32)__builtin_popcount(votes);
  if (kind == BAR_RED_AND)
    b->votes &= votes == live_lanes(c->w);
  if (kind == BAR_RED_OR)
    b->votes |= votes != 0;
  see_release(c, NULL, &b->check);
  if (c->sp->t > b->t)
    b->t = c->sp->t;
}

static Step uniform(Ctx *c, u32 slot, const char *what, u32 *value) {
  const u32 *v = R32(c, slot);
  *value = v[first_lane(c->mask)];
  FOR_LANES (c->mask, l)
    if (v[l] != *value)
      return fault(c, "named-barrier", "%s differs between the threads of the warp: %u and %u", what, *value, v[l]);
  return STEP_NEXT;
}

static u32 votes_of(const Ctx *c, const Ins *i) {
  if (i->form.barrier.kind < BAR_RED_POPC)
    return 0;
  u32 p = PRED(c, i->s[i->ns - 1]);
  return (i->form.barrier.negated ? ~p : p) & c->mask;
}

static void leave(Ctx *c, const Ins *i, NamedBar *b, u32 bit) {
  b->warps_in[1] &= ~bit;
  see_acquire(c, &b->check);
  if (b->t_done > c->sp->t)
    c->sp->t = b->t_done;
  if (i->form.barrier.kind == BAR_RED_POPC)
    FOR_LANES (c->mask, l)
      R32(c, i->d[0])[l] = b->votes_done;
  if (i->form.barrier.kind > BAR_RED_POPC)
    set_pred(c, i->d[0], b->votes_done ? NONE32 : 0);
}

/* Lanes that came by calls of their own cannot become one split: their ways meet later. */
static bool in_pieces(const Ctx *c, const Ins *i) {
  const Warp *w = c->w;
  if (i->form.barrier.aligned || i->form.barrier.kind != BAR_SYNC)
    return false;
  if (w->came || c->mask == live_lanes(w))
    return w->came;
  for (u32 k = 0; k < LANES; k++)
    if (w->splits[k].live && w->splits[k].join != c->sp->join)
      return true;
  return false;
}

/* barrier.sync by a part of a warp, which arrives with the last part and is gone with it. */
static Step sync_piece(Ctx *c, NamedBar *b, u32 id, u32 count) {
  Warp *w = c->w;
  u32 bit = 1u << w->index;
  if (w->came && w->came_to != id)
    return fault(c, "named-barrier", "lanes of one warp are at the barriers %u and %u", w->came_to, id);
  if (!(w->came & c->mask) && !(b->warps_in[1] & bit)) {
    w->came |= c->mask;
    w->came_to = id;
    see_release(c, NULL, &b->check);
    note_progress(c->cl);
  }
  if ((w->came & live_lanes(w)) == live_lanes(w) && !((b->warps_in[0] | b->warps_in[1]) & bit)) {
    Step s = check_count(c, b, id, count);
    if (s != STEP_NEXT)
      return s;
    arrive(c, b, count, 0, BAR_SYNC);
    b->warps_in[0] |= bit;
    note_progress(c->cl);
    try_complete(c, b);
  }
  if (!(b->warps_in[1] & bit) || !(w->came & c->mask))
    return block(c, WAIT_NAMED, c->cta->rank, id, b->generation);
  w->came &= ~c->mask & live_lanes(w);
  see_acquire(c, &b->check);
  if (b->t_done > c->sp->t)
    c->sp->t = b->t_done;
  if (!w->came)
    b->warps_in[1] &= ~bit;
  return STEP_NEXT;
}

/* bar{.cta}.{sync,arrive,red}, barrier{.cta}.….  s: id, the count if there is one, the predicate of .red. */
static Step op_named(Ctx *c, const Ins *i) {
  u32 id, count = NONE32, bit = 1u << c->w->index;
  bool piece = in_pieces(c, i);
  Step s = piece ? STEP_NEXT : warp_converge(c, live_lanes(c->w));
  if (s != STEP_NEXT)
    return s;
  if ((s = uniform(c, i->s[0], "the barrier number", &id)) != STEP_NEXT)
    return s;
  if (i->form.barrier.counted && (s = uniform(c, i->s[1], "the thread count", &count)) != STEP_NEXT)
    return s;
  if (id >= MAX_NAMED)
    return fault(c, "named-barrier", "barrier number %u is not below %u", id, MAX_NAMED);
  NamedBar *b = &c->cta->named[id];
  if (piece)
    return sync_piece(c, b, id, count);
  if (b->warps_in[1] & bit) {
    leave(c, i, b, bit);
    return STEP_NEXT;
  }
  if (!(b->warps_in[0] & bit)) {
    if ((s = check_count(c, b, id, count)) != STEP_NEXT)
      return s;
    if (b->arrived && i->form.barrier.kind != BAR_ARRIVE && b->kind != i->form.barrier.kind &&
        (b->kind > BAR_ARRIVE || i->form.barrier.kind > BAR_ARRIVE))
      return fault(c, "named-barrier", "barrier %u: .red and other forms meet in one generation", id);
    arrive(c, b, count, votes_of(c, i), i->form.barrier.kind);
    if (i->form.barrier.kind != BAR_ARRIVE)
      b->warps_in[0] |= bit;
    note_progress(c->cl);
  }
  try_complete(c, b);
  if (i->form.barrier.kind == BAR_ARRIVE)
    return STEP_NEXT;
  if (b->warps_in[1] & bit) {
    leave(c, i, b, bit);
    return STEP_NEXT;
  }
  return block(c, WAIT_NAMED, c->cta->rank, id, b->generation);
}

/* Groups of lanes that each meet by a mask of their own, as tiles of a warp do: all of each are here. */
static Step meet_in_groups(Ctx *c, const u32 *masks) {
  FOR_LANES (c->mask, l)
    if (masks[l] & live_lanes(c->w) & ~c->mask)
      return fault(c, "warp-barrier", "the member mask differs between the threads, and 0x%x are not all here",
                   masks[l]);
  FOR_LANES (c->mask, l)
    FOR_LANES (masks[l] & c->mask, other)
      if (masks[other] != masks[l])
        return fault(c, "warp-barrier", "lanes %u and %u name the member masks 0x%x and 0x%x", l, other, masks[l],
                     masks[other]);
  FOR_LANES (c->mask, l)
    if (l == first_lane(masks[l] & c->mask))
      see_warp_sync(c, masks[l]);
  return STEP_NEXT;
}

/* bar.warp.sync membermask. */
static Step op_warp_bar(Ctx *c, const Ins *i) {
  const u32 *masks = R32(c, i->s[0]);
  u32 members = masks[first_lane(c->mask)];
  bool groups = false;
  FOR_LANES (c->mask, l) {
    if (!(masks[l] >> l & 1))
      return fault(c, "warp-barrier", "lane %u is not in its own member mask 0x%x", l, masks[l]);
    groups |= masks[l] != members;
  }
  if (groups)
    return meet_in_groups(c, masks);
  Step s = warp_converge(c, members);
  if (s == STEP_NEXT)
    see_warp_sync(c, members);
  return s;
}

/* ---- setmaxnreg ---------------------------------------------------------------------------- */
/* The pool is the CTA's own: what it was given at launch, in units of 8 registers per thread, not the register
 * file of the SM.  An H200 bears this out: an inc beyond it never ended, though the file had registers left. */
static u32 allocated(u32 per_thread) {
  return (per_thread + REGISTER_UNIT - 1) / REGISTER_UNIT * REGISTER_UNIT * LANES;
}

u32 register_pool(const Cta *cta) {
  return allocated(cta->cl->m->prog.entry_regs) * cta->n_warps;
}

/* The ISA asks for one and the same instruction in all warps of a warpgroup.  Shipped kernels give each role of
 * a warpgroup its own (FA4 forward: the same count on different lines; FA4 backward: 88 and 24) and run, so
 * different lines are accepted and different counts are a finding.  It asks for a barrier between two of them, too;
 * worker warps of Triton go without one from an increase to the next, to the count that they have already. */
static Step check_warpgroup(Ctx *c, u32 want) {
  const Warp *w = c->w;
  u32 first = w->index & ~(WARPGROUP_WARPS - 1);
  for (u32 k = first; k < first + WARPGROUP_WARPS; k++) {
    if (k >= c->cta->n_warps)
      return fault(c, "setmaxnreg", "warp %u is not in a full warpgroup of %u warps", w->index, WARPGROUP_WARPS);
    const Warp *o = &c->cta->warps[k];
    if (o->reg_moves < w->reg_moves && w->maxnreg != want)
      return fault(c, "setmaxnreg",
                   "warp %u is at its next setmaxnreg before warp %u of its warpgroup has executed the one at line %u",
                   w->index, k, w->reg_line);
    if (o->reg_moves == w->reg_moves + 1 && o->maxnreg != want)
      finding(c, o->reg_line, "setmaxnreg-differs",
              "warp %u of the warpgroup set its registers to %u at line %u, this one sets %u", k, o->maxnreg,
              o->reg_line, want);
  }
  return STEP_NEXT;
}

/* setmaxnreg.{inc,dec}.sync.aligned.u32.  imm: registers per thread. */
static Step op_setmaxnreg(Ctx *c, const Ins *i) {
  Warp *w = c->w;
  Cta *cta = c->cta;
  u32 want = (u32)i->imm;
  bool grow = i->form.register_budget.grow;
  Step s = warp_converge(c, live_lanes(w));
  if (s != STEP_NEXT)
    return s;
  if (!c->m->prog.entry_regs) { /* ptxas C7508: it ignores the instruction then */
    finding(
        c, 0, "setmaxnreg-ignored",
        "the register count at entry is unknown (.maxnreg, or .reqntid with .minnctapersm), so setmaxnreg is ignored");
    return STEP_NEXT;
  }
  if ((s = check_warpgroup(c, want)) != STEP_NEXT)
    return s;
  if (grow ? want < w->maxnreg : want > w->maxnreg)
    return fault(c, "setmaxnreg", "%s to %u registers from %u", grow ? "inc" : "dec", want, w->maxnreg);
  u32 used = 0, pool = register_pool(cta);
  for (u32 k = 0; k < cta->n_warps; k++)
    used += allocated(k == w->index ? want : cta->warps[k].maxnreg);
  if (used > pool)
    return block(c, WAIT_SETMAXNREG, cta->rank, want, used - pool);
  w->maxnreg = want;
  w->reg_moves++;
  w->reg_line = i->line;
  note_progress(c->cl);
  return STEP_NEXT;
}

/* At the exit of a CTA: warps of one warpgroup that executed different numbers of setmaxnreg, or NULL. */
const char *setmaxnreg_exit_check(const Cta *cta) {
  static _Thread_local char text[160];
  for (u32 k = 0; k < cta->n_warps; k++) {
    const Warp *w = &cta->warps[k], *first = &cta->warps[k & ~(WARPGROUP_WARPS - 1)];
    if (w->reg_moves == first->reg_moves)
      continue;
    snprintf(text, sizeof text,
             "warp %u executed %u setmaxnreg, warp %u of its warpgroup %u; all four warps must execute each",
             first->index, first->reg_moves, k, w->reg_moves);
    return text;
  }
  return NULL;
}

OP_TABLE(barrier) = {
    {"NAMED_BARRIER", op_named}, {"WARP_BARRIER", op_warp_bar}, {"SETMAXNREG", op_setmaxnreg}, {NULL, NULL}};
