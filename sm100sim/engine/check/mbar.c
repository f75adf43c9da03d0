/* Rules of mbarriers that no single state shows (PTX ISA, "mbarrier object", "Phase of the mbarrier object"). */
#include "check/check.h"

/* Threads of the initialising CTA need a barrier between initialisation and use; asynchronous work and threads of
 * other CTAs need fence.mbarrier_init by the initialiser as well (PTX ISA, "membar/fence"). */
void mbar_use(const Ctx *c, const AsyncOp *op, const Check *check, SyncObject *o, const u32 *at) {
  if (!check->protocol || !o->is_mbar || o->told_init)
    return;
  bool fenced = at[check->first.init + o->init_warp] > o->init_count,
       ordered = fenced || at[o->init_warp] >= o->init_epoch;
  if (fenced || (ordered && !op && c->cta->rank == o->rank))
    return;
  o->told_init = true;
  const char *user = op ? "asynchronous work" : c->cta->rank == o->rank ? "a thread" : "a thread of another CTA";
  if (ordered)
    finding((Ctx *)c, o->init_line, "mbarrier-init-not-fenced",
            "%s uses the mbarrier at CTA %u + 0x%x, whose initialiser has not executed fence.mbarrier_init", user,
            o->rank, o->offset);
  else
    finding((Ctx *)c, o->init_line, "mbarrier-init-unordered",
            "%s uses the mbarrier at CTA %u + 0x%x; missing: a barrier between its initialisation by warp %u of CTA %u "
            "and this use",
            user, o->rank, o->offset, o->init_warp % check->warps_per_cta, o->rank);
}

/* The issue of an operation that will signal the barrier later. */
void see_mbar_use(Ctx *c, void **object) {
  Check *check = c->m->check;
  if (check)
    mbar_use(c, NULL, check, object_of(check, c->cl, object),
             lanes_view(check, warp_dim(check, c->cta, c->w->index), c->mask));
}

void see_mbar_init(Ctx *c, void **object) {
  Check *check = c->m->check;
  if (!check)
    return;
  u32 w = warp_dim(check, c->cta, c->w->index);
  SyncObject *o = object_of(check, c->cl, object);
  o->init_warp = w;
  o->init_epoch = check->warps[w][w];
  o->init_count = ++check->inits[w];
  o->init_line = c->ins->line;
}

/* Whoever invalidates a barrier must know of every arrival: one that came later would find no object. */
void see_mbar_inval(Ctx *c, void **object) {
  Check *check = c->m->check;
  if (!check || !check->protocol)
    return;
  const SyncObject *o = object_of(check, c->cl, object);
  const u32 *own = lanes_view(check, warp_dim(check, c->cta, c->w->index), c->mask);
  for (u32 d = 0; d < check->first.init; d++) {
    if (o->acc[d] <= own[d])
      continue;
    finding(c, o->last_line, "mbarrier-inval-unordered",
            "the mbarrier at CTA %u + 0x%x is invalidated without having seen the last signal of warp %u of CTA %u; "
            "missing: a wait for phase %u",
            o->rank, o->offset, d % check->n_warps % check->warps_per_cta, cta_of(check, d % check->n_warps),
            o->flips - 1);
    return;
  }
}

/* Whether somebody's knowledge `at` leaves the phase before open: neither did a wait tell of its end, nor do all warps
 * that arrived in it come before. */
static bool may_precede(const Check *check, const SyncObject *o, const u32 *at) {
  if (at[o->dim] >= o->flips)
    return false;
  for (u32 w = 0; w < check->n_warps; w++)
    if (executed(check, o->pub[0], w) > executed(check, at, w))
      return true;
  return false;
}

/* "For each phase, at least one test_wait or try_wait must return true before an arrive-on in the next phase."  And an
 * arrival that nothing orders after the end of that phase can come in it instead, which then ends too early. */
void mbar_arrival(Ctx *c, const Check *check, SyncObject *o, const u32 *at) {
  if (!check->protocol || !o->flips || o->told_phase)
    return;
  o->told_phase = !o->observed || may_precede(check, o, at);
  if (!o->observed)
    finding(c, o->last_line, "mbarrier-phase-unobserved",
            "arrival in phase %u of the mbarrier at CTA %u + 0x%x, and no wait has seen phase %u end", o->flips,
            o->rank, o->offset, o->flips - 1);
  else if (o->told_phase)
    finding(c, o->last_line, "mbarrier-early-arrival",
            "arrival in phase %u of the mbarrier at CTA %u + 0x%x, which could come in phase %u; missing: a wait for "
            "that phase before this arrival",
            o->flips, o->rank, o->offset, o->flips - 1);
}

/* The phase that ends now makes the parity of the one before ambiguous.  All waits for that one must come before
 * the arrivals of this one, else a slower warp would miss it: wait for ever, or pass two phases late. */
void mbar_phase_end(Cluster *cl, const Check *check, SyncObject *o) {
  for (u32 w = 0; w < check->n_warps; w++) {
    if (o->waited[w] <= executed(check, o->acc, w))
      continue;
    if (check->protocol && !o->told_overrun) {
      Ctx c = {.m = cl->m, .cl = cl, .cta = &cl->ctas[o->rank]};
      char text[400];
      o->told_overrun = true;
      snprintf(text, sizeof text,
               "phase %u of the mbarrier at CTA %u + 0x%x ends without regard to the wait of warp %u of CTA %u for the "
               "phase before; "
               "a slower warp misses it; missing: an arrive after that wait on which phase %u depends",
               o->flips, o->rank, o->offset, w % check->warps_per_cta, cta_of(check, w), o->flips);
      add_finding(cl->m, (Place){&c, o->wait_line[w], o->last_line}, SEVERITY_FINDING, "mbarrier-phase-overrun", text);
    }
  }
  memset(o->waited, 0, check->n_warps * sizeof(u32));
  o->observed = false;
}
