/* Rules of mbarriers that no single state shows (PTX ISA, "mbarrier object", "Phase of the mbarrier object"). */
#include "check/check.h"

/* Threads of the initialising CTA need a barrier between initialisation and use; asynchronous work and threads of
 * other CTAs need fence.mbarrier_init by the initialiser as well (PTX ISA, "membar/fence"). */
void mbar_use(const Ctx *c, const AsyncOp *op, const Check *k, SyncObject *o, const u32 *at) {
  if (!k->protocol || !o->is_mbar || o->told_init)
    return;
  bool fenced = at[k->init0 + o->init_warp] > o->init_count, ordered = fenced || at[o->init_warp] >= o->init_epoch;
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
            user, o->rank, o->offset, o->init_warp % k->warps_per_cta, o->rank);
}

/* The issue of an operation that will signal the barrier later. */
void see_mbar_use(Ctx *c, void **object) {
  Check *k = c->m->check;
  if (k)
    mbar_use(c, NULL, k, object_of(k, c->cl, object), lanes_view(k, warp_dim(k, c->cta, c->w->index), c->mask));
}

void see_mbar_init(Ctx *c, void **object) {
  Check *k = c->m->check;
  if (!k)
    return;
  u32 w = warp_dim(k, c->cta, c->w->index);
  SyncObject *o = object_of(k, c->cl, object);
  o->init_warp = w;
  o->init_epoch = k->warps[w][w];
  o->init_count = ++k->inits[w];
  o->init_line = c->ins->line;
}

/* Whoever invalidates a barrier must know of every arrival: one that came later would find no object. */
void see_mbar_inval(Ctx *c, void **object) {
  Check *k = c->m->check;
  if (!k || !k->protocol)
    return;
  const SyncObject *o = object_of(k, c->cl, object);
  const u32 *own = lanes_view(k, warp_dim(k, c->cta, c->w->index), c->mask);
  for (u32 d = 0; d < k->init0; d++) {
    if (o->acc[d] <= own[d])
      continue;
    finding(c, o->last_line, "mbarrier-inval-unordered",
            "the mbarrier at CTA %u + 0x%x is invalidated without having seen the last signal of warp %u of CTA %u; "
            "missing: a wait for phase %u",
            o->rank, o->offset, d % k->n_warps % k->warps_per_cta, cta_of(k, d % k->n_warps), o->flips - 1);
    return;
  }
}

/* Whether somebody's knowledge `at` leaves the phase before open: neither did a wait tell of its end, nor do all warps
 * that arrived in it come before. */
static bool may_precede(const Check *k, const SyncObject *o, const u32 *at) {
  if (at[o->dim] >= o->flips)
    return false;
  for (u32 w = 0; w < k->n_warps; w++)
    if (executed(k, o->pub[0], w) > executed(k, at, w))
      return true;
  return false;
}

/* "For each phase, at least one test_wait or try_wait must return true before an arrive-on in the next phase."  And an
 * arrival that nothing orders after the end of that phase can come in it instead, which then ends too early. */
void mbar_arrival(Ctx *c, const Check *k, SyncObject *o, const u32 *at) {
  if (!k->protocol || !o->flips || o->told_phase)
    return;
  o->told_phase = !o->observed || may_precede(k, o, at);
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
void mbar_phase_end(Cluster *cl, const Check *k, SyncObject *o) {
  for (u32 w = 0; w < k->n_warps; w++) {
    if (o->waited[w] <= executed(k, o->acc, w))
      continue;
    if (k->protocol && !o->told_overrun) {
      Ctx c = {.m = cl->m, .cl = cl, .cta = &cl->ctas[o->rank]};
      char text[400];
      o->told_overrun = true;
      snprintf(text, sizeof text,
               "phase %u of the mbarrier at CTA %u + 0x%x ends without regard to the wait of warp %u of CTA %u for the "
               "phase before; "
               "a slower warp misses it; missing: an arrive after that wait on which phase %u depends",
               o->flips, o->rank, o->offset, w % k->warps_per_cta, cta_of(k, w), o->flips);
      add_finding(cl->m, &c, o->wait_line[w], o->last_line, false, "mbarrier-phase-overrun", text);
    }
  }
  memset(o->waited, 0, k->n_warps * sizeof(u32));
  o->observed = false;
}
