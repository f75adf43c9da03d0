/* wgmma at issue: mma_async, fence, commit_group, wait_group (PTX ISA, "Asynchronous Warpgroup Level Matrix
 * Multiply-Accumulate Instructions").
 *
 * The n-th wgmma of each of the four warps of a warpgroup are one operation.  It starts when the fourth warp issues
 * it, and lands in the order of issue; a warp learns of its end from wait_group. */
#include "wgmma/wgmma.h"

static u32 warpgroup(const Ctx *c) {
  return c->w->index / WARPGROUP_WARPS;
}

/* Four warps of 32 threads that have not exited. */
static Step whole_warpgroup(Ctx *c) {
  Step s = whole_warp(c);
  if (s != STEP_NEXT)
    return s;
  u32 first = warpgroup(c) * WARPGROUP_WARPS;
  for (u32 k = first; k < first + WARPGROUP_WARPS; k++) {
    if (k >= c->cta->n_warps || c->cta->warps[k].lanes != NONE32)
      return fault(c, "wgmma-warpgroup", "the warpgroup of warps %u..%u is not whole: the CTA ends before thread %u",
                   first, first + WARPGROUP_WARPS - 1, (k + 1) * LANES - 1);
    if (c->cta->warps[k].exited)
      return fault(c, "wgmma-warpgroup", "warp %u of the warpgroup of warps %u..%u has exited", k, first,
                   first + WARPGROUP_WARPS - 1);
  }
  return STEP_NEXT;
}

static Step uniform64(Ctx *c, u32 slot, const char *operand, u64 *value) {
  const u64 *r = R64(c, slot);
  *value = r[0];
  for (u32 l = 1; l < LANES; l++)
    if (r[l] != *value)
      return fault(c, "not-uniform",
                   "%s is 0x%llx in lane 0 and 0x%llx in lane %u; it must be the same in the warpgroup", operand,
                   (unsigned long long)*value, (unsigned long long)r[l], l);
  return STEP_NEXT;
}

static Step smem_operand(Ctx *c, const WgMma *w, bool is_a, SmemDesc *out) {
  u64 bits = is_a ? w->a_bits : w->b_bits;
  const char *name = is_a ? "A descriptor" : "B descriptor";
  const Rule *rule = smem_desc_decode_sm90(bits, out);
  if (rule)
    return fault(c, rule->code, "%s 0x%llx: %s", name, (unsigned long long)bits, rule->text);
  if (w->sparse && !is_a && wide_k_unknown(out, w->q.mn_b))
    return fault(c, "unsupported", "a sparse A, and B with the 32-byte swizzle, K-major");
  SmemOperand o = {c->cta,
                   *out,
                   is_a ? w->q.a : w->q.b,
                   is_a ? w->q.mn_a : w->q.mn_b,
                   false,
                   is_a ? WGMMA_M : w->q.n,
                   is_a ? w->q.k : w->k};
  u32 end = out->start + operand_extent(&o);
  if (out->start < SMEM_RESERVED || end > c->cta->smem_bytes)
    return fault(c, "smem-operand-bounds", "%s: bytes 0x%x..0x%x of CTA %u lie outside its shared memory (0x%x..0x%x)",
                 name, out->start, end - 1, c->cta->rank, SMEM_RESERVED, c->cta->smem_bytes - 1);
  return STEP_NEXT;
}

static Step decode(Ctx *c, const Ins *i, WgMma *w) {
  static const ElemType element[] = {T_F16, T_BF16, T_TF32, T_E4M3, T_E5M2, T_U8, T_S8};
  static const DType result[] = {D_F16, D_F32, D_S32};
  const WgmmaForm *f = &i->form.wgmma;
  Step s;
  w->q = (InstrDesc){.kind = f->d == WG_RESULT_S32 ? KIND_I8 : KIND_F16,
                     .group = 1,
                     .a = element[f->a],
                     .b = element[f->b],
                     .d = result[f->d],
                     .m = WGMMA_M,
                     .n = f->n,
                     .k = 256 / elem_bits(element[f->a]),
                     .neg_a = f->flags & WGMMA_NEGATE_A,
                     .neg_b = f->flags & WGMMA_NEGATE_B,
                     .mn_a = f->flags & WGMMA_TRANSPOSE_A,
                     .mn_b = f->flags & WGMMA_TRANSPOSE_B,
                     .saturate = f->flags & WGMMA_SATURATE};
  w->a_registers = f->flags & WGMMA_A_REGISTERS;
  w->sparse = f->flags & WGMMA_SPARSE;
  w->k = w->sparse ? 2 * w->q.k : w->q.k;
  u32 enable = PRED(c, i->s[S_SCALE_D]);
  if (enable && enable != NONE32)
    return fault(c, "not-uniform", "scale-d is set in lanes 0x%x only; it must be the same in the warpgroup", enable);
  w->accumulate = !!enable ^ !!(f->flags & WGMMA_NOT_SCALE_D);
  if ((s = uniform64(c, i->s[S_B], "B descriptor", &w->b_bits)) != STEP_NEXT ||
      (s = smem_operand(c, w, false, &w->b)) != STEP_NEXT || w->a_registers)
    return s;
  if ((s = uniform64(c, i->s[S_A], "A descriptor", &w->a_bits)) != STEP_NEXT)
    return s;
  return smem_operand(c, w, true, &w->a);
}

