/* The landing of tcgen05.mma: operands are read, the product is formed and D is written, all at once. */
#include "mma/mma.h"

/* Where D lies in one CTA: layouts A and D (a lane per row), F (M = 64: lanes 0-15 or 16-31 of every
 * partition), B (pair, M = 128: the upper half of N in lanes 64-127), and of .ws D (M = 128), E (M = 64: as B) and
 * G (M = 32: a quarter of N in each partition)  (PTX ISA, "Data Path Layout Organization"; CUTLASS lays its
 * accumulators out so).  A in Tensor Memory lies in the lanes of each part.  Answers the number of parts. */
u32 mma_parts(const Mma *q, Cta *cta, u32 index, Part out[MMA_PARTS]) {
  u32 col = taddr_col(q->d_taddr), rows = q->q.m / q->q.group, n = q->q.n;
  if (q->q.group == 2 && q->q.m == 128) {
    for (u32 h = 0; h < 2; h++)
      out[h] = (Part){cta, index, rows, h * n / 2, (h + 1) * n / 2, col, 64 * h, false};
    return 2;
  }
  if (q->q.stationary) {
    u32 parts = TMEM_LANES / rows;
    for (u32 h = 0; h < parts; h++)
      out[h] = (Part){cta, index, rows, h * n / parts, (h + 1) * n / parts, col, rows * h, false};
    return parts;
  }
  out[0] = (Part){cta, index, rows, 0, n, col, q->q.m == 64 ? taddr_lane(q->d_taddr) : 0, q->q.m == 64};
  return 1;
}

static bool still_there(Machine *m, AsyncOp *op, const Mma *q, Cta *cta, const Part *p) {
  return tmem_columns_landing(m, op, cta, p->col, p->n1 - p->n0, "D") &&
         (!q->a_tmem || tmem_columns_landing(m, op, cta, taddr_col(q->a_taddr), 8, "A")) &&
         (!q->sparse || tmem_columns_landing(m, op, cta, taddr_col(q->meta_taddr), q->meta_cols, "metadata"));
}

static bool watching(const Machine *m) {
  return m->opt.check & ~(u32)CHECK_REGISTERS;
}

static bool gather_smem(Machine *m, AsyncOp *op, const SmemOperand *o, double *out, u32 row_pitch, u32 k_pitch,
                        const char *name) {
  UnitSet units, *touched = NULL;
  if (watching(m)) {
    memset(&units, 0, sizeof units);
    touched = &units;
  }
  if (!operand_gather(o, out, row_pitch, k_pitch, touched)) {
    fault_async(m, op, "smem-operand-bounds", "%s reaches outside the shared memory of CTA %u", name, o->cta->rank);
    return false;
  }
  if (touched)
    units_observe(op, o->cta, touched);
  return true;
}

/* Zeros in the columns of B that the mask names, which has a part for each part of D. */
static void clear_columns(const Mma *q, double *b) {
  u32 width = q->q.n * q->q.m / TMEM_LANES;
  for (u32 n = 0; n < q->q.n; n++) {
    ZeroColumns z = zero_columns(q, n / width);
    u32 at = (n % width + z.start) % (z.zeros + z.used);
    if (z.zeros_first ? at < z.zeros : at >= z.used)
      for (u32 k = 0; k < q->q.k; k++)
        b[k * PANEL_N + n] = 0;
  }
}

/* B: all N columns; each CTA of a pair supplies its half. */
static bool gather_b(Machine *m, AsyncOp *op, const Mma *q, Cta *const *ctas, double *b) {
  u32 n = q->q.n / q->q.group;
  for (u32 k = 0; k < b_depth(q); k++)
    memset(b + k * PANEL_N + q->q.n, 0, (PANEL_N - q->q.n) * sizeof(double));
  for (u32 h = 0; h < q->q.group; h++) {
    SmemOperand o = {ctas[h], q->b, q->q.b, q->q.mn_b, q->q.neg_b, n, b_depth(q)};
    if (!gather_smem(m, op, &o, b + h * n, 1, PANEL_N, "B"))
      return false;
  }
  if (q->zeros)
    clear_columns(q, b);
  return true;
}

/* Cells of a part's rows, as ranges of adjacent lanes. */
typedef void (*LaneRange)(Ctx *c, AsyncOp *op, const Part *p, u32 lane, u32 lanes, void *arg);

static void each_lane_range(Ctx *c, AsyncOp *op, const Part *p, LaneRange f, void *arg) {
  u32 step = p->half_lanes ? 16 : p->rows;
  for (u32 r = 0; r < p->rows; r += step)
    f(c, op, p, part_lane(p, r), step, arg);
}

static void see_a(Ctx *c, AsyncOp *op, const Part *p, u32 lane, u32 lanes, void *arg) {
  u32 col = *(u32 *)arg;
  see_tmem(NULL, op, p->cta, lane, lanes, col, 8, ACC_READ);
  tmem_expect(c, p->cta, lane, lanes, col, 8, CELL_FULL, "A of tcgen05.mma");
}

static void gather_a_tmem(Ctx *c, AsyncOp *op, const Mma *q, const Part *p, double *a) {
  u32 col = taddr_col(q->a_taddr);
  for (u32 r = 0; r < p->rows; r++)
    elements_decode(q->q.a, (const u8 *)(tmem_row(p->cta, part_lane(p, r)) + col), q->q.neg_a, a + r * q->q.k);
  each_lane_range(c, op, p, see_a, &col);
}

static bool lane_off(const Mma *q, const Part *p, u32 lane) {
  return q->masked && (q->off_lanes[4 * p->index + lane / 32] >> (lane & 31) & 1);
}

