/* cp.async.bulk and cp.reduce.async.bulk without a tensor (PTX ISA, sections of these names).
 *
 * Addresses and sizes are multiples of 16.  Copies into shared memory complete transaction bytes of an
 * mbarrier in the CTA that received them; copies to global memory belong to a bulk async-group. */
#include "copy/bulk.h"
#include "memory/reduce.h"

typedef struct {
  u64 global;
  u32 src, dst, mbar, size, ranks, flags, byte_mask;
  RedOp op;
  Element element;
  u8 data[];
} Bulk;

static Step check_size(Ctx *c, u32 size) {
  if (size % 16)
    return fault(c, "bulk-size", "size %u is not a multiple of 16", size);
  return STEP_NEXT;
}

/* ---- into shared memory ----------------------------------------------------------------------- */
static bool put(Machine *m, AsyncOp *op, const Bulk *q, const u8 *from, u32 rank) {
  Cta *cta = &op->cta->cl->ctas[rank];
  u32 offset = window_offset(q->dst);
  if (q->size) {
    u8 *p = bulk_smem(m, op, cta, offset, q->size, q->flags & COPY_REDUCE ? ACC_ATOMIC : ACC_WRITE);
    if (!p)
      return false;
    if (q->flags & COPY_REDUCE)
      reduce_bytes(q->op, q->element, p, from, q->size);
    else
      memcpy(p, from, q->size);
  }
  return mbar_land_tx(m, op, cta, window_offset(q->mbar), q->size);
}

static void copy_land(Machine *m, AsyncOp *op) {
  Bulk *q = (Bulk *)op->payload;
  Cluster *cl = op->cta->cl;
  const u8 *from;
  if (q->flags & COPY_FROM_GLOBAL) {
    from = (const u8 *)(uintptr_t)q->global;
    if (observed(m) && q->size)
      see_gmem(NULL, op, m, q->global, q->size, ACC_READ, PROXY_ASYNC);
  } else {
    from = bulk_smem(m, op, op->cta, window_offset(q->src), q->size, ACC_READ);
    if (!from)
      return;
    memcpy(q->data, from, q->size);
    from = q->data;
  }
  for (u32 r = 0; r < cl->n_ctas; r++)
    if (q->ranks >> r & 1 && !put(m, op, q, from, r))
      return;
}

static Step copy_lane(Ctx *c, const Ins *i, u32 l) {
  const BulkForm *f = &i->form.bulk;
  u32 flags = f->flags, size = R32(c, i->s[3])[l], ranks;
  u8 *p, *src;
  Cta *owner, *from;
  u32 bar;
  Space space = (Space)f->space;
  Access dst = {i->s[0], f->address_bits, i->imm, space, size ? size : 1, 16, ACC_WRITE};
  Access in = {i->s[1],          f->source_bits,
               f->source_offset, flags & COPY_FROM_GLOBAL ? SPACE_GLOBAL : SPACE_SHARED_CTA,
               size ? size : 1,  16,
               ACC_READ};
  Access mbar = mbar_access(i->s[2], f->bar_bits, f->bar_offset, space);
  Step s = check_size(c, size);
  if (s != STEP_NEXT || (s = resolve_lane(c, &dst, l, &p, &owner)) != STEP_NEXT)
    return s;
  if ((s = resolve_lane(c, &in, l, &src, &from)) != STEP_NEXT || (s = mbar_issue(c, &mbar, l, &bar)) != STEP_NEXT)
    return s;
  barrier_rank_ignored(c, window_rank(bar), owner->rank);
  u32 addr = window_at(owner->rank, smem_offset(owner, p));
  if (!(ranks = bulk_ranks(c, addr, flags & COPY_MULTICAST, R32(c, i->s[4])[l])))
    return STEP_FAULT;
  AsyncOp *op = async_new(c, FIFO_NONE, 0, copy_land, sizeof(Bulk) + (flags & COPY_FROM_GLOBAL ? 0 : size));
  op->lane = l;
  Bulk *q = (Bulk *)op->payload;
  *q = (Bulk){.global = (u64)(uintptr_t)src,
              .dst = addr,
              .mbar = bar,
              .size = size,
              .ranks = ranks,
              .flags = flags,
              .op = (RedOp)f->op,
              .element = (Element)f->element};
  if (!(flags & COPY_FROM_GLOBAL))
    q->src = smem_offset(c->cta, src);
  bulk_schedule(c, op, EV_TMA_LOAD, size, window_offset(addr));
  async_submit(c->cl, op);
  return c->m->faulted ? STEP_FAULT : STEP_NEXT;
}

