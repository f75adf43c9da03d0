/* Checks and bookkeeping that all tcgen05 files share; the rules are those of the ptxas TMEM guardrails. */
#include "tmem/tmem.h"

const char *tmem_columns_rule(const Cta *cta, u32 col, u32 n) {
  if (col >= TMEM_COLS || n > TMEM_COLS - col)
    return "access-out-of-physical-bounds";
  for (u32 k = col / TMEM_SLICE; k <= (col + n - 1) / TMEM_SLICE; k++)
    if (!cta->tmem_owner[k])
      return "unallocated-columns-access";
  return NULL;
}

static bool allocates(const Program *p) {
  for (u32 k = 0; k < p->n_code; k++)
    if (p->code[k].fn == op_tmem_alloc)
      return true;
  return false;
}

/* Shipped kernels use all of Tensor Memory without tcgen05.alloc (docs/checking.md): theirs from the first use on. */
static void take_unasked(Ctx *c, Cta *cta) {
  if (allocates(&c->m->prog) || !first_told(cta, TOLD_UNALLOCATED))
    return;
  finding(c, 0, "tmem-not-allocated", "the kernel has no tcgen05.alloc; CTA %u is given all columns", cta->rank);
  memset(cta->tmem_owner, 0xFF, sizeof cta->tmem_owner);
}

/* Shipped kernels free columns that an MMA or a load still uses (docs/findings/cutlass_77_backward.md).  While no other
 * CTA can take them they stay as they are: told of once. */
static bool freed(Ctx *c, const Cta *owner, u32 col, u32 n, const char *operand) {
  if (col >= TMEM_COLS || n > TMEM_COLS - col)
    return false;
  for (u32 k = col / TMEM_SLICE; k <= (col + n - 1) / TMEM_SLICE; k++)
    if (!owner->tmem_owner[k] && !(owner->tmem_freed >> k & 1))
      return false;
  if (first_told(&owner->cl->ctas[owner->rank], TOLD_FREED))
    finding(c, 0, "unallocated-columns-access", "%s: Tensor Memory columns %u..%u of CTA %u, which it has freed",
            operand, col, col + n - 1, owner->rank);
  return true;
}

Step tmem_columns(Ctx *c, Cta *owner, u32 col, u32 n, const char *operand) {
  const char *rule = tmem_columns_rule(owner, col, n);
  if (rule)
    take_unasked(c, owner);
  rule = tmem_columns_rule(owner, col, n);
  if (rule && freed(c, owner, col, n, operand))
    return STEP_NEXT;
  return rule ? fault(c, rule, "%s: Tensor Memory columns %u..%u of CTA %u", operand, col, col + n - 1, owner->rank)
              : STEP_NEXT;
}

bool tmem_columns_landing(Machine *m, const AsyncOp *op, const Cta *owner, u32 col, u32 n, const char *operand) {
  const char *rule = tmem_columns_rule(owner, col, n);
  Ctx c = landing_ctx(m, op);
  if (rule && freed(&c, owner, col, n, operand))
    return true;
  if (rule)
    fault_async(m, op, rule, "%s: columns %u..%u of CTA %u are gone when the operation executes", operand, col,
                col + n - 1, owner->rank);
  return !rule;
}

Step tcgen05_group(Ctx *c, u32 group) {
  Cta *cta = c->cta;
  if (cta->cta_group && cta->cta_group != group)
    return fault(c, "cta-group-mix",
                 "cta_group::%u after cta_group::%u in CTA %u; all tcgen05 instructions of a kernel must agree", group,
                 cta->cta_group, cta->rank);
  cta->cta_group = group;
  if (group == 1)
    return STEP_NEXT;
  const Cta *peer = cta_peer(cta);
  if (!peer)
    return fault(c, "pair-missing", "cta_group::2 in CTA %u, whose peer rank %u is not in the cluster", cta->rank,
                 cta->rank ^ 1);
  return STEP_NEXT;
}

Step pair_alive(Ctx *c, u32 group, const char *what) {
  Step s = tcgen05_group(c, group);
  if (s != STEP_NEXT || group == 1 || !cta_peer(c->cta)->exited)
    return s;
  return fault(c, "pair-exited", "%s with cta_group::2 in CTA %u after its peer CTA %u has exited", what, c->cta->rank,
               c->cta->rank ^ 1);
}

