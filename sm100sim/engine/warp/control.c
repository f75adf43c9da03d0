/* Branches, exit, special registers at the start of a warp. */
#include "warp/splits.h"

void warp_exit_lanes(Ctx *c, u32 mask) {
  Warp *w = c->w;
  Cta *cta = c->cta;
  Split *sp = c->sp;
  w->exited |= mask;
  c->cl->bar_expected -= (u32)__builtin_popcount(mask);
  see_exit(c);
  note_progress(c->cl);
  if (c->m->tracing)
    trace_event(c->m, EV_MARK, cta, w->index, c->ins->line, sp->t, sp->t, mask, 0);
  sp->mask &= ~mask;
  if (!sp->mask) {
    i32 index = sp->join;
    split_end(w, sp);
    if (index >= 0 && join_complete(w, index))
      join_finish(w, index, sp);
  }
  if (live_lanes(w))
    return;
  cta->warps_exited++;
  if (cta->warps_exited < cta->n_warps)
    return;
  cta->exited = true;
  const char *leak = tmem_exit_check(cta);
  if (leak)
    finding(c, 0, "tmem-leak", "%s", leak);
  const char *uneven = setmaxnreg_exit_check(cta);
  if (uneven)
    finding(c, 0, "setmaxnreg", "%s", uneven);
}

static Step op_exit(Ctx *c, const Ins *i) {
  Split *sp = c->sp;
  u32 leaving = c->mask;
  bool stays = sp->mask & ~leaving;
  (void)i;
  if (stays)
    sp->pc++;
  warp_exit_lanes(c, leaving);
  return stays ? STEP_JUMP : STEP_EXIT;
}

static Step op_bra(Ctx *c, const Ins *i) {
  Split *sp = c->sp;
  u32 taken = c->mask, rest = sp->mask & ~taken;
  sp->t += i->cost;
  if (!rest) {
    sp->pc = i->target;
    return STEP_JUMP;
  }
  i32 join = i->reconv == NONE32 ? sp->join : join_at(c, i->reconv);
  sp->mask = rest;
  sp->join = join;
  sp->pc++;
  split_off(c, taken, i->target);
  return STEP_JUMP;
}

/* brx.idx: lanes with equal indices go on together.  imm: where the table begins in Program.tables. */
static Step op_brx(Ctx *c, const Ins *i) {
  Split *sp = c->sp;
  const u32 *index = R32(c, i->s[0]), *table = c->m->prog.tables + i->imm;
  u32 all = c->mask, left = all, rest = sp->mask & ~all;
  FOR_LANES (all, l)
    if (index[l] >= i->form.call.entries)
      return fault(c, "branch-index", "index %u (lane %u) is beyond the %u entries of the table", index[l], l,
                   i->form.call.entries);
  sp->t += i->cost;
  u32 first = same_word(index, all);
  if (first == sp->mask) {
    sp->pc = table[index[first_lane(first)]];
    return STEP_JUMP;
  }
  if (i->reconv != NONE32)
    sp->join = join_at(c, i->reconv);
  while (left) {
    u32 group = same_word(index, left), target = table[index[first_lane(group)]];
    left &= ~group;
    if (!left && !rest) { /* the last group stays */
      sp->mask = group;
      sp->pc = target;
      return STEP_JUMP;
    }
    split_off(c, group, target);
  }
  sp->mask = rest;
  sp->pc++;
  return STEP_JUMP;
}

/* Lanes named by a .sync instruction that wait at it in other splits of the warp join this one. */
Step warp_converge(Ctx *c, u32 members) {
  Warp *w = c->w;
  Split *sp = c->sp;
  members &= live_lanes(w);
  if ((c->mask & members) == members)
    return STEP_NEXT;
  u32 here = sp->mask;
  for (u32 k = 0; k < LANES; k++) {
    Split *o = &w->splits[k];
    if (o != sp && o->live && o->pc == sp->pc && o->join == sp->join && o->blocked && o->why.kind == WAIT_WARP &&
        (o->mask & members))
      here |= o->mask;
  }
  u32 guard = c->ins->guard == NONE32 ? NONE32 : c->ins->guard_neg ? ~PRED(c, c->ins->guard) : PRED(c, c->ins->guard);
  if ((here & guard & members) != members)
    return block(c, WAIT_WARP, c->cta->rank, 0, members & ~here);
  for (u32 k = 0; k < LANES; k++) {
    Split *o = &w->splits[k];
    if (o != sp && o->live && (o->mask & here) && o->pc == sp->pc) {
      if (o->t > sp->t)
        sp->t = o->t;
      split_end(w, o);
    }
  }
  sp->mask = here;
  c->mask = here & guard;
  return STEP_NEXT;
}

/* Index of `kind` in the three axes that begin at `first`, or 3. */
static inline u32 axis_of(u32 kind, u32 first) {
  return kind - first < 3 ? kind - first : 3;
}

