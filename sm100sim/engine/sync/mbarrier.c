/* The mbarrier instructions (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier").
 *
 * s[0] is the address, imm its offset. */
#include "sync/mbarrier.h"
#include "memory/timing.h"

static Access operand(const Ins *i) {
  return mbar_access(i->s[0], i->form.mbarrier.address_bits, i->imm, (Space)i->form.mbarrier.space);
}

/* ---- life --------------------------------------------------------------------------------- */
static Mbar *mbar_new(Cta *cta, u32 offset) {
  u32 k = cta->dead_mbars ? 0 : cta->n_mbars;
  while (k < cta->n_mbars && cta->mbars[k].live)
    k++;
  if (k == cta->n_mbars) {
    if (cta->n_mbars == cta->cap_mbars) {
      u32 more = cta->cap_mbars ? 2 * cta->cap_mbars : 64;
      cta->mbars = mem_resize(cta->cl->m, cta->mbars, more, sizeof(Mbar));
      cta->cap_mbars = more;
    }
    cta->n_mbars++;
  } else
    cta->dead_mbars--;
  cta->mbars[k] = (Mbar){.offset = offset, .live = true};
  cta->mbar_at[offset >> 3] = (u16)(k + 1);
  return &cta->mbars[k];
}

static void mbar_drop(Ctx *c, Cta *owner, Mbar *b) {
  see_mbar_inval(c, &b->check);
  b->live = false;
  owner->dead_mbars++;
  owner->mbar_at[b->offset >> 3] = 0;
}

/* Undefined in the ISA, and in shipped kernels (CUTLASS's primitives, Mojo's puzzle 29): the machine code exchanges the
 * whole object (SYNCS.EXCH.64), so a new one takes its place.  One with arrivals or bytes in its phase stops: what
 * they would complete is gone.  `same`: another lane of this instruction made it, and they disagree. */
static Step init_again(Ctx *c, Cta *owner, Mbar *old, bool same) {
  if (same || old->pending != old->expected || old->tx)
    return mbar_fault(c, owner, old,
                      same ? "lanes initialise one live object with different counts"
                           : "init over a live object in the middle of a phase");
  finding(c, old->init_line, "mbarrier-init-again",
          "init over the live mbarrier at CTA %u + 0x%x; missing: an mbarrier.inval before", owner->rank, old->offset);
  mbar_drop(c, owner, old);
  return STEP_NEXT;
}

/* Several lanes of one instruction may name one address when they agree on the count (FA4's backward kernel
 * does): one object results; that it was not elected is worth a finding.
 * s: address, count. */
static Step op_init(Ctx *c, const Ins *i) {
  Access a = operand(i);
  a.acc = ACC_WRITE;
  Mbar *made = NULL;
  FOR_LANES (c->mask, l) {
    u32 count = R32(c, i->s[1])[l], addr;
    u8 *p;
    Cta *owner;
    const char *err;
    Step s = window_address(c, &a, l, &addr);
    if (s != STEP_NEXT)
      return s;
    if (addr & 7)
      return fault(c, "misaligned", "mbarrier address 0x%x is not a multiple of 8", addr);
    p = smem_at(c->cl, c->cta, addr, 8, true, &owner, &err);
    if (!p)
      return fault(c, "mbarrier-address", "mbarrier address 0x%x: %s", addr, err);
    Mbar *old = mbar_at(owner, window_offset(addr));
    if (old && old == made && old->expected == count) {
      finding(c, 0, "mbarrier-init-lanes",
              "several lanes initialise the mbarrier at CTA %u + 0x%x; one elected lane should", owner->rank,
              window_offset(addr));
      continue;
    }
    if (old && (s = init_again(c, owner, old, old == made)) != STEP_NEXT)
      return s;
    if (!count || count > MBAR_MAX_COUNT)
      return fault(c, "mbarrier", "count %u of the mbarrier at CTA %u + 0x%x is outside of 1 ... 2^20 - 1", count,
                   owner->rank, window_offset(addr));
    if (observed(c->m))
      see_smem(c, NULL, owner, window_offset(addr), 8, ACC_WRITE, PROXY_GENERIC);
    Mbar *b = mbar_new(owner, window_offset(addr));
    b->expected = count;
    b->pending = count;
    b->t_phase = c->sp->t;
    b->init_line = i->line;
    b->init_warp = c->w->index;
    see_mbar_init(c, &b->check);
    trace_event(c->m, EV_BARRIER, owner, c->w->index, i->line, c->sp->t, c->sp->t, b->offset, count);
    made = b;
  }
  note_progress(c->cl);
  return STEP_NEXT;
}

