/* Tensor copies: cp.async.bulk.tensor, cp.reduce.async.bulk.tensor, cp.async.bulk.prefetch.tensor (PTX ISA,
 * sections of these names): tile mode, four rows that coordinates name (.tile::gather4, .tile::scatter4), im2col mode.
 *
 * The tensor map and the coordinates are taken when the instruction is issued; bytes move when it lands.
 * A load completes the bytes of the whole box, those outside of the tensor included. */
#include "copy/tensormap.h"
#include "machine/share.h"

typedef struct {
  TensorMap map;
  i32 c[MAX_RANK];
  u32 smem, mbar, ranks, bytes, flags;
  RedOp op;
  Element element;
  u8 data[];
} Tensor;

/* Offsets and filter base of an im2col copy (PTX ISA, "Im2col Mode"): the base lies in the bounding box. */
static Step im2col_operands(Ctx *c, const Ins *i, u32 lane, Tensor *q, u32 first_offset) {
  TensorMap *t = &q->map;
  u32 limit = t->rank == 3 ? 0xFFFF : t->rank == 4 ? 0xFF : 0x1F;
  for (u32 d = 0; d + 2 < t->rank; d++) {
    i32 base = q->c[1 + d];
    t->offset[d] = R32(c, i->s[first_offset + d])[lane] & 0xFFFF;
    if (t->offset[d] > limit)
      return fault(c, "tma-coordinate", "im2col offset %u is above %u, the largest with %u dimensions", t->offset[d],
                   limit, t->rank);
    if (base < t->lower[d] || base > t->last[d])
      return fault(c, "tma-coordinate", "filter base %d of dimension %u is outside of the bounding box, %d ... %d",
                   base, 1 + d, t->lower[d], t->last[d]);
    if ((u32)(base - t->lower[d]) % t->step[1 + d])
      return fault(c, "unsupported",
                   "an im2col copy from %d on, which the stride %u does not meet from the corner %d: where the next "
                   "line starts",
                   base, t->step[1 + d], t->lower[d]);
  }
  return STEP_NEXT;
}

static Step tensor_operands(Ctx *c, const Ins *i, u32 lane, Tensor *q, u32 map_slot, u32 first_coord) {
  const TensorForm *f = &i->form.tensor;
  Access a = {.slot = map_slot, .bits = f->map_bits, .off = f->map_offset, .space = (Space)f->map_space};
  Step s = tensormap_operand(c, a, lane, &q->map);
  if (s != STEP_NEXT)
    return s;
  if (q->map.rank != f->rank)
    return fault(c, "tensormap", "the instruction is %ud, the tensor map has rank %u", f->rank, q->map.rank);
  if (!q->map.pixels != !(f->flags & COPY_IM2COL))
    return fault(c, "tensormap", "the instruction is in %s mode, the tensor map in %s mode",
                 q->map.pixels ? "tile" : "im2col", q->map.pixels ? "im2col" : "tile");
  const char *rule = tensormap_box_rule(&q->map);
  if (rule)
    return fault(c, "tensormap", "the tensor map cannot be copied: %s", rule);
  if (f->flags & COPY_ROWS) {
    if (q->map.box[1] != 1)
      return fault(c, "tensormap", "the box of a copy of four rows has one row, the tensor map's has %u",
                   q->map.box[1]);
    q->map.rows = true;
    q->map.count[1] = NAMED_ROWS;
  }
  for (u32 d = 0; d < (f->flags & COPY_ROWS ? 1 + NAMED_ROWS : f->rank); d++)
    q->c[d] = RI32(c, i->s[first_coord + d])[lane];
  if (q->map.padded && q->c[0] % (i32)PADDED_ROW)
    return fault(c, "tma-coordinate", "coordinate 0 of elements with gaps is no multiple of 128: %d", q->c[0]);
  if (q->map.packed && q->c[0] & 1)
    return fault(c, "tma-coordinate", "coordinate 0 of a 4-bit tensor is odd: %d", q->c[0]);
  if (q->map.packed)
    q->c[0] = q->c[0] / 2 * (i32)q->map.packed / 4;
  q->bytes = tensormap_box_bytes(&q->map);
  q->flags = f->flags;
  if ((i64)q->c[0] * q->map.bytes % 16) /* an illegal instruction on H200 */
    return fault(c, "tma-coordinate",
                 "coordinate %d of dimension 0 starts %lld bytes into a row; a multiple of 16 is required", q->c[0],
                 (long long)q->c[0] * q->map.bytes);
  return q->map.pixels ? im2col_operands(c, i, lane, q, first_coord + f->rank) : STEP_NEXT;
}

