/* Allocation of Tensor Memory: tcgen05.alloc, dealloc, relinquish_alloc_permit, and the checks at exit
 * (PTX ISA, "Tensor Memory Allocation and Management Instructions").
 *
 * The pair form (cta_group::2) is a meeting: one warp of each CTA registers its request; the second
 * to come takes the same free columns in both CTAs and grants the first one's request. */
#include "tmem/tmem.h"
#include "memory/address.h"

static u32 first_free(const Cta *cta, const Cta *also, u32 cols) {
  for (u32 base = 0; base + cols <= TMEM_COLS; base += cols) { /* slices are searched at natural alignment */
    bool is_free = true;
    for (u32 k = base / TMEM_SLICE; k < (base + cols) / TMEM_SLICE; k++)
      if (cta->tmem_owner[k] || (also && also->tmem_owner[k]))
        is_free = false;
    if (is_free)
      return base;
  }
  return NONE32;
}

/* Columns that have been used before hold nothing that can be relied on. */
static void forget(Ctx *c, Cta *cta, u32 slice) {
  u32 col = slice * TMEM_SLICE;
  cta->tmem_freed &= ~(1u << slice);
  tmem_mark(cta, 0, TMEM_LANES, col, TMEM_SLICE, 0);
  if (c->m->opt.poison)
    for (u32 l = 0; l < TMEM_LANES; l++)
      memset(tmem_row(cta, l) + col, 0xFF, TMEM_SLICE * sizeof(u32));
}

static void take(Ctx *c, Cta *cta, u32 base, u32 cols, bool pair) {
  u16 id = (u16)++cta->tmem_allocs;
  for (u32 k = base / TMEM_SLICE; k < (base + cols) / TMEM_SLICE; k++) {
    cta->tmem_owner[k] = id;
    if (cta->tmem_freed >> k & 1)
      forget(c, cta, k);
  }
  cta->tmem_last_cols = cols;
  see_tmem_alloc(c, cta, base, cols, pair);
}

static Step alloc_rules(Ctx *c, u32 cols) {
  Cta *cta = c->cta;
  if (cols < 32 || cols > TMEM_COLS || (cols & (cols - 1)))
    return fault(c, "allocation-granularity-invalid", "nCols is %u; allowed are 32, 64, 128, 256 and 512", cols);
  if (cta->tmem_relinquished)
    return fault(c, "phase-invalid-during-alloc", "alloc after a thread of CTA %u executed relinquish_alloc_permit",
                 cta->rank);
  if (cta->tmem_last_cols && cols > cta->tmem_last_cols)
    return fault(c, "allocation-grows", "nCols %u follows an allocation of %u columns; it must not grow within a CTA",
                 cols, cta->tmem_last_cols);
  return STEP_NEXT;
}

static Step write_base(Ctx *c, u32 dst, u32 base) {
  Cta *owner;
  const char *err;
  u8 *p = smem_at(c->cl, c->cta, dst, 4, true, &owner, &err);
  memcpy(p, &base, 4);
  see_smem(c, NULL, owner, window_offset(dst), 4, ACC_WRITE, PROXY_GENERIC);
  note_progress(c->cl);
  return STEP_NEXT;
}

/* The peer's open request matches ours, columns are free in both: take them and wake the peer. */
static Step pair_grant(Ctx *c, Cta *peer, u32 dst, u32 cols) {
  Cta *cta = c->cta;
  if (peer->pair_alloc.cols != cols)
    return fault(c, "pair-alloc-mismatch", "CTA %u asks for %u columns, its peer for %u", cta->rank, cols,
                 peer->pair_alloc.cols);
  if (peer->pair_alloc.dst != window_offset(dst))
    return fault(c, "pair-alloc-mismatch",
                 "the result goes to shared offset 0x%x here and to 0x%x in the peer CTA; "
                 "both CTAs must name the same offset",
                 window_offset(dst), peer->pair_alloc.dst);
  u32 base = first_free(cta, peer, cols);
  if (base == NONE32)
    return block(c, WAIT_ALLOC, cta->rank, dst, cols);
  take(c, cta, base, cols, true);
  take(c, peer, base, cols, true);
  peer->pair_alloc.granted = true;
  peer->pair_alloc.base = base;
  cta->pair_alloc.waiting = false;
  return write_base(c, dst, base);
}

static Step alloc_pair(Ctx *c, u32 dst, u32 cols) {
  Cta *cta = c->cta, *peer = cta_peer(cta);
  if (cta->pair_alloc.waiting && cta->pair_alloc.warp != c->w->index)
    return block(c, WAIT_ALLOC, cta->rank, dst, cols);
  if (cta->pair_alloc.granted) {
    cta->pair_alloc.waiting = cta->pair_alloc.granted = false;
    return write_base(c, dst, cta->pair_alloc.base);
  }
  if (!cta->pair_alloc.waiting) { /* registering twice changes nothing, so a blocked warp may come again */
    cta->pair_alloc.waiting = true;
    cta->pair_alloc.warp = c->w->index;
    cta->pair_alloc.cols = cols;
    cta->pair_alloc.dst = window_offset(dst);
    note_progress(c->cl);
  }
  if (peer->pair_alloc.waiting && !peer->pair_alloc.granted)
    return pair_grant(c, peer, dst, cols);
  return block(c, WAIT_ALLOC, cta->rank, dst, cols);
}

/* tcgen05.alloc.cta_group::{1,2}.sync.aligned{.shared::cta}.b32 [dst], nCols.
 * s: dst, nCols; imm: address offset. */
