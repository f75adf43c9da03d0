/* State of mbarrier objects (PTX ISA, "Contents of the mbarrier object" to "Phase Completion").
 *
 * A phase ends when no arrival is pending and the transaction count is zero; the count is signed, for a
 * copy may complete before its bytes are announced.  Phases are whole numbers here; parity is their low bit. */
#include "sync/mbarrier.h"
#include "memory/timing.h"

Mbar *mbar_at(Cta *cta, u32 offset) {
  if (offset & 7 || offset >= cta->smem_bytes)
    return NULL;
  u32 index = cta->mbar_at[offset >> 3];
  return index ? &cta->mbars[index - 1] : NULL;
}

static void complete_if_done(Cluster *cl, Mbar *b) {
  if (b->pending || b->tx)
    return;
  b->phase++;
  b->pending = b->expected;
  b->t_phase = b->t;
  b->arrivals = 0;
  see_flip(cl, &b->check);
}

const char *mbar_arrive(Cluster *cl, Mbar *b, u32 count, u64 t) {
  if (!count)
    return "an arrival of count 0";
  if (count > b->pending)
    return "more arrivals in this phase than its count allows";
  b->pending -= count;
  b->arrivals += count;
  if (t > b->t)
    b->t = t;
  complete_if_done(cl, b);
  note_progress(cl);
  return NULL;
}

static const char *tx_in_range(i64 tx) {
  return tx > (i64)MBAR_MAX_COUNT || tx < -(i64)MBAR_MAX_COUNT
             ? "the transaction count leaves its range of 2^20 - 1 bytes"
             : NULL;
}

const char *mbar_expect_tx(Mbar *b, i64 bytes) {
  const char *rule = tx_in_range(b->tx + bytes);
  if (!rule)
    b->tx += bytes;
  return rule;
}

const char *mbar_complete_tx(Cluster *cl, Mbar *b, i64 bytes, u64 t) {
  const char *rule = tx_in_range(b->tx - bytes);
  if (rule)
    return rule;
  b->tx -= bytes;
  if (t > b->t)
    b->t = t;
  complete_if_done(cl, b);
  note_progress(cl);
  return NULL;
}

Step mbar_fault(Ctx *c, const Cta *owner, const Mbar *b, const char *rule) {
  return fault(c, "mbarrier",
               "mbarrier at CTA %u + 0x%x: %s (phase %llu, pending arrivals %lld of %u, tx bytes %lld, initialised at "
               "PTX line %u)",
               owner->rank, b->offset, rule, (unsigned long long)b->phase, (long long)b->pending, b->expected,
               (long long)b->tx, b->init_line);
}

static Step locate(Ctx *c, const Access *a, u32 lane, bool own_only, Cta **owner, u32 *addr) {
  const char *err;
  Step s = window_address(c, a, lane, addr);
  if (s != STEP_NEXT)
    return s;
  if (*addr & 7)
    return fault(c, "misaligned", "mbarrier address 0x%x is not a multiple of 8", *addr);
  bool own = own_only || a->space == SPACE_SHARED_CTA;
  if (!smem_at(c->cl, c->cta, *addr, 8, own, owner, &err))
    return fault(c, "mbarrier-address", "mbarrier address 0x%x: %s", *addr, err);
  return STEP_NEXT;
}

Step mbar_operand(Ctx *c, const Access *a, u32 lane, bool own_only, Cta **owner, Mbar **b) {
  u32 addr;
  Step s = locate(c, a, lane, own_only, owner, &addr);
  if (s != STEP_NEXT)
    return s;
  *b = mbar_at(*owner, window_offset(addr));
  if (!*b)
    return fault(c, "no-mbarrier", "no live mbarrier at CTA %u + 0x%x: it was never initialised or is invalidated",
                 (*owner)->rank, window_offset(addr));
  return STEP_NEXT;
}

Step mbar_issue(Ctx *c, const Access *a, u32 lane, u32 *addr) {
  Cta *owner;
  Mbar *b;
  Step s = mbar_operand(c, a, lane, false, &owner, &b);
  if (s != STEP_NEXT)
    return s;
  *addr = window_at(owner->rank, b->offset);
  see_mbar_use(c, &b->check);
  return s;
}

Step mbar_arrive_now(Ctx *c, Cta *owner, Mbar *b, u32 count, u32 order) {
  see_arrive(c, &b->check, order);
  u64 t = c->sp->t + T_MBAR_ARRIVE + (owner == c->cta ? 0 : T_REMOTE);
  const char *rule = mbar_arrive(c->cl, b, count, t);
  return rule ? mbar_fault(c, owner, b, rule) : STEP_NEXT;
}

bool mbar_land_tx(Machine *m, AsyncOp *op, Cta *owner, u32 offset, u32 bytes) {
  if (owner->exited) {
    fault_async(m, op, "exited-cta", "the completion arrives in CTA %u, which has exited", owner->rank);
    return false;
  }
  Mbar *b = mbar_at(owner, offset);
  if (!b) {
    fault_async(m, op, "no-mbarrier", "no live mbarrier at CTA %u + 0x%x when the copy completes", owner->rank, offset);
    return false;
  }
  see_complete_tx(NULL, op, &b->check);
  const char *rule = mbar_complete_tx(owner->cl, b, bytes, op->t_done);
  if (rule)
    fault_async(m, op, "mbarrier", "completing %u bytes at the mbarrier CTA %u + 0x%x: %s", bytes, owner->rank, offset,
                rule);
  /* With no arrival left, bytes beyond those expected keep the phase open for ever: expect_tx completes none. */
  if (!rule && !b->pending && b->tx < 0 && m->opt.check & CHECK_PROTOCOL) {
    Ctx c = {.m = m, .cl = owner->cl, .cta = op->cta, .w = op->warp, .ins = op->ins, .mask = lane_bit(op->lane)};
    finding(&c, b->init_line, "mbarrier-tx-unbalanced",
            "phase %llu of the mbarrier at CTA %u + 0x%x has all its arrivals and %lld bytes more than were expected; "
            "it cannot end",
            (unsigned long long)b->phase, owner->rank, offset, (long long)-b->tx);
  }
  return !rule;
}