static Step smem_operand(Ctx *c, const Ins *i, u32 lane, Acc acc, Tensor *q) {
  const TensorForm *f = &i->form.tensor;
  u8 *p;
  Cta *owner;
  Access a = {i->s[0], f->address_bits, i->imm, (Space)f->space, tensormap_smem_bytes(&q->map), 128, acc};
  Step s = resolve_lane(c, &a, lane, &p, &owner);
  if (s == STEP_NEXT)
    q->smem = window_at(owner->rank, smem_offset(owner, p));
  return s;
}

/* Every row that a copy touches must lie in a known allocation; checked at issue, where the line is known. */
static Step check_rows(Ctx *c, const Tensor *q, bool write) {
  Walk w;
  Row r;
  u64 first = q->map.base, span = 0;
  char where[NEAREST_BYTES];
  bool is_box = !q->map.rows && !q->map.pixels;
  bool inside = is_box && (!box_span(&q->map, q->c, write, &first, &span) || gmem_ok(c->m, first, span, write));
  c->notes[0] = q->bytes | (u64)(q->map.count[0] * q->map.bytes) << 32;
  c->notes[1] = first;
  c->notes[2] = span;
  if (inside)
    return STEP_NEXT;
  for (walk_start(&w, &q->map, q->c, write); walk_row(&w, &r);) {
    if (r.lo == r.hi)
      continue;
    u64 at = r.addr + r.lo * q->map.bytes, len = (r.hi - r.lo) * q->map.bytes;
    if (!gmem_ok(c->m, at, len, write))
      return fault(c, "global-address",
                   "the box at (%d, %d, %d, %d, %d) %s %llu bytes at 0x%llx, outside of every known %sallocation%s",
                   q->c[0], q->c[1], q->c[2], q->c[3], q->c[4], write ? "writes" : "reads", (unsigned long long)len,
                   (unsigned long long)at, write ? "writable " : "", gmem_nearest(c->m, at, len, where));
  }
  return STEP_NEXT;
}

/* ---- loads ---------------------------------------------------------------------------------- */
#define NAN_FILL 0x7FF7u /* every 16 bits of elements outside of the tensor, for all types (seen on H200) */

static void fill_row(u8 *row, u32 bytes, bool nan) {
  u16 word = nan ? NAN_FILL : 0;
  for (u32 k = 0; k < bytes; k += 2)
    memcpy(row + k, &word, 2);
}

/* tf32 maps round every element to nearest even as they load it, NaNs become one NaN; subnormals are kept,
 * also by the types with flush (seen on H200).  Stores do not convert. */
static void round_to_tf32(u8 *row, u32 bytes) {
  for (u32 k = 0; k < bytes; k += 4) {
    u32 v;
    memcpy(&v, row + k, 4);
    v = (v & 0x7FFFFFFFu) > 0x7F800000u ? 0x7FFFE000u : (v + 0xFFFu + (v >> 13 & 1)) & ~0x1FFFu;
    memcpy(row + k, &v, 4);
  }
}

/* What the observers see of a box: whole when its rows are adjacent, else every 16-byte chunk. */
static void see_box(AsyncOp *op, const Tensor *q, Cta *cta, Acc acc) {
  const TensorMap *t = &q->map;
  u32 pitch = tensormap_row_pitch(t), row = t->count[0] * t->bytes, at = window_offset(q->smem);
  if (!observed(cta->cl->m))
    return;
  if (pitch == row || t->padded) {
    see_smem(NULL, op, cta, at, tensormap_smem_bytes(t), acc, PROXY_ASYNC);
    return;
  }
  for (u32 r = 0; r < q->bytes / row; r++)
    for (u32 k = 0; k < row; k += 16)
      see_smem(NULL, op, cta, swizzle_place(at + r * pitch + k, t->swizzle), 16, acc, PROXY_ASYNC);
}

/* The box's shared memory at landing, or NULL after a fault. */
static u8 *box_smem(Machine *m, AsyncOp *op, const Tensor *q, Cta *cta, Acc acc) {
  u32 at = window_offset(q->smem), n = tensormap_smem_bytes(&q->map);
  u8 *p = bulk_landing(m, op, cta, at, n, acc);
  if (!p)
    return NULL;
  u32 bar = mbar_inside(cta, at, n);
  if (bar != NONE32) {
    fault_async(m, op, "mbarrier-access", "the box at CTA %u + 0x%x covers the live mbarrier at 0x%x", cta->rank, at,
                bar);
    return NULL;
  }
  see_box(op, q, cta, acc);
  return p;
}