static Step op_inval(Ctx *c, const Ins *i) {
  Access a = operand(i);
  FOR_LANES (c->mask, l) {
    Cta *owner;
    Mbar *b;
    Step s = mbar_operand(c, &a, l, true, &owner, &b);
    if (s != STEP_NEXT)
      return s;
    mbar_drop(c, owner, b);
  }
  return STEP_NEXT;
}

/* ---- arrivals ------------------------------------------------------------------------------ */
#define STATE_PHASE_SHIFT 20

/* The opaque state: the phase before the arrival, and the arrivals that were pending in it. */
static u64 state_of(const Mbar *b) {
  return b->phase << STATE_PHASE_SHIFT | (u64)(b->pending & MBAR_MAX_COUNT);
}

static Step arrive_lane(Ctx *c, const Ins *i, u32 lane) {
  Access a = operand(i);
  Cta *owner;
  Mbar *b;
  u32 flags = i->form.mbarrier.flags;
  u32 count = R32(c, i->s[1])[lane];
  Step s = mbar_operand(c, &a, lane, false, &owner, &b);
  if (s != STEP_NEXT)
    return s;
  if ((flags & ARRIVE_STATE) && owner != c->cta)
    return mbar_fault(c, owner, b, "an arrival in another CTA returns no state");
  u64 state = state_of(b);
  if (flags & ARRIVE_EXPECT) {
    const char *rule = mbar_expect_tx(b, R32(c, i->s[2])[lane]);
    if (rule)
      return mbar_fault(c, owner, b, rule);
  }
  if ((flags & ARRIVE_NO_COMPLETE) && count >= b->pending && !b->tx)
    return mbar_fault(c, owner, b, "an arrive.noComplete that completes the phase");
  if (flags & ARRIVE_DROP) {
    if (count > b->pending)
      return mbar_fault(c, owner, b, "arrive_drop of more arrivals than are pending");
    b->expected -= count;
  }
  u32 order = (flags & ARRIVE_WIDE ? SCOPE_CLUSTER : SCOPE_CTA) | (flags & ARRIVE_RELAXED ? 0 : ORDER_RELEASE);
  if ((s = mbar_arrive_now(c, owner, b, count, order)) != STEP_NEXT)
    return s;
  if (flags & ARRIVE_STATE)
    R64(c, i->d[0])[lane] = state;
  return STEP_NEXT;
}

/* Whether the arrivals of all lanes fall in one phase of one barrier. */
static bool arrive_together(const Ctx *c, const Ins *i) {
  u32 to = (u32)lane_address(c, i->s[0], i->form.mbarrier.address_bits, i->imm, first_lane(c->mask)), total = 0;
  FOR_LANES (c->mask, l) {
    if ((u32)lane_address(c, i->s[0], i->form.mbarrier.address_bits, i->imm, l) != to)
      return false;
    total += R32(c, i->s[1])[l];
  }
  const Mbar *b = window_rank(to) < c->cl->n_ctas ? mbar_at(&c->cl->ctas[window_rank(to)], window_offset(to)) : NULL;
  return b && total <= b->pending;
}

/* s: address, count, bytes with ARRIVE_EXPECT; d: state with ARRIVE_STATE. */
static Step op_arrive(Ctx *c, const Ins *i) {
  u32 all = c->mask;
  bool together = !(all & (all - 1)) || arrive_together(c, i);
  Step s = STEP_NEXT;
  FOR_LANES (all, l) {
    if (!together)
      c->mask = 1u << l;
    if ((s = arrive_lane(c, i, l)) != STEP_NEXT)
      return s;
  }
  c->mask = all;
  return s;
}

/* mbarrier.expect_tx and mbarrier.complete_tx.  s: address, bytes. */
static Step op_tx(Ctx *c, const Ins *i) {
  Access a = operand(i);
  FOR_LANES (c->mask, l) {
    Cta *owner;
    Mbar *b;
    u32 bytes = R32(c, i->s[1])[l];
    Step s = mbar_operand(c, &a, l, false, &owner, &b);
    if (s != STEP_NEXT)
      return s;
    const char *rule;
    see_mbar_use(c, &b->check);
    if (i->form.mbarrier.flags == TX_EXPECT)
      rule = mbar_expect_tx(b, bytes);
    else {
      see_complete_tx(c, NULL, &b->check);
      rule = mbar_complete_tx(c->cl, b, bytes, c->sp->t + T_MBAR_ARRIVE);
    }
    if (rule)
      return mbar_fault(c, owner, b, rule);
  }
  return STEP_NEXT;
}