/* %tid, %ntid, %ctaid, ...: a value per axis; false for other registers. */
static bool axis_value(const Warp *w, u32 kind, u32 lane, u32 *value) {
  const Cta *cta = w->cta;
  const Options *o = &cta->cl->m->opt;
  u32 t = w->index * LANES + lane, d;
  if (kind == SP_TID_X)
    *value = t % o->block[0];
  else if ((d = axis_of(kind, SP_TID_X)) < 3)
    *value = d == 1 ? t / o->block[0] % o->block[1] : t / (o->block[0] * o->block[1]);
  else if ((d = axis_of(kind, SP_NTID_X)) < 3)
    *value = o->block[d];
  else if ((d = axis_of(kind, SP_CTAID_X)) < 3)
    *value = cta->ctaid[d];
  else if ((d = axis_of(kind, SP_NCTAID_X)) < 3)
    *value = o->grid[d];
  else if ((d = axis_of(kind, SP_CLUSTERID_X)) < 3)
    *value = cta->cl->id[d];
  else if ((d = axis_of(kind, SP_NCLUSTERID_X)) < 3)
    *value = o->grid[d] / o->cluster[d];
  else if ((d = axis_of(kind, SP_CLUSTER_CTAID_X)) < 3)
    *value = cta->cluster_ctaid[d];
  else if ((d = axis_of(kind, SP_CLUSTER_NCTAID_X)) < 3)
    *value = o->cluster[d];
  else
    return false;
  return true;
}

static u32 lane_mask(u32 kind, u32 lane) {
  u32 below = (1u << lane) - 1, own = 1u << lane;
  return kind == SP_LANEMASK_EQ   ? own
         : kind == SP_LANEMASK_LE ? below | own
         : kind == SP_LANEMASK_LT ? below
         : kind == SP_LANEMASK_GE ? ~below
                                  : ~(below | own);
}

static u32 special_value(const Warp *w, u32 kind, u32 lane) {
  const Cta *cta = w->cta;
  u32 value;
  if (axis_value(w, kind, lane, &value))
    return value;
  if (kind >= SP_LANEMASK_EQ && kind <= SP_LANEMASK_GT)
    return lane_mask(kind, lane);
  switch (kind) {
    case SP_LANEID:
      return lane;
    case SP_WARPID:
      return w->index;
    case SP_NWARPID:
      return MAX_WARPS;
    case SP_SMID:
    case SP_CLUSTER_CTARANK:
      return cta->rank;
    case SP_NSMID:
      return SM_COUNT;
    case SP_CLUSTER_NCTARANK:
      return cta->cl->n_ctas;
    case SP_IS_EXPLICIT_CLUSTER:
      return cta->cl->n_ctas > 1;
    case SP_DYNAMIC_SMEM_SIZE:
      return cta->cl->m->opt.dynamic_smem;
    case SP_TOTAL_SMEM_SIZE: /* without what the system keeps, in whole units of allocation (H100 record) */
      return (cta->smem_bytes - SMEM_RESERVED + SMEM_UNIT - 1) / SMEM_UNIT * SMEM_UNIT;
    case SP_AGGR_SMEM_SIZE:
      return (cta->smem_bytes + 15) & ~15u;
    case SP_RESERVED_SMEM_OFFSET_END:
      return SMEM_LENT;
    case SP_RESERVED_SMEM_OFFSET_CAP:
      return SMEM_RESERVED;
    case SP_SMEM_BASE:
      return window_at(cta->rank, 0);
    default:
      return 0;
  }
}

Step lane_by_lane(Ctx *c, const Ins *i, Step (*act)(Ctx *c, const Ins *i, u32 lane)) {
  u32 all = c->mask;
  Step s = STEP_NEXT;
  FOR_LANES (all, l) {
    c->mask = 1u << l;
    if ((s = act(c, i, l)) != STEP_NEXT)
      break;
  }
  c->mask = all;
  return s;
}

void warp_start(Warp *w) {
  const Program *p = &w->cta->cl->m->prog;
  for (u32 k = 0; k < p->n_specials; k++) {
    const Special *s = &p->specials[k];
    if (s->kind != SP_CONSTANT)
      for (u32 l = 0; l < LANES; l++)
        ((u32 *)(w->regs + s->slot))[l] = special_value(w, s->kind, l);
    if (w->valid)
      w->valid[slot_index(s->slot)] = NONE32;
  }
  w->free_join = -1;
  w->splits[0] = (Split){.mask = w->lanes, .join = -1, .live = true};
  w->n_live = 1;
}

/* An instruction without a meaning here; the number says why, in words that Python has. */
static Step op_unsupported(Ctx *c, const Ins *i) {
  return fault(c, "unsupported", "%lld", (long long)i->imm);
}

OP_TABLE(control) = {
    {"BRA", op_bra}, {"BRX", op_brx}, {"EXIT", op_exit}, {"UNSUPPORTED", op_unsupported}, {NULL, NULL}};
