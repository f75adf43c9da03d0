/* tcgen05.cp: shared memory -> Tensor Memory, asynchronous, in order with the MMAs of its CTA or pair
 * (PTX ISA, "tcgen05.cp"). */
#include "mma/mma.h"

typedef struct {
  u32 rows, units, copies;
} CopySize; /* source rows, 16-byte units per row, destinations */

static const CopySize SIZE[CP_COUNT] = {[CP_128X256B] = {128, 2, 1},
                                        [CP_128X128B] = {128, 1, 1},
                                        [CP_4X256B] = {4, 2, 1},
                                        [CP_64X128B_WARPX2_02_13] = {64, 1, 2},
                                        [CP_64X128B_WARPX2_01_23] = {64, 1, 2},
                                        [CP_32X128B_WARPX4] = {32, 1, 4}};

typedef struct {
  CpShape shape;
  u32 group, taddr, packed; /* packed: bits of the source's elements, 0 without decompression */
  SmemDesc d;
} Copy;

/* Sixteen bytes of Tensor Memory from a unit of the source: as it is, or its sixteen packed elements, which padding
 * follows, in the middle of a byte each (PTX ISA, "Optional Decompression"; the place: see decode_holders). */
static void copy_unit(u8 *to, const u8 *from, u32 packed) {
  if (!packed) {
    memcpy(to, from, 16);
    return;
  }
  for (u32 k = 0; k < 16; k++) {
    u32 at = k * packed, two = from[at / 8] | (u32)from[at / 8 + 1] << 8;
    to[k] = (u8)((two >> at % 8 & ((1u << packed) - 1)) << (8 - packed) / 2);
  }
}

static u32 copy_lane(const Copy *q, u32 r, u32 copy) {
  switch (q->shape) {
    case CP_4X256B:
      return 32 * r + taddr_lane(q->taddr);
    case CP_64X128B_WARPX2_02_13:
      return r + 64 * copy;
    case CP_64X128B_WARPX2_01_23:
      return r % 32 + 64 * (r / 32) + 32 * copy;
    case CP_32X128B_WARPX4:
      return r + 32 * copy;
    default:
      return r;
  }
}

static bool copy_one(Machine *m, AsyncOp *op, const Copy *q, Cta *cta) {
  const CopySize *z = &SIZE[q->shape];
  u32 col = taddr_col(q->taddr), cols = 4 * z->units;
  if (cta->exited && cta != op->cta) {
    fault_async(m, op, "pair-exited", "peer CTA %u has exited when the copy executes", cta->rank);
    return false;
  }
  if (!tmem_columns_landing(m, op, cta, col, cols, "destination"))
    return false;
  UnitSet units;
  memset(&units, 0, sizeof units);
  for (u32 r = 0; r < z->rows; r++)
    for (u32 u = 0; u < z->units; u++) {
      u32 a = swizzle_address(q->d.swizzle, q->d.start + k_major_unit(&q->d, r, u));
      if (a < SMEM_RESERVED || a + 16 > cta->smem_bytes) {
        fault_async(m, op, "smem-operand-bounds", "the source reaches outside the shared memory of CTA %u", cta->rank);
        return false;
      }
      unit_add(&units, a);
      for (u32 k = 0; k < z->copies; k++)
        copy_unit((u8 *)(tmem_row(cta, copy_lane(q, r, k)) + col + 4 * u), cta->smem + a, q->packed);
    }
  units_observe(op, cta, &units);
  for (u32 r = 0; r < z->rows; r++)
    for (u32 k = 0; k < z->copies; k++) {
      u32 lane = copy_lane(q, r, k);
      see_tmem(NULL, op, cta, lane, 1, col, cols, ACC_WRITE);
      tmem_mark(cta, lane, 1, col, cols, CELL_FULL);
    }
  return true;
}

static void copy_land(Machine *m, AsyncOp *op) {
  const Copy *q = (const Copy *)op->payload;
  u32 first = q->group == 2 ? op->cta->rank & ~1u : op->cta->rank;
  for (u32 h = 0; h < q->group; h++)
    if (!copy_one(m, op, q, &op->cta->cl->ctas[first + h]))
      return;
}

static Step copy_check(Ctx *c, const Copy *q, Cta *cta) {
  const CopySize *z = &SIZE[q->shape];
  u32 far = 0;
  for (u32 r = 0; r < z->rows; r++)
    for (u32 u = 0; u < z->units; u++) {
      u32 x = k_major_unit(&q->d, r, u);
      if (x > far)
        far = x;
    }
  if (q->d.start < SMEM_RESERVED || q->d.start + far + 16 > cta->smem_bytes)
    return fault(c, "smem-operand-bounds", "source bytes 0x%x..0x%x of CTA %u lie outside its shared memory",
                 q->d.start, q->d.start + far + 15, cta->rank);
  return tmem_columns(c, cta, taddr_col(q->taddr), 4 * z->units, "destination");
}

/* tcgen05.cp.cta_group::{1,2}.shape{.multicast} [taddr], s-desc.
 * s: taddr, descriptor; imm: address offset. */
Step op_copy(Ctx *c, const Ins *i) {
  Step s;
  const Rule *r;
  u64 start;
  if ((s = single_lane(c, "tcgen05.cp")) != STEP_NEXT || (s = pair_alive(c, i->form.tmem.group, "a copy")) != STEP_NEXT)
    return s;
  u32 lane = first_lane(c->mask);
  u64 bits = R64(c, i->s[1])[lane];
  const TmemForm *f = &i->form.tmem;
  Copy q = {(CpShape)f->shape, f->group, R32(c, i->s[0])[lane] + (u32)i->imm, f->packed, {0}};
  if ((r = smem_desc_decode(bits, &q.d)))
    return fault(c, r->code, "descriptor 0x%llx: %s", (unsigned long long)bits, r->text);
  if (taddr_lane(q.taddr) >= (q.shape == CP_4X256B ? 32u : 1u))
    return fault(c, "invalid-datapath-alignment", "the destination starts at lane %u", taddr_lane(q.taddr));
  if ((s = copy_check(c, &q, c->cta)) != STEP_NEXT)
    return s;
  if (q.group == 2 && (s = copy_check(c, &q, cta_peer(c->cta))) != STEP_NEXT)
    return s;
  mma_note_issue(c);
  u32 key = mma_fifo_key(c->cta, q.group);
  AsyncOp *op = async_new(c, FIFO_MMA, key, copy_land, sizeof q);
  memcpy(op->payload, &q, sizeof q);
  pipe_occupy(c, op, key, SIZE[q.shape].rows * SIZE[q.shape].units * 16 / SMEM_BYTES_PER_CYCLE, COPY_FIXED, &start);
  async_submit(c->cl, op);
  return c->m->faulted ? STEP_FAULT : STEP_NEXT;
}