/* D is a source only when it is accumulated to, so the general check of sources leaves it out. */
static void d_written(Ctx *c, const Ins *i) {
  for (u32 k = 0; c->w->valid && k < i->nd; k++)
    if (c->w->valid[slot_index(i->d[k])] != NONE32) {
      finding(c, 0, "uninitialised-register", "register %u of D is accumulated to before it was written", k);
      return;
    }
}

/* The warp's next wgmma: the same as that of the warps which came before it. */
static Step join(Ctx *c, const Ins *i, const WgMma *mine, AsyncOp *op) {
  WgMma *w = (WgMma *)op->payload;
  if (op->ins != i)
    return fault(
        c, "wgmma-warpgroup",
        "warps of one warpgroup diverge: their wgmma number %u is the one at PTX line %u in one and at line %u "
        "in another",
        w->number, op->line, i->line);
  if (w->a_bits != mine->a_bits || w->b_bits != mine->b_bits || w->accumulate != mine->accumulate)
    return fault(c, "not-uniform", "descriptors or scale-d differ between the warps of the warpgroup");
  check_async_join(c, op);
  w->joined++;
  return STEP_NEXT;
}

static void start_next(Ctx *c, u32 g) {
  Cta *cta = c->cta;
  AsyncOp *op = cta->wgmma[g].ahead[0];
  u64 start, cycles = ((const WgMma *)op->payload)->q.n / 2;
  memmove(cta->wgmma[g].ahead, cta->wgmma[g].ahead + 1, --cta->wgmma[g].n * sizeof(AsyncOp *));
  cta->wgmma[g].started++;
  op->t_issue = c->sp->t > op->t_issue ? c->sp->t : op->t_issue;
  pipe_occupy(c, op, cta->rank, cycles, 0, &start);
  trace_event(c->m, EV_MMA, cta, op->warp->index, op->line, start, start + cycles, 0,
              ((const WgMma *)op->payload)->q.n);
  async_submit(c->cl, op);
}

/* d: registers.  s: scale-d, B descriptor, A descriptor or the registers of A, metadata of a sparse A. */
static Step op_mma_async(Ctx *c, const Ins *i) {
  u32 g = warpgroup(c);
  WgMma mine = {.group = g};
  Step s = whole_warpgroup(c);
  if (s != STEP_NEXT || (s = decode(c, i, &mine)) != STEP_NEXT)
    return s;
  u32 place = c->w->wgmma_issued++ - c->cta->wgmma[g].started;
  mine.number = c->w->wgmma_issued;
  if (mine.accumulate)
    d_written(c, i);
  see_wgmma(c, i, mine.number);
  if (place == c->cta->wgmma[g].n) {
    AsyncOp *op = async_new(c, FIFO_WGMMA, c->cta->rank * MAX_WARPGROUPS + g, wgmma_land, sizeof mine);
    op->warp = &c->cta->warps[g * WARPGROUP_WARPS];
    mine.joined = 1;
    memcpy(op->payload, &mine, sizeof mine);
    c->cta->wgmma[g].ahead = mem_grow(c->m, c->cta->wgmma[g].ahead, place, &c->cta->wgmma[g].cap, sizeof(AsyncOp *));
    c->cta->wgmma[g].ahead[c->cta->wgmma[g].n++] = op;
  } else if ((s = join(c, i, &mine, c->cta->wgmma[g].ahead[place])) != STEP_NEXT)
    return s;
  if (((const WgMma *)c->cta->wgmma[g].ahead[0]->payload)->joined == WARPGROUP_WARPS)
    start_next(c, g);
  return c->m->faulted ? STEP_FAULT : STEP_NEXT;
}

static Step op_wgmma_fence(Ctx *c, const Ins *i) {
  (void)i;
  Step s = whole_warp(c);
  if (s == STEP_NEXT)
    see_wgmma_fence(c);
  return s;
}

static Step op_wgmma_commit(Ctx *c, const Ins *i) {
  (void)i;
  Step s = whole_warp(c);
  if (s == STEP_NEXT)
    c->w->wgmma_group_end[c->w->wgmma_groups++ % WGMMA_RING] = c->w->wgmma_issued;
  return s;
}

/* imm: groups that may stay pending. */
static Step op_wgmma_wait(Ctx *c, const Ins *i) {
  Warp *w = c->w;
  u32 keep = (u32)i->imm, g = warpgroup(c);
  Step s = whole_warp(c);
  if (s != STEP_NEXT)
    return s;
  if (keep >= WGMMA_RING)
    return fault(c, "wgmma-group", "wait_group %u: at most %u groups are remembered", keep, WGMMA_RING - 1);
  u32 number = w->wgmma_groups > keep ? w->wgmma_group_end[(w->wgmma_groups - keep - 1) % WGMMA_RING] : 0;
  if (c->cta->wgmma[g].landed < number)
    return block(c, WAIT_WGMMA, c->cta->rank, c->cta->wgmma[g].started, number);
  if (number > w->wgmma_waited) {
    w->wgmma_waited = number;
    if (!keep && c->cta->wgmma[g].t_done > c->sp->t)
      c->sp->t = c->cta->wgmma[g].t_done;
    see_wgmma_wait(c, number);
  }
  return STEP_NEXT;
}

OP_TABLE(wgmma) = {{"WGMMA", op_mma_async},
                   {"WGMMA_FENCE", op_wgmma_fence},
                   {"WGMMA_COMMIT", op_wgmma_commit},
                   {"WGMMA_WAIT", op_wgmma_wait},
                   {NULL, NULL}};