Step whole_warp(Ctx *c) {
  if (c->w->lanes != NONE32 || c->w->exited)
    return fault(c, "partial-warp",
                 ".sync.aligned needs 32 threads; this warp has lanes 0x%x, of which 0x%x have exited", c->w->lanes,
                 c->w->exited);
  if (c->mask != c->sp->mask)
    return fault(c, "partial-warp", ".sync.aligned under a guard that only lanes 0x%x of 0x%x pass", c->mask,
                 c->sp->mask);
  return warp_converge(c, NONE32);
}

Step single_lane(Ctx *c, const char *what) {
  if (__builtin_popcount(c->mask) == 1)
    return STEP_NEXT;
  return fault(c, "several-lanes-issue", "%d lanes (0x%x) execute %s; each active thread issues a whole one",
               __builtin_popcount(c->mask), c->mask, what);
}

Step uniform32(Ctx *c, u32 slot, const char *operand, u32 *value) {
  const u32 *r = R32(c, slot);
  *value = r[first_lane(c->mask)];
  FOR_LANES (c->mask, l)
    if (r[l] != *value)
      return fault(c, "not-uniform", "%s is 0x%x in lane %u and 0x%x in lane %u; it must be the same in the warp",
                   operand, *value, first_lane(c->mask), r[l], l);
  return STEP_NEXT;
}

/* A generic address has the window's number above its 32 bits.  Triton 3.6 and ThunderKittens give the 32 bits alone:
 * ptxas 13.0 makes machine code of both that takes the lower half (UTCBAR, STS). */
Step shared_operand(Ctx *c, u32 slot, u32 bits, i64 offset, bool generic, u32 *addr) {
  u64 first = 0;
  bool have = false;
  FOR_LANES (c->mask, l) {
    u64 a = (bits == 64 ? R64(c, slot)[l] : R32(c, slot)[l]) + (u64)offset;
    if (have && a != first)
      return fault(c, "not-uniform", "the shared address is 0x%llx and 0x%llx in two lanes", (unsigned long long)first,
                   (unsigned long long)a);
    first = a;
    have = true;
  }
  if (generic && !(first >> 32))
    finding(c, 0, "generic-address",
            "0x%llx is no generic address of shared memory; taken for the address in shared memory that it is",
            (unsigned long long)first);
  else if (generic && first >> 32 != WINDOW_SHARED)
    return fault(c, "generic-address", "0x%llx does not point into shared memory", (unsigned long long)first);
  *addr = (u32)first;
  return STEP_NEXT;
}

void mma_note_issue(Ctx *c) {
  c->cta->mma_lanes[c->w->index] |= c->mask;
  c->cta->mma_open[c->w->index] |= c->mask;
}

u32 *tmem_first_use(const Cta *cta) {
  Cta *own = &cta->cl->ctas[cta->rank];
  Machine *m = cta->cl->m;
  own->tmem = mem_new(m, TMEM_LANES * TMEM_COLS, sizeof(u32));
  if (m->opt.poison)
    memset(own->tmem, 0xFF, sizeof(u32) * TMEM_LANES * TMEM_COLS);
  return own->tmem;
}

/* NULL without the check. */
static u8 *validity(Cta *cta) {
  Machine *m = cta->cl->m;
  if (!cta->tmem_valid && m->opt.check & CHECK_TMEM)
    cta->tmem_valid = mem_new(m, TMEM_LANES * TMEM_COLS, 1);
  return cta->tmem_valid;
}

void tmem_mark(Cta *cta, u32 lane, u32 n_lanes, u32 col, u32 n_cols, u8 state) {
  u8 *valid = validity(cta);
  if (!valid)
    return;
  for (u32 l = lane; l < lane + n_lanes; l++)
    memset(valid + (size_t)l * TMEM_COLS + col, state, n_cols);
}

void tmem_expect(Ctx *c, Cta *cta, u32 lane, u32 n_lanes, u32 col, u32 n_cols, u8 need, const char *operand) {
  u8 *valid = validity(cta);
  if (!valid)
    return;
  for (u32 l = lane; l < lane + n_lanes; l++) {
    u8 *v = valid + (size_t)l * TMEM_COLS;
    for (u32 k = col; k < col + n_cols; k++)
      if ((v[k] & need) != need) {
        finding(c, 0, "uninitialised-tmem", "%s reads Tensor Memory lane %u column %u of CTA %u, %s", operand, l, k,
                cta->rank, v[k] ? "whose upper half nothing wrote" : "which nothing wrote");
        return;
      }
  }
}

Ctx landing_ctx(Machine *m, const AsyncOp *op) {
  return (Ctx){.m = m, .cl = op->cta->cl, .cta = op->cta, .w = op->warp, .ins = op->ins, .mask = lane_bit(op->lane)};
}