/* s: destination, source, mbarrier, size, CTA mask.  imm: destination offset. */
Step op_bulk_copy(Ctx *c, const Ins *i) {
  return lane_by_lane(c, i, copy_lane);
}

/* ---- to global memory -------------------------------------------------------------------------- */
static void write_global(const Bulk *q) {
  u8 *to = (u8 *)(uintptr_t)q->global;
  if (q->flags & COPY_REDUCE) {
    reduce_bytes(q->op, q->element, to, q->data, q->size);
    return;
  }
  if (!(q->flags & COPY_BYTE_MASK)) {
    memcpy(to, q->data, q->size);
    return;
  }
  for (u32 k = 0; k < q->size; k++)
    if (q->byte_mask >> (k & 15) & 1)
      to[k] = q->data[k];
}

/* Bytes that a mask leaves out are not touched: they need no memory, and race with nobody. */
static void see_written(Machine *m, AsyncOp *op, const Bulk *q) {
  if (!(q->flags & COPY_BYTE_MASK)) {
    see_gmem(NULL, op, m, q->global, q->size, q->flags & COPY_REDUCE ? ACC_ATOMIC : ACC_WRITE, PROXY_ASYNC);
    return;
  }
  for (u32 k = 0, end; k < q->size; k = end + 1) {
    for (end = k; end < q->size && q->byte_mask >> (end & 15) & 1;)
      end++;
    if (end > k)
      see_gmem(NULL, op, m, q->global + k, end - k, ACC_WRITE, PROXY_ASYNC);
  }
}

static void store_land(Machine *m, AsyncOp *op) {
  Bulk *q = (Bulk *)op->payload;
  if (!q->size)
    return;
  if (!op->sources_read) {
    const u8 *from = bulk_smem(m, op, op->cta, q->src, q->size, ACC_READ);
    if (!from)
      return;
    memcpy(q->data, from, q->size);
    op->sources_read = op->again = true;
    return;
  }
  if (observed(m))
    see_written(m, op, q);
  write_global(q);
}

/* The destination of a store: aligned as a whole, in an allocation from the first to the last byte that is copied. */
static Step store_target(Ctx *c, const Access *out, u32 l, u32 size, u32 mask, u8 **dst) {
  Cta *none;
  u64 at = lane_address(c, out->slot, out->bits, out->off, l);
  *dst = (u8 *)(uintptr_t)at;
  if (!mask && at % out->align == 0)
    return STEP_NEXT; /* nothing is copied */
  if (!size || !mask || at % out->align)
    return resolve_lane(c, out, l, dst, &none);
  u32 first = (u32)__builtin_ctz(mask), after = 32 - (u32)__builtin_clz(mask);
  Access part = *out;
  part.off += first;
  part.len = size - 16 + after - first;
  part.align = 1;
  Step s = resolve_lane(c, &part, l, dst, &none);
  if (s == STEP_NEXT)
    *dst -= first;
  return s;
}

static Step store_lane(Ctx *c, const Ins *i, u32 l) {
  const BulkForm *f = &i->form.bulk;
  u32 size = R32(c, i->s[2])[l], mask = f->flags & COPY_BYTE_MASK ? R32(c, i->s[3])[l] & 0xFFFF : 0xFFFF;
  u8 *dst, *src;
  Cta *owner;
  Access out = {i->s[0], f->address_bits, i->imm, SPACE_GLOBAL, size ? size : 1, 16, ACC_WRITE};
  Access in = {i->s[1], f->source_bits, f->source_offset, SPACE_SHARED_CTA, size ? size : 1, 16, ACC_READ};
  Step s = check_size(c, size);
  if (s != STEP_NEXT || (s = store_target(c, &out, l, size, mask, &dst)) != STEP_NEXT ||
      (s = resolve_lane(c, &in, l, &src, &owner)) != STEP_NEXT)
    return s;
  AsyncOp *op = async_new(c, FIFO_NONE, 0, store_land, sizeof(Bulk) + size);
  op->lane = l;
  *(Bulk *)op->payload = (Bulk){.global = (u64)(uintptr_t)dst,
                                .src = smem_offset(owner, src),
                                .size = size,
                                .flags = f->flags,
                                .byte_mask = mask,
                                .op = (RedOp)f->op,
                                .element = (Element)f->element};
  bulk_join_group(c, op, l);
  bulk_schedule(c, op, EV_TMA_STORE, size, smem_offset(owner, src));
  async_submit(c->cl, op);
  return c->m->faulted ? STEP_FAULT : STEP_NEXT;
}

/* s: destination, source, size, byte mask.  imm: destination offset. */
Step op_bulk_store(Ctx *c, const Ins *i) {
  return lane_by_lane(c, i, store_lane);
}
