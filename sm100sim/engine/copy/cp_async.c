/* Small asynchronous copies: cp.async, st.async, red.async (PTX ISA, sections of these names).
 *
 * The cp.async of a warp land in issue order.  A group ends where it was committed: cp_group_end[] counts
 * the copies issued before each of the warp's latest commits. */
#include "copy/bulk.h"
#include "memory/reduce.h"
#include "memory/timing.h"

typedef struct {
  u8 *src[LANES], *dst[LANES];
  u32 read[LANES], mask, size;
  bool arrives;
  u32 bar[LANES];
  u32 number;
} Copies;

static u32 queue_key(const Ctx *c) {
  return c->cta->rank * MAX_WARPS + c->w->index;
}

static void cp_land(Machine *m, AsyncOp *op) {
  const Copies *q = (const Copies *)op->payload;
  Cta *cta = op->cta;
  if (cta->exited)
    return; /* nobody is left to read its shared memory */
  FOR_LANES (q->mask, l) {
    if (observed(m)) {
      if (q->read[l])
        see_gmem(NULL, op, m, (u64)(uintptr_t)q->src[l], q->read[l], ACC_READ, PROXY_GENERIC);
      see_smem(NULL, op, cta, smem_offset(cta, q->dst[l]), q->size, ACC_WRITE, PROXY_GENERIC);
    }
    if (q->read[l])
      memcpy(q->dst[l], q->src[l], q->read[l]);
    memset(q->dst[l] + q->read[l], 0, q->size - q->read[l]);
  }
}

/* Bytes to read: the optional fourth operand (src-size, or the ignore-src predicate) against cp-size. */
static Step source_bytes(Ctx *c, const Ins *i, u32 lane, u32 *bytes) {
  u32 size = i->form.copy.size;
  *bytes = size;
  if (i->form.copy.third == CP_SOURCE_SIZE)
    *bytes = R32(c, i->s[2])[lane];
  if (i->form.copy.third == CP_SOURCE_IGNORE && PRED(c, i->s[2]) >> lane & 1)
    *bytes = 0;
  if (*bytes > size)
    return fault(c, "cp-async", "src-size %u is larger than cp-size %u", *bytes, size);
  return STEP_NEXT;
}

/* s: destination, source, and src-size or predicate.  imm: destination offset. */
Step op_cp_async(Ctx *c, const Ins *i) {
  const CopyForm *f = &i->form.copy;
  Access out = {i->s[0], f->address_bits, i->imm, SPACE_SHARED_CTA, f->size, f->size, ACC_WRITE};
  Copies q = {.mask = c->mask, .size = f->size};
  FOR_LANES (c->mask, l) {
    Cta *owner, *none;
    Step s = source_bytes(c, i, l, &q.read[l]);
    if (s != STEP_NEXT || (s = resolve_lane(c, &out, l, &q.dst[l], &owner)) != STEP_NEXT)
      return s;
    Access in = {i->s[1], f->source_bits, f->source_offset, SPACE_GLOBAL, q.read[l], f->size, ACC_READ};
    if (q.read[l] && (s = resolve_lane(c, &in, l, &q.src[l], &none)) != STEP_NEXT)
      return s;
  }
  AsyncOp *op = async_new(c, FIFO_CP_ASYNC, queue_key(c), cp_land, sizeof(Copies));
  q.number = ++c->w->cp_issued;
  *(Copies *)op->payload = q;
  op->t_done = c->sp->t + T_CP_ASYNC;
  async_submit(c->cl, op);
  return c->m->faulted ? STEP_FAULT : STEP_NEXT;
}

Step op_cp_commit(Ctx *c, const Ins *i) {
  (void)i;
  c->w->cp_group_end[c->w->cp_groups++ % CP_RING] = c->w->cp_issued;
  return STEP_NEXT;
}

static bool landed_up_to(const Ctx *c, u32 number) {
  for (const AsyncOp *o = c->cl->async_head; o; o = o->next)
    if (o->fifo == FIFO_CP_ASYNC && o->fifo_key == queue_key(c) && ((const Copies *)o->payload)->number <= number)
      return false;
  return true;
}

/* imm: groups that may stay pending. */
Step op_cp_wait(Ctx *c, const Ins *i) {
  Warp *w = c->w;
  u32 keep = (u32)i->imm, number = w->cp_issued;
  if (!i->form.wait_group.all) {
    if (keep >= CP_RING)
      return fault(c, "cp-async", "wait_group %u: at most %u groups are remembered", keep, CP_RING - 1);
    number = w->cp_groups > keep ? w->cp_group_end[(w->cp_groups - keep - 1) % CP_RING] : 0;
  }
  if (!landed_up_to(c, number))
    return block(c, WAIT_CP_ASYNC, c->cta->rank, 0, keep);
  see_cp_wait(c, number);
  return STEP_NEXT;
}

