/* Divergence and reconvergence.
 *
 * Lanes that take different ways become separate splits; they meet again at the branch's immediate
 * post-dominator, or after the call that they made together, where a Join collects them.  Every split
 * that is not blocked may run, so lanes of one warp can wait for one another (PTX ISA, "Independent
 * thread scheduling"). */
#include "warp/splits.h"
#include "machine/alloc.h"

static i32 join_new(Ctx *c, Join join) {
  Warp *w = c->w;
  i32 index = w->free_join;
  if (index >= 0)
    w->free_join = w->joins[index].next_free;
  else {
    w->joins = mem_grow(c->m, w->joins, w->n_joins, &w->cap_joins, sizeof(Join));
    index = (i32)w->n_joins++;
  }
  w->joins[index] = join;
  return index;
}

i32 join_at(Ctx *c, u32 pc) {
  i32 parent = c->sp->join;
  if (parent >= 0 && c->w->joins[parent].at == pc)
    return parent;
  return join_new(c, (Join){.pc = pc, .at = pc, .expect = c->sp->mask, .parent = parent});
}

i32 join_call(Ctx *c, u32 pc, u32 expect, i32 parent) {
  return join_new(c, (Join){.pc = pc, .at = NONE32, .expect = expect, .parent = parent});
}

static void join_free(Warp *w, i32 index) {
  Join *j = &w->joins[index];
  mem_free(j->saved);
  j->next_free = w->free_join;
  w->free_join = index;
}

static Split *split_new(Warp *w) {
  Split *sp = w->splits;
  while (sp->live) /* a live split has a lane that no other has, so one of LANES is free */
    sp++;
  w->n_live++;
  return sp;
}

void split_end(Warp *w, Split *sp) {
  sp->live = false;
  sp->blocked = false;
  w->n_live--;
}

bool join_complete(const Warp *w, i32 index) {
  const Join *j = &w->joins[index];
  return ((j->arrived | w->exited) & j->expect) == j->expect;
}

void join_finish(Warp *w, i32 index, Split *sp) {
  for (;;) {
    Join *j = &w->joins[index];
    u32 mask = j->arrived & ~w->exited, pc = j->pc;
    i32 parent = j->parent;
    u64 t = j->t;
    join_free(w, index);
    bool pass_on = parent >= 0 && (!mask || w->joins[parent].at == pc);
    if (!pass_on) {
      if (!mask)
        return;
      if (sp->live)
        sp = split_new(w);
      else
        w->n_live++;
      *sp = (Split){.mask = mask, .pc = pc, .join = parent, .t = t, .live = true};
      return;
    }
    Join *p = &w->joins[parent];
    p->arrived |= mask;
    if (t > p->t)
      p->t = t;
    if (!join_complete(w, parent))
      return;
    index = parent;
  }
}

void split_arrive(Ctx *c) {
  Warp *w = c->w;
  Split *sp = c->sp;
  i32 index = sp->join;
  Join *j = &w->joins[index];
  j->arrived |= sp->mask;
  if (sp->t > j->t)
    j->t = sp->t;
  split_end(w, sp);
  if (join_complete(w, index))
    join_finish(w, index, sp);
}

Split *split_off(Ctx *c, u32 mask, u32 pc) {
  Split *other = split_new(c->w);
  *other = (Split){.mask = mask, .pc = pc, .join = c->sp->join, .t = c->sp->t, .live = true};
  Ctx d = *c;
  d.sp = other;
  if (other->join >= 0 && pc == c->w->joins[other->join].at)
    split_arrive(&d);
  return other;
}

/* Lanes that wait at a join for lanes which wait for them go on alone: no thread has to wait where paths meet
 * (PTX ISA, "Independent thread scheduling"). True when there were any. */
bool joins_let_go(Warp *w) {
  for (u32 k = 0; k < LANES; k++)
    for (i32 index = w->splits[k].live ? w->splits[k].join : -1; index >= 0; index = w->joins[index].parent) {
      Join *j = &w->joins[index];
      u32 mask = j->arrived & ~w->exited;
      if (!mask || j->at == NONE32)
        continue;
      j->expect &= ~mask;
      j->arrived &= ~mask;
      *split_new(w) = (Split){.mask = mask, .pc = j->pc, .join = j->parent, .t = j->t, .live = true};
      return true;
    }
  return false;
}
