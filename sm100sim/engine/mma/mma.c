/* tcgen05.mma at issue: operands and descriptors are decoded and every rule that needs no data is checked
 * (PTX ISA, "tcgen05.mma").  The work itself is an asynchronous operation, performed in run.c. */
#include "mma/mma.h"

static inline u32 form_group(const MmaForm *f) {
  return f->flags & MMA_PAIR ? 2 : 1;
}

static inline u32 mask_words(const MmaForm *f) {
  return f->flags & MMA_MASKED ? 4 * form_group(f) : 0;
}

enum { S_D, S_A, S_B, S_IDESC, S_ENABLE, S_MORE };

static Step broken(Ctx *c, const Rule *r, const char *what, u64 bits) {
  return fault(c, r->code, "%s 0x%llx: %s", what, (unsigned long long)bits, r->text);
}

static Step smem_operand_check(Ctx *c, const SmemOperand *o, const char *name, u64 bits) {
  const Rule *r = operand_layout_rule(o->type, o->mn_major, o->d.swizzle);
  if (r)
    return broken(c, r, name, bits);
  u32 end = o->d.start + operand_extent(o);
  if (o->d.start < SMEM_RESERVED || end > o->cta->smem_bytes)
    return fault(c, "smem-operand-bounds", "%s: bytes 0x%x..0x%x of CTA %u lie outside its shared memory (0x%x..0x%x)",
                 name, o->d.start, end - 1, o->cta->rank, SMEM_RESERVED, o->cta->smem_bytes - 1);
  return STEP_NEXT;
}

static Step lane_alignment(Ctx *c, const Mma *q, u32 lane, const char *name) {
  bool half = q->q.group == 1 && q->q.m == 64 && !q->q.stationary;
  if (lane == 0 || (lane == 16 && half))
    return STEP_NEXT;
  return fault(c, "invalid-datapath-alignment", "%s starts at lane %u; M = %u of cta_group::%u allows lane 0%s", name,
               lane, q->q.m, q->q.group, half ? " or 16" : "");
}

/* Each part of D multiplies the rows of A in its own lanes.  The ISA shows D alone (layouts E and G), and shipped
 * kernels give each part an A of its own: FlashMLA and cudnn-frontend with M = 64, Modular's with both. */
static void parts_of_a(Ctx *c, const Mma *q) {
  u32 parts = TMEM_LANES / q->q.m;
  if (q->q.stationary && parts > 1 && first_told(c->cta, TOLD_PARTS))
    finding(c, 0, "ws-a-lanes",
            "A in Tensor Memory of .ws with M = %u: the ISA names no lanes for it; each of the %u parts of N takes the "
            "rows in its own lanes",
            q->q.m, parts);
}

static Step tmem_a_check(Ctx *c, const Mma *q, Cta *cta) {
  Step s = lane_alignment(c, q, taddr_lane(q->a_taddr), "A");
  if (s != STEP_NEXT)
    return s;
  if (q->q.mn_a)
    return fault(c, "operand-major", "A in Tensor Memory cannot be transposed");
  if (taddr_lane(q->a_taddr) != taddr_lane(q->d_taddr))
    return fault(c, "invalid-datapath-alignment", "A at lane %u and D at lane %u must use the same lanes",
                 taddr_lane(q->a_taddr), taddr_lane(q->d_taddr));
  parts_of_a(c, q);
  return tmem_columns(c, cta, taddr_col(q->a_taddr), 8, "A");
}

/* Everything about one CTA's share of the operands. */
static Step cta_check(Ctx *c, const Mma *q, Cta *cta, u64 a_bits, u64 b_bits) {
  Step s;
  Part parts[MMA_PARTS];
  mma_parts(q, cta, 0, parts);
  if ((s = tmem_columns(c, cta, parts[0].col, parts[0].n1 - parts[0].n0, "D")) != STEP_NEXT)
    return s;
  SmemOperand a = {cta, q->a, q->q.a, q->q.mn_a, false, q->q.m / q->q.group, q->q.k};
  SmemOperand b = {cta, q->b, q->q.b, q->q.mn_b, false, q->q.n / q->q.group, b_depth(q)};
  if (q->sparse && (s = tmem_columns(c, cta, taddr_col(q->meta_taddr), q->meta_cols, "metadata")) != STEP_NEXT)
    return s;
  if ((s = q->a_tmem ? tmem_a_check(c, q, cta) : smem_operand_check(c, &a, "A descriptor", a_bits)) != STEP_NEXT)
    return s;
  return smem_operand_check(c, &b, "B descriptor", b_bits);
}