/* ---- waits --------------------------------------------------------------------------------- */
/* Is the phase that a lane asks for over?  A fault when a state is neither the current nor the previous phase.  Of a
 * parity in a register ptxas hands on the lowest bit, and an H200 answers 2 as 0 and 3 as 1 (docs/hardware.md); quack's
 * pingpong counts phases so. */
static Step wait_lane(Ctx *c, const Ins *i, u32 lane, bool *done, Cta **owner, Mbar **b) {
  Access a = operand(i);
  Step s = mbar_operand(c, &a, lane, true, owner, b);
  if (s != STEP_NEXT)
    return s;
  if (i->form.mbarrier.flags & WAIT_PARITY) {
    u32 parity = R32(c, i->s[1])[lane];
    if (parity > 1 && first_told(c->cta, TOLD_PARITY))
      finding(c, 0, "mbarrier-parity",
              "a wait for the mbarrier at CTA %u + 0x%x names parity %u; the ISA knows 0 and 1. The lowest bit counts",
              (*owner)->rank, (*b)->offset, parity);
    *done = ((*b)->phase ^ parity) & 1;
    return STEP_NEXT;
  }
  u64 phase = R64(c, i->s[1])[lane] >> STATE_PHASE_SHIFT;
  if (phase > (*b)->phase || phase + 1 < (*b)->phase)
    return mbar_fault(c, *owner, *b, "a state that is neither of the current nor of the preceding phase");
  *done = phase != (*b)->phase;
  return STEP_NEXT;
}

static bool lanes_agree(const Ctx *c, const Ins *i) {
  u32 first = first_lane(c->mask);
  bool same = true;
  FOR_LANES (c->mask, l) {
    same &= lane_address(c, i->s[0], i->form.mbarrier.address_bits, 0, l) ==
            lane_address(c, i->s[0], i->form.mbarrier.address_bits, 0, first);
    same &= i->form.mbarrier.flags & WAIT_PARITY ? R32(c, i->s[1])[l] == R32(c, i->s[1])[first]
                                                 : R64(c, i->s[1])[l] == R64(c, i->s[1])[first];
  }
  return same;
}

static void passed(Ctx *c, Mbar *b, u32 flags) {
  c->notes[0] = b->phase;
  see_wait(c, &b->check, (flags & WAIT_WIDE ? SCOPE_CLUSTER : SCOPE_CTA) | (flags & WAIT_RELAXED ? 0 : ORDER_ACQUIRE));
  if (b->t_phase + T_MBAR_WAIT > c->sp->t)
    c->sp->t = b->t_phase + T_MBAR_WAIT;
}

/* test_wait answers at once; try_wait suspends until a lane's phase is over, or until the scheduler says
 * that the system-dependent time limit has passed (PTX ISA, "mbarrier.test_wait/mbarrier.try_wait").
 * d: predicate; s: address, parity or state. */
static Step op_wait(Ctx *c, const Ins *i) {
  u32 bits = 0, lanes = lanes_agree(c, i) ? c->mask & -c->mask : c->mask;
  Cta *owner = NULL;
  Mbar *b = NULL;
  FOR_LANES (lanes, l) {
    bool done = false;
    Step s = wait_lane(c, i, l, &done, &owner, &b);
    if (s != STEP_NEXT)
      return s;
    if (!done)
      continue;
    u32 all = c->mask;
    if (lanes == all)
      c->mask = 1u << l;
    bits |= 1u << l;
    passed(c, b, i->form.mbarrier.flags);
    c->mask = all;
  }
  if (lanes != c->mask && bits)
    bits = c->mask;
  if (!bits && (i->form.mbarrier.flags & WAIT_TRY)) {
    if (!c->sp->timed_out)
      return block(c, WAIT_MBARRIER, owner->rank, b->offset,
                   i->form.mbarrier.flags & WAIT_PARITY ? R32(c, i->s[1])[first_lane(c->mask)] & 1 : b->phase & 1);
    c->sp->timed_out = false;
  }
  if (!bits)
    note_poll(c->cl);
  set_pred(c, i->d[0], bits);
  return STEP_NEXT;
}

/* mbarrier.pending_count: the arrivals that were pending in a state. */
static Step op_pending(Ctx *c, const Ins *i) {
  FOR_LANES (c->mask, l)
    R32(c, i->d[0])[l] = (u32)R64(c, i->s[0])[l] & MBAR_MAX_COUNT;
  return STEP_NEXT;
}

OP_TABLE(mbarrier) = {{"MBAR_INIT", op_init},
                      {"MBAR_INVAL", op_inval},
                      {"MBAR_ARRIVE", op_arrive},
                      {"MBAR_TX", op_tx},
                      {"MBAR_WAIT", op_wait},
                      {"MBAR_PENDING", op_pending},
                      {NULL, NULL}};