static void load_box(Machine *m, AsyncOp *op, const Tensor *q, Cta *cta) {
  const TensorMap *t = &q->map;
  u8 buffer[MAX_ROW_BYTES];
  Walk w;
  Row r;
  u32 at = window_offset(q->smem), row_bytes = t->count[0] * t->bytes, pitch = tensormap_row_pitch(t);
  for (walk_start(&w, t, q->c, false); walk_row(&w, &r); at += pitch) {
    const u8 *from = (const u8 *)(uintptr_t)r.addr;
    u32 valid = (r.hi - r.lo) * t->bytes;
    share_touch(m, from + r.lo * t->bytes, valid, false);
    if (observed(m) && valid)
      see_gmem(NULL, op, m, r.addr + r.lo * t->bytes, valid, ACC_READ, PROXY_ASYNC);
    if (valid != row_bytes || t->tf32) {
      if (valid != row_bytes)
        fill_row(buffer, row_bytes, t->nan_fill);
      if (valid)
        memcpy(buffer + r.lo * t->bytes, from + r.lo * t->bytes, valid);
      if (t->tf32)
        round_to_tf32(buffer + r.lo * t->bytes, valid);
      from = buffer;
    }
    box_row_put(cta->smem, at, from, t);
  }
}

/* CTA whose mbarrier learns of the bytes that arrived in CTA `r` (PTX ISA, ".cta_group"). */
static u32 signal_rank(const Tensor *q, u32 r) {
  return q->flags & COPY_PAIR ? (r & ~1u) | (window_rank(q->mbar) & 1) : r;
}

static void load_land(Machine *m, AsyncOp *op) {
  const Tensor *q = (const Tensor *)op->payload;
  Cluster *cl = op->cta->cl;
  for (u32 r = 0; r < cl->n_ctas; r++) {
    if (!(q->ranks >> r & 1))
      continue;
    Cta *cta = &cl->ctas[r];
    u32 to = signal_rank(q, r);
    if (!box_smem(m, op, q, cta, ACC_WRITE))
      return;
    load_box(m, op, q, cta);
    if (to >= cl->n_ctas) {
      fault_async(m, op, "cta-pair", "CTA %u has no pair partner in the cluster", r);
      return;
    }
    if (!mbar_land_tx(m, op, &cl->ctas[to], window_offset(q->mbar), q->bytes))
      return;
  }
}

static Step check_barrier_rank(Ctx *c, const Tensor *q) {
  u32 bar = window_rank(q->mbar), dst = window_rank(q->smem);
  if (bar == dst || (q->flags & COPY_MULTICAST && bar == c->cta->rank))
    return STEP_NEXT;
  if (q->flags & COPY_PAIR && (bar ^ dst) == 1)
    return STEP_NEXT;
  if (q->flags & COPY_PAIR)
    return fault(c, "mbarrier-address", "the mbarrier is in CTA %u, the destination in CTA %u; they are not a CTA pair",
                 bar, dst);
  barrier_rank_ignored(c, bar, dst);
  return STEP_NEXT;
}

static Step load_lane(Ctx *c, const Ins *i, u32 lane) {
  const TensorForm *f = &i->form.tensor;
  Tensor q = {0};
  Step s = tensor_operands(c, i, lane, &q, i->s[1], 4);
  if (s != STEP_NEXT || (s = smem_operand(c, i, lane, ACC_WRITE, &q)) != STEP_NEXT)
    return s;
  Access mbar = mbar_access(i->s[2], f->bar_bits, f->bar_offset, (Space)f->space);
  if ((s = mbar_issue(c, &mbar, lane, &q.mbar)) != STEP_NEXT || (s = check_barrier_rank(c, &q)) != STEP_NEXT)
    return s;
  if (!(q.ranks = bulk_ranks(c, q.smem, f->flags & COPY_MULTICAST, R32(c, i->s[3])[lane])))
    return STEP_FAULT;
  if ((s = check_rows(c, &q, false)) != STEP_NEXT)
    return s;
  AsyncOp *op = async_new(c, FIFO_NONE, 0, load_land, sizeof q);
  op->lane = lane;
  *(Tensor *)op->payload = q;
  bulk_schedule(c, op, EV_TMA_LOAD, q.bytes, window_offset(q.smem));
  async_submit(c->cl, op);
  return c->m->faulted ? STEP_FAULT : STEP_NEXT;
}

/* s: destination, map, mbarrier, CTA mask, coordinates.  imm: destination offset. */
static Step op_tma_load(Ctx *c, const Ins *i) {
  return lane_by_lane(c, i, load_lane);
}