Step op_tmem_alloc(Ctx *c, const Ins *i) {
  u32 dst, cols;
  Step s;
  Cta *owner;
  const char *err;
  if ((s = whole_warp(c)) != STEP_NEXT || (s = pair_alive(c, i->form.tmem.group, "alloc")) != STEP_NEXT)
    return s;
  if ((s = shared_operand(c, i->s[0], i->form.tmem.address_bits, i->imm, i->form.tmem.generic, &dst)) != STEP_NEXT)
    return s;
  if ((s = uniform32(c, i->s[1], "nCols", &cols)) != STEP_NEXT)
    return s;
  if (dst & 3)
    return fault(c, "misaligned", "the result address 0x%x is not a multiple of 4", dst);
  if (!smem_at(c->cl, c->cta, dst, 4, true, &owner, &err))
    return fault(c, "alloc-result-address", "result address: %s", err);
  if (c->cta->pair_alloc.granted && c->cta->pair_alloc.warp == c->w->index)
    return alloc_pair(c, dst, cols);
  if ((s = alloc_rules(c, cols)) != STEP_NEXT)
    return s;
  if (i->form.tmem.group == 2)
    return alloc_pair(c, dst, cols);
  u32 base = first_free(c->cta, NULL, cols);
  if (base == NONE32)
    return block(c, WAIT_ALLOC, c->cta->rank, dst, cols);
  take(c, c->cta, base, cols, false);
  return write_base(c, dst, base);
}

static Step dealloc_rules(Ctx *c, u32 taddr, u32 cols) {
  Cta *cta = c->cta;
  u32 col = taddr_col(taddr), k = col / TMEM_SLICE;
  if (cols < 32 || cols > TMEM_COLS || (cols & (cols - 1)))
    return fault(c, "allocation-granularity-invalid", "nCols is %u; allowed are 32, 64, 128, 256 and 512", cols);
  if (col + cols > TMEM_COLS || !cta->tmem_owner[k])
    return fault(c, "unallocated-columns-being-dealloced", "columns %u..%u of CTA %u are not allocated", col,
                 col + cols - 1, cta->rank);
  u16 id = cta->tmem_owner[k];
  if (taddr_lane(taddr) || col % TMEM_SLICE || (k && cta->tmem_owner[k - 1] == id))
    return fault(c, "col-being-dealloced-not-returned-by-alloc", "address 0x%x is not the base of an allocation",
                 taddr);
  u32 have = 0;
  while (k < TMEM_COLS / TMEM_SLICE && cta->tmem_owner[k++] == id)
    have += TMEM_SLICE;
  if (have != cols)
    return fault(c, "dealloc-size-mismatch", "the allocation at column %u has %u columns, dealloc names %u", col, have,
                 cols);
  return STEP_NEXT;
}

/* tcgen05.dealloc.cta_group::{1,2}.sync.aligned.b32 taddr, nCols.  s: taddr, nCols. */
Step op_tmem_dealloc(Ctx *c, const Ins *i) {
  u32 taddr, cols;
  Step s;
  Cta *cta = c->cta;
  if ((s = whole_warp(c)) != STEP_NEXT || (s = tcgen05_group(c, i->form.tmem.group)) != STEP_NEXT)
    return s;
  if ((s = uniform32(c, i->s[0], "taddr", &taddr)) != STEP_NEXT ||
      (s = uniform32(c, i->s[1], "nCols", &cols)) != STEP_NEXT)
    return s;
  if ((s = dealloc_rules(c, taddr, cols)) != STEP_NEXT)
    return s;
  Cta *peer = cta_peer(cta);
  if (i->form.tmem.group == 2 && peer && peer->pair_alloc.granted)
    return fault(c, "pair-alloc-unfinished", "dealloc while the alloc of peer CTA %u has not finished", peer->rank);
  u32 col = taddr_col(taddr);
  for (u32 k = col / TMEM_SLICE; k < (col + cols) / TMEM_SLICE; k++) {
    cta->tmem_owner[k] = 0;
    cta->tmem_freed |= 1u << k;
  }
  /* A pair frees the columns of both CTAs: all accesses in either must come before; the two deallocs need no order. */
  bool pair = i->form.tmem.group == 2 && peer;
  see_tmem(c, NULL, cta, 0, TMEM_LANES, col, cols, pair ? ACC_ATOMIC : ACC_WRITE);
  if (pair)
    see_tmem(c, NULL, peer, 0, TMEM_LANES, col, cols, ACC_ATOMIC);
  note_progress(c->cl);
  return STEP_NEXT;
}

/* tcgen05.relinquish_alloc_permit.cta_group::{1,2}.sync.aligned. */
Step op_tmem_relinquish(Ctx *c, const Ins *i) {
  Step s;
  if ((s = whole_warp(c)) != STEP_NEXT || (s = tcgen05_group(c, i->form.tmem.group)) != STEP_NEXT)
    return s;
  c->cta->tmem_relinquished = true;
  return STEP_NEXT;
}

/* What a CTA that has exited still owns, as a sentence, or NULL. */
const char *tmem_exit_check(Cta *cta) {
  static _Thread_local char text[128];
  u32 cols = 0, first = 0;
  if (!cta->tmem_allocs)
    return NULL; /* what it never asked for is not for it to free */
  for (u32 k = TMEM_COLS / TMEM_SLICE; k-- > 0;)
    if (cta->tmem_owner[k]) {
      cols += TMEM_SLICE;
      first = k * TMEM_SLICE;
    }
  if (!cols)
    return NULL;
  snprintf(text, sizeof text, "CTA %u ends with %u Tensor Memory columns allocated (from column %u)", cta->rank, cols,
           first);
  return text;
}
