/* What must be over when a warp or a CTA leaves, and before another CTA's shared memory is touched. */
#include "check/check.h"

/* Another CTA's shared memory exists from its start to its end (PTX ISA, "Distributed shared memory"): the start
 * must be known from a signal of that CTA, and the end must come after the access (see `exit_knows_remote`). */
void see_remote(Ctx *c, const AsyncOp *op, const Cta *owner, const Agent *me) {
  Check *check = c->m->check;
  const u32 *at = me->clock;
  u32 *last = me->dim & OP_DIM ? NULL : &check->touched[me->dim][owner->rank];
  if (last && me->epoch > *last)
    *last = me->epoch;
  if (!check->protocol)
    return;
  u32 first = owner->rank * check->warps_per_cta;
  for (u32 w = first; w < first + check->warps_per_cta; w++)
    if (at[w] || at[check->first.init + w])
      return;
  finding(c, 0, "cta-not-started",
          "%s of warp %u touches shared memory of CTA %u; missing: a cluster barrier or another signal that shows that "
          "CTA %u has started",
          op ? "an asynchronous operation" : "an access", me->warp % check->warps_per_cta, owner->rank, owner->rank);
}

static u32 known(const Check *check, const u32 *at, u32 d) {
  return d < check->n_warps ? executed(check, at, d) : tensor_known(check, at, d);
}

static void signal_of(const Check *check, char *out, size_t n, u32 d) {
  u32 w = d % check->n_warps;
  snprintf(out, n, "%s %u of CTA %u", d < check->n_warps ? "warp" : "the MMAs of warp", w % check->warps_per_cta,
           cta_of(check, w));
}

/* Signals to the CTA's barriers and accesses to its shared memory, by other CTAs and by its own tcgen05 and bulk
 * work, must have been seen by one of its threads: they would hit the memory of whoever comes next. */
static void exit_knows_signals(Ctx *c, const Check *check, const u32 *seen) {
  char who[64];
  for (u32 i = 0; i < check->n_objects; i++) {
    const SyncObject *b = check->objects[i];
    if (!b->is_mbar || b->rank != c->cta->rank)
      continue;
    for (u32 d = 0; d < check->first.st; d++) {
      if (known(check, b->acc, d) <= known(check, seen, d) ||
          (d < check->first.mma && cta_of(check, d % check->n_warps) == c->cta->rank))
        continue;
      signal_of(check, who, sizeof who, d);
      finding(c, b->last_line, "cta-exits-early",
              "CTA %u exits although no thread of it has seen the last signal of %s to its mbarrier at 0x%x; missing: "
              "a wait for phase %u",
              c->cta->rank, who, b->offset, b->flips ? b->flips - 1 : 0);
      return;
    }
    if (b->commit_phase > seen[b->dim]) {
      finding(c, b->last_line, "cta-exits-early",
              "CTA %u exits although no thread of it has waited for the arrival of another CTA's tcgen05.commit at its "
              "mbarrier at 0x%x, which comes in no order with other signals; missing: a wait for phase %u",
              c->cta->rank, b->offset, b->commit_phase - 1);
      return;
    }
    if (b->tx_phase <= seen[b->dim])
      continue;
    finding(c, b->last_line, "cta-exits-early",
            "CTA %u exits although no thread of it has waited for the copy that its mbarrier at 0x%x counts; missing: "
            "a wait for phase %u",
            c->cta->rank, b->offset, b->tx_phase - 1);
    return;
  }
}

static void exit_knows_remote(Ctx *c, const Check *check, const u32 *seen) {
  char who[64];
  for (u32 d = 0; d < check->first.mbar; d++) {
    if (check->touched[d][c->cta->rank] <= seen[d])
      continue;
    signal_of(check, who, sizeof who, d);
    finding(c, 0, "cta-exits-early",
            "CTA %u exits and nothing orders the last access of %s to its shared memory before; missing: a cluster "
            "barrier, or an arrive after the access and a wait here",
            c->cta->rank, who);
    return;
  }
}

static void exit_leaves_nothing(Ctx *c, const Check *check, const u32 *seen) {
  Cta *cta = c->cta;
  u32 first = warp_dim(check, cta, 0);
  for (u32 w = first; w < first + cta->n_warps; w++)
    if (check->cp_seq[w] > seen[check->first.cp + w])
      finding(c, 0, "cp-async-not-waited", "CTA %u exits and no thread has waited for the cp.async of warp %u",
              cta->rank, w - first);
  for (u32 i = 0; i < cta->n_mbars; i++) {
    const Mbar *b = &cta->mbars[i];
    /* An open phase that nobody waits for harms nobody: producer_tail of CuTe DSL leaves one.  Bytes that nobody
     * expected do. */
    if (b->live && (b->tx < 0 || (c->m->opt.check & CHECK_STRICT_EXIT && (b->tx || b->pending != b->expected))))
      finding(c, b->init_line, "mbarrier-open-at-exit",
              "CTA %u exits in the middle of phase %llu of the mbarrier at 0x%x: pending arrivals %lld of %u, tx bytes "
              "%lld",
              cta->rank, (unsigned long long)b->phase, b->offset, (long long)b->pending, b->expected, (long long)b->tx);
  }
  for (u32 i = 0; i < MAX_NAMED; i++)
    if (cta->named[i].arrived)
      finding(c, 0, "barrier-open-at-exit", "CTA %u exits while %u of %u threads have arrived at named barrier %u",
              cta->rank, cta->named[i].arrived,
              cta->named[i].count == NONE32 ? cta->n_warps * LANES : cta->named[i].count, i);
}

/* Copies from shared memory must have been read before their thread leaves (PTX ISA, "cp.async.bulk.wait_group"). */
static void exit_has_waited(Ctx *c, const Check *check, u32 w) {
  if (c->w->wgmma_waited < c->w->wgmma_issued)
    finding(c, 0, "wgmma-not-waited", "warp %u of CTA %u exits without wgmma.wait_group for its last wgmma",
            c->w->index, c->cta->rank);
  for (u32 i = 0; i < check->bulk[w].n; i++)
    if (!check->bulk[w].open[i].read) {
      finding(c, 0, "bulk-group-not-waited",
              "warp %u of CTA %u exits without cp.async.bulk.wait_group for its copies from shared memory", c->w->index,
              c->cta->rank);
      return;
    }
}

void see_exit(Ctx *c) {
  Check *check = c->m->check;
  if (!check || !check->protocol || live_lanes(c->w))
    return;
  exit_has_waited(c, check, warp_dim(check, c->cta, c->w->index));
  for (u32 w = 0; w < c->cta->n_warps; w++)
    if (live_lanes(&c->cta->warps[w]))
      return;
  Clock seen = clock_new(check); /* what any thread of the CTA knows */
  for (u32 w = 0; w < c->cta->n_warps; w++)
    clock_join(check, seen, lanes_view(check, warp_dim(check, c->cta, w), NONE32));
  exit_knows_signals(c, check, seen);
  exit_knows_remote(c, check, seen);
  exit_leaves_nothing(c, check, seen);
  mem_free(seen);
}