static void arrive_land(Machine *m, AsyncOp *op) {
  const Copies *q = (const Copies *)op->payload;
  Cta *cta = op->cta;
  FOR_LANES (q->mask, l) {
    Mbar *b = mbar_at(cta, q->bar[l]);
    if (!b) {
      fault_async(m, op, "no-mbarrier", "no live mbarrier at CTA %u + 0x%x when the copies complete", cta->rank,
                  q->bar[l]);
      return;
    }
    see_release(NULL, op, &b->check);
    const char *rule = mbar_arrive(cta->cl, b, 1, op->t_done);
    if (rule) {
      fault_async(m, op, "mbarrier", "mbarrier at CTA %u + 0x%x: %s", cta->rank, q->bar[l], rule);
      return;
    }
  }
}

/* cp.async.mbarrier.arrive: arrive when the thread's prior cp.async have landed; without .noinc the pending
 * count is raised first.  s: mbarrier; imm: offset. */
Step op_cp_arrive(Ctx *c, const Ins *i) {
  Access a = mbar_access(i->s[0], i->form.mbarrier.address_bits, i->imm, (Space)i->form.mbarrier.space);
  Copies q = {.mask = c->mask, .arrives = true};
  FOR_LANES (c->mask, l) {
    Cta *owner;
    Mbar *b;
    Step s = mbar_operand(c, &a, l, true, &owner, &b);
    if (s != STEP_NEXT)
      return s;
    see_mbar_use(c, &b->check);
    if (!(i->form.mbarrier.flags & ARRIVE_NOINC) && ++b->pending > MBAR_MAX_COUNT)
      return mbar_fault(c, owner, b, "the pending count leaves its range");
    q.bar[l] = b->offset;
  }
  AsyncOp *op = async_new(c, FIFO_CP_ASYNC, queue_key(c), arrive_land, sizeof(Copies));
  q.number = ++c->w->cp_issued;
  *(Copies *)op->payload = q;
  op->t_done = c->sp->t + T_CP_ASYNC;
  async_submit(c->cl, op);
  return c->m->faulted ? STEP_FAULT : STEP_NEXT;
}

/* ---- st.async, red.async ----------------------------------------------------------------------- */
typedef struct {
  Cta *owner;
  u32 offset, bar, bytes;
  u8 data[32];
  bool reduce;
  RedOp op;
  Element element;
} Remote;

static void remote_land(Machine *m, AsyncOp *op) {
  const Remote *q = (const Remote *)op->payload;
  u8 *p = bulk_smem(m, op, q->owner, q->offset, q->bytes, q->reduce ? ACC_ATOMIC : ACC_WRITE);
  if (!p)
    return;
  if (q->reduce)
    reduce_bytes(q->op, q->element, p, q->data, q->bytes);
  else
    memcpy(p, q->data, q->bytes);
  mbar_land_tx(m, op, q->owner, q->bar, q->bytes);
}

/* s: address, mbarrier, registers.  imm: offset. */
static Step remote_lane(Ctx *c, const Ins *i, u32 lane, bool reduce) {
  const RemoteForm *f = &i->form.remote;
  u32 n = i->ns - 2u, size = f->bytes;
  Remote q = {.bytes = n * size, .reduce = reduce, .op = (RedOp)f->op, .element = (Element)f->element};
  for (u32 v = 0; v < n; v++) {
    u64 x = size == 8 ? R64(c, i->s[2 + v])[lane] : R32(c, i->s[2 + v])[lane];
    memcpy(q.data + v * size, &x, size);
  }
  Access a = {i->s[0], f->address_bits, i->imm, SPACE_SHARED_CLUSTER, q.bytes, q.bytes, ACC_WRITE};
  u8 *p;
  u32 bar;
  Access mbar = mbar_access(i->s[1], f->bar_bits, f->bar_offset, SPACE_SHARED_CLUSTER);
  Step s = resolve_lane(c, &a, lane, &p, &q.owner);
  if (s != STEP_NEXT || (s = mbar_issue(c, &mbar, lane, &bar)) != STEP_NEXT)
    return s;
  if (window_rank(bar) != q.owner->rank)
    return fault(c, "mbarrier-address", "the mbarrier is in CTA %u, the destination in CTA %u", window_rank(bar),
                 q.owner->rank);
  q.offset = smem_offset(q.owner, p);
  q.bar = window_offset(bar);
  AsyncOp *op = async_new(c, FIFO_NONE, 0, remote_land, sizeof(Remote));
  op->lane = lane;
  op->t_done = c->sp->t + T_REMOTE;
  *(Remote *)op->payload = q;
  async_submit(c->cl, op);
  return c->m->faulted ? STEP_FAULT : STEP_NEXT;
}

static Step st_lane(Ctx *c, const Ins *i, u32 lane) {
  return remote_lane(c, i, lane, false);
}

static Step red_lane(Ctx *c, const Ins *i, u32 lane) {
  return remote_lane(c, i, lane, true);
}

Step op_st_async(Ctx *c, const Ins *i) {
  return lane_by_lane(c, i, st_lane);
}

Step op_red_async(Ctx *c, const Ins *i) {
  return lane_by_lane(c, i, red_lane);
}