static Step operands_check(Ctx *c, const Mma *q, u64 a_bits, u64 b_bits) {
  Step s = lane_alignment(c, q, taddr_lane(q->d_taddr), "D");
  if (s != STEP_NEXT || (s = cta_check(c, q, c->cta, a_bits, b_bits)) != STEP_NEXT)
    return s;
  if (q->q.group == 2 && (s = cta_check(c, q, cta_peer(c->cta), a_bits, b_bits)) != STEP_NEXT)
    return s;
  return kind_block_scaled(q->q.kind) ? scales_check(c, q) : STEP_NEXT;
}

/* Where CUTLASS, whose fragments of E say it, and the ISA's figures have metadata; other places are in figures only.
 * The selector is the lowest bit of the column where an instruction needs one. */
static Step sparse_decode(Ctx *c, const Ins *i, u32 *idesc, Mma *q) {
  u32 lane = first_lane(c->mask), selector = *idesc & 3;
  if (!(*idesc & 4))
    return fault(c, "sparse-mismatch",
                 "the sparse bit of the instruction descriptor is not set in an instruction with .sp");
  *idesc &= ~7u;
  q->sparse = true;
  q->meta_taddr = R32(c, i->s[S_MORE])[lane] + (u32)i->form.mma.meta_offset;
  u32 kind = i->form.mma.kind;
  q->meta_cols = kind == KIND_F16 || kind == KIND_TF32 ? 1 : 2;
  if (taddr_lane(q->meta_taddr) || taddr_col(q->meta_taddr) % 2 || selector >= 3 - q->meta_cols)
    return fault(c, "unsupported",
                 "metadata at lane %u, column %u with sparsity selector %u: only even columns, lane 0 "
                 "and selectors below %u are modelled",
                 taddr_lane(q->meta_taddr), taddr_col(q->meta_taddr), selector, 3 - q->meta_cols);
  q->meta_taddr += selector;
  return STEP_NEXT;
}

static Step zeros_decode(Ctx *c, u64 mask, Mma *q) {
  if (mask >> 36 & 7 || mask >> 62)
    return fault(c, "instr-desc-reserved", "the zero-column mask 0x%llx: bits 36-38 and 62-63 must be 0",
                 (unsigned long long)mask);
  if (mask >> 56)
    return fault(c, "unsupported", "the zero-column mask 0x%llx: a shift of columns", (unsigned long long)mask);
  q->zeros = mask >> 39 & 1 ? mask : 0;
  for (u32 part = 0; q->zeros && part < TMEM_LANES / q->q.m; part++) {
    ZeroColumns z = zero_columns(q, part);
    if (z.start >= (z.zeros_first ? z.zeros : z.used))
      return fault(c, "unsupported", "the zero-column mask 0x%llx: part %u begins after its first span",
                   (unsigned long long)mask, part);
  }
  return STEP_NEXT;
}