/* ---- stores and reductions --------------------------------------------------------------------- */
static void write_box(Machine *m, AsyncOp *op, const Tensor *q) {
  const TensorMap *t = &q->map;
  Walk w;
  Row r;
  const u8 *from = q->data;
  u32 row_bytes = t->count[0] * t->bytes;
  for (walk_start(&w, t, q->c, true); walk_row(&w, &r); from += row_bytes) {
    u32 valid = (r.hi - r.lo) * t->bytes;
    if (!valid)
      continue;
    u8 *to = (u8 *)(uintptr_t)(r.addr + r.lo * t->bytes);
    share_touch(m, to, valid, true);
    if (observed(m))
      see_gmem(NULL, op, m, (u64)(uintptr_t)to, valid, q->flags & COPY_REDUCE ? ACC_ATOMIC : ACC_WRITE, PROXY_ASYNC);
    if (q->flags & COPY_REDUCE)
      reduce_bytes(q->op, q->element, to, from + r.lo * t->bytes, valid);
    else
      memcpy(to, from + r.lo * t->bytes, valid);
  }
}

static void store_land(Machine *m, AsyncOp *op) {
  Tensor *q = (Tensor *)op->payload;
  u32 row = q->map.count[0] * q->map.bytes, pitch = tensormap_row_pitch(&q->map), at = window_offset(q->smem);
  if (op->sources_read) {
    write_box(m, op, q);
    return;
  }
  if (!box_smem(m, op, q, op->cta, ACC_READ))
    return;
  for (u32 k = 0; k < q->bytes; k += row, at += pitch)
    swizzle_get(op->cta->smem, at, q->data + k, row, q->map.swizzle);
  op->sources_read = op->again = true;
}

static Step store_lane(Ctx *c, const Ins *i, u32 lane) {
  Tensor q = {0};
  Step s = tensor_operands(c, i, lane, &q, i->s[1], 2);
  if (s != STEP_NEXT || (s = smem_operand(c, i, lane, ACC_READ, &q)) != STEP_NEXT)
    return s;
  if (q.map.padded)
    return fault(c, "unsupported", "a store of elements with gaps in shared memory");
  for (u32 d = 0; d + 2 < q.map.rank && q.map.pixels; d++)
    if (q.map.lower[d] < 0)
      return fault(c, "unsupported", "an im2col store whose bounding box begins outside of the tensor, at %d",
                   q.map.lower[d]);
  for (u32 d = 0; d < (q.map.rows ? 1 + NAMED_ROWS : q.map.rank); d++)
    if (q.c[d] < 0)
      return fault(c, "tma-coordinate", "coordinate %u of a store is negative: %d", d, q.c[d]);
  if (q.flags & COPY_REDUCE) {
    q.op = (RedOp)i->form.tensor.op;
    int e = tensormap_element(&q.map, q.op);
    if (e < 0)
      return fault(c, "tensormap", "reduction %u has no form for the tensor map's element type %u", q.op, q.map.type);
    q.element = (Element)e;
  }
  if ((s = check_rows(c, &q, true)) != STEP_NEXT)
    return s;
  AsyncOp *op = async_new(c, FIFO_NONE, 0, store_land, sizeof q + q.bytes);
  op->lane = lane;
  *(Tensor *)op->payload = q;
  bulk_join_group(c, op, lane);
  bulk_schedule(c, op, EV_TMA_STORE, q.bytes, window_offset(q.smem));
  async_submit(c->cl, op);
  return c->m->faulted ? STEP_FAULT : STEP_NEXT;
}

/* s: source, map, coordinates.  imm: source offset. */
static Step op_tma_store(Ctx *c, const Ins *i) {
  return lane_by_lane(c, i, store_lane);
}

/* cp.async.bulk.prefetch.tensor: no effect, but the operands must be right.  s: map, coordinates. */
static Step op_tma_prefetch(Ctx *c, const Ins *i) {
  FOR_LANES (c->mask, l) {
    Tensor q = {0};
    Step s = tensor_operands(c, i, l, &q, i->s[0], 1);
    if (s != STEP_NEXT)
      return s;
  }
  return STEP_NEXT;
}

OP_TABLE(tma) = {{"TMA_LOAD", op_tma_load},
                 {"TMA_STORE", op_tma_store},
                 {"TMA_PREFETCH", op_tma_prefetch},
                 {"TENSORMAP_PREFETCH", op_tensormap_prefetch},
                 {"TENSORMAP_REPLACE", op_tensormap_replace},
                 {"TENSORMAP_COPY", op_tensormap_copy},
                 {"TENSORMAP_ACQUIRE", op_tensormap_acquire},
                 {NULL, NULL}};