static void see_d(Ctx *c, AsyncOp *op, const Part *p, u32 lane, u32 lanes, void *arg) {
  const Mma *q = arg;
  u32 n = p->n1 - p->n0;
  u8 state = q->q.d == D_F16 ? CELL_LOW : CELL_FULL;
  for (u32 l = lane, end; l < lane + lanes; l = end) {
    bool off = lane_off(q, p, l);
    for (end = l + 1; end < lane + lanes && lane_off(q, p, end) == off; end++) {
    }
    if (off)
      continue;
    if (q->accumulate)
      tmem_expect(c, p->cta, l, end - l, p->col, n, state, "D of tcgen05.mma with enable-input-d");
    see_tmem(NULL, op, p->cta, l, end - l, p->col, n, ACC_WRITE); /* a race of the read is one of the write, too */
    tmem_mark(p->cta, l, end - l, p->col, n, state);
  }
}

/* `at`: where the kept elements of a sparse A are, by rows. */
static void compute_part(Machine *m, const Mma *q, const Part *p, const double *a, const double *b, const Scales *sf,
                         u16 (*at)[PANEL_K]) {
  static _Thread_local double acc[MMA_ROWS * PANEL_N];
  u32 n = p->n1 - p->n0;
  bool exact = m->opt.exact_mma && q->q.d != D_S32;
  if (exact && !q->sparse)
    mma_exact_prepare(&q->q, a, p->rows, b);
  for (u32 r0 = 0; r0 < p->rows; r0 += MMA_ROWS) {
    for (u32 r = 0; r < MMA_ROWS; r++) {
      if (q->accumulate)
        d_row_load(tmem_row(p->cta, part_lane(p, r0 + r)) + p->col, q->q.d, q->scale_d, n, acc + r * PANEL_N);
      else
        memset(acc + r * PANEL_N, 0, PANEL_N * sizeof(double));
    }
    if (!exact && !q->sparse)
      mma_rows(acc, a + r0 * q->q.k, b + p->n0, MMA_ROWS, q->q.k, n);
    for (u32 r = 0; r < MMA_ROWS; r++) {
      u32 lane = part_lane(p, r0 + r);
      if (lane_off(q, p, lane))
        continue;
      ExactRow x = {a, b, sf, q->sparse ? 0 : r0 + r, r0 + r, p->n0, n, SM100_FRACTION, F32_FRACTION};
      if (q->sparse)
        sparse_row(&q->q, &(SparseRow){a + (r0 + r) * q->q.k, b, at[r0 + r]}, exact ? &x : NULL, acc + r * PANEL_N);
      else if (exact)
        mma_exact_row(&q->q, &x, acc + r * PANEL_N);
      d_row_store(tmem_row(p->cta, lane) + p->col, q->q.d, q->q.saturate, m->opt.poison, n, acc + r * PANEL_N);
    }
  }
}

static bool run_cta(Machine *m, AsyncOp *op, const Mma *q, Cta *cta, u32 index, double *b) {
  static _Thread_local double a[128 * PANEL_K], b_scaled[MOST_K * PANEL_N];
  static _Thread_local Scales scales;
  static _Thread_local u16 at[TMEM_LANES][PANEL_K];
  Part parts[MMA_PARTS];
  Ctx c = landing_ctx(m, op);
  u32 n_parts = mma_parts(q, cta, index, parts);
  bool scaled = kind_block_scaled(q->q.kind), exact = m->opt.exact_mma;
  if (!still_there(m, op, q, cta, &parts[0]) || (scaled && !scales_read(m, op, q, cta, &scales)))
    return false;
  if (q->sparse && !sparse_tmem(m, op, q, cta, at))
    return false;
  SmemOperand o = {cta, q->a, q->q.a, q->q.mn_a, q->q.neg_a, parts[0].rows, q->q.k};
  if (!q->a_tmem && !gather_smem(m, op, &o, a, q->q.k, 1, "A"))
    return false;
  for (u32 k = 0; k < n_parts; k++) {
    if (q->a_tmem)
      gather_a_tmem(&c, op, q, &parts[k], a);
    if (scaled && !exact) {
      memcpy(b_scaled, b, b_depth(q) * PANEL_N * sizeof(double));
      scales_apply(&scales, q, parts[k].rows, a, b_scaled);
    }
    each_lane_range(&c, op, &parts[k], see_d, (void *)q);
    compute_part(m, q, &parts[k], a, scaled && !exact ? b_scaled : b, scaled ? &scales : NULL, at);
  }
  return true;
}

void mma_land(Machine *m, AsyncOp *op) {
  static _Thread_local double b[MOST_K * PANEL_N];
  const Mma *q = (const Mma *)op->payload;
  Cluster *cl = op->cta->cl;
  u32 first = q->q.group == 2 ? op->cta->rank & ~1u : op->cta->rank;
  Cta *ctas[2] = {&cl->ctas[first], q->q.group == 2 ? &cl->ctas[first + 1] : NULL};
  for (u32 h = 0; h < q->q.group; h++)
    if (ctas[h]->exited && ctas[h] != op->cta) {
      fault_async(m, op, "pair-exited", "peer CTA %u has exited when the MMA executes", ctas[h]->rank);
      return;
    }
  if (!gather_b(m, op, q, ctas, b))
    return;
  for (u32 h = 0; h < q->q.group; h++)
    if (!run_cta(m, op, q, ctas[h], h, b))
      return;
  m->mma_count++;
  m->mma_flops += 2ull * q->q.m * q->q.n * q->q.k;
}