static Step mma_decode(Ctx *c, const Ins *i, Mma *q, u64 *a_bits, u64 *b_bits) {
  const MmaForm *f = &i->form.mma;
  u32 lane = first_lane(c->mask), idesc = R32(c, i->s[S_IDESC])[lane];
  const Rule *r;
  Step s = f->flags & MMA_SPARSE ? sparse_decode(c, i, &idesc, q) : STEP_NEXT;
  if (s != STEP_NEXT)
    return s;
  if ((r = instr_desc_decode(idesc, f->kind, form_group(f), f->flags & MMA_STATIONARY, &q->q)))
    return broken(c, r, "instruction descriptor", idesc);
  q->a_tmem = f->flags & MMA_A_TMEM;
  if (q->sparse && (q->q.m / q->q.group != TMEM_LANES || (elem_narrow(q->q.a) && q->a_tmem)))
    return fault(c, "unsupported", ".sp with M = %u, or with A of 4 or 6 bits in Tensor Memory", q->q.m);
  *a_bits = q->a_tmem ? R32(c, i->s[S_A])[lane] : R64(c, i->s[S_A])[lane];
  *b_bits = R64(c, i->s[S_B])[lane];
  if (q->a_tmem)
    q->a_taddr = (u32)*a_bits + (u32)f->a_offset;
  else if ((r = smem_desc_decode(*a_bits, &q->a)))
    return broken(c, r, "A descriptor", *a_bits);
  if ((r = smem_desc_decode(*b_bits, &q->b)))
    return broken(c, r, "B descriptor", *b_bits);
  if (q->sparse && wide_k_unknown(&q->b, q->q.mn_b))
    return fault(c, "unsupported", "a sparse A, and B with the 32-byte swizzle, K-major");
  q->d_taddr = R32(c, i->s[S_D])[lane] + (u32)i->imm;
  q->accumulate = (PRED(c, i->s[S_ENABLE]) >> lane & 1) ^ !!(f->flags & MMA_NOT_ENABLE);
  q->scale_d = f->scale_d;
  q->sf_block = f->block;
  u32 more = S_MORE + q->sparse;
  if (q->sf_block) {
    q->sfa_taddr = R32(c, i->s[more])[lane] + (u32)f->sfa_offset;
    q->sfb_taddr = R32(c, i->s[more + 1])[lane] + (u32)f->sfb_offset;
    more += 2;
  }
  if (f->flags & MMA_ZEROS && (s = zeros_decode(c, R64(c, i->s[more])[lane], q)) != STEP_NEXT)
    return s;
  q->masked = mask_words(f);
  for (u32 k = 0; k < mask_words(f); k++)
    q->off_lanes[k] = R32(c, i->s[more + k])[lane];
  return STEP_NEXT;
}

static u64 pipe_cycles(const Mma *q) {
  return q->q.group == 2 && q->q.m == 128 ? q->q.n / 4 : q->q.n / 2;
}

static u64 fixed_latency(const Mma *q) {
  if (q->q.group == 2)
    return q->a_tmem ? MMA_FIXED_TS_2 : MMA_FIXED_SS_2;
  return q->a_tmem ? MMA_FIXED_TS_1 : q->q.m == 64 ? MMA_FIXED_SS_M64 : MMA_FIXED_SS_1;
}

/* s: D address, A descriptor or address, B descriptor, instruction descriptor, enable-input-d, then the
 * address of metadata, those of scale factors, and the disable-output-lane words, or the zero-column mask of .ws.
 * imm: address offset of D. */
static Step op_mma(Ctx *c, const Ins *i) {
  Step s;
  Mma q = {0};
  u64 a_bits = 0, b_bits = 0, start;
  if ((s = single_lane(c, "tcgen05.mma")) != STEP_NEXT ||
      (s = pair_alive(c, form_group(&i->form.mma), "an MMA")) != STEP_NEXT)
    return s;
  if ((s = mma_decode(c, i, &q, &a_bits, &b_bits)) != STEP_NEXT ||
      (s = operands_check(c, &q, a_bits, b_bits)) != STEP_NEXT)
    return s;
  mma_note_issue(c);
  u32 key = mma_fifo_key(c->cta, q.q.group);
  AsyncOp *op = async_new(c, FIFO_MMA, key, mma_land, sizeof q);
  memcpy(op->payload, &q, sizeof q);
  pipe_occupy(c, op, key, pipe_cycles(&q), fixed_latency(&q), &start);
  for (u32 k = 0; k < q.q.group; k++)
    trace_event(c->m, EV_MMA, &c->cl->ctas[key + k], c->w->index, i->line, start, start + pipe_cycles(&q),
                taddr_col(q.d_taddr), q.q.n);
  async_submit(c->cl, op);
  return c->m->faulted ? STEP_FAULT : STEP_NEXT;
}

OP_TABLE(mma) = {{"MMA", op_mma}, {NULL, NULL}};
