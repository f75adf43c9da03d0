/* The landing of wgmma.mma_async: A and B are read, D is read and written in the registers of four warps
 * (PTX ISA, "Register Fragments and Shared Memory Matrix Layouts"). */
#include "wgmma/wgmma.h"

#define WARP_ROWS 16u

static bool gather(Machine *m, AsyncOp *op, const SmemOperand *o, double *out, u32 row_pitch, u32 k_pitch,
                   const char *name) {
  UnitSet units = {0};
  bool watched = m->opt.check & ~(u32)CHECK_REGISTERS;
  if (!operand_gather(o, out, row_pitch, k_pitch, watched ? &units : NULL)) {
    fault_async(m, op, "smem-operand-bounds", "%s reaches outside the shared memory of CTA %u", name, o->cta->rank);
    return false;
  }
  if (watched)
    units_observe(op, o->cta, &units);
  return true;
}

/* Register r of a thread holds 32 bits of row lane / 4 (+ 8 for odd r), word lane % 4 of the row's half r / 2. */
static void gather_a_registers(const AsyncOp *op, const WgMma *w, double *a) {
  for (u32 k = 0; k < WARPGROUP_WARPS; k++) {
    const u8 *registers = op->warp[k].regs;
    u32 rows[WARP_ROWS][8];
    for (u32 r = 0; r < WGMMA_A_REGISTERS_COUNT; r++) {
      const u32 *lanes = (const u32 *)(registers + op->ins->s[S_A + r]);
      for (u32 l = 0; l < LANES; l++)
        rows[l / 4 + 8 * (r % 2)][4 * (r / 2) + l % 4] = lanes[l];
    }
    for (u32 row = 0; row < WARP_ROWS; row++)
      elements_decode(w->q.a, (const u8 *)rows[row], w->q.neg_a, a + (k * WARP_ROWS + row) * w->q.k);
  }
}

/* D of one warp between registers and rows of 32-bit cells; an f16 result has two columns in a register. */
static void d_move(const AsyncOp *op, const WgMma *w, Warp *warp, u32 (*cells)[PANEL_N], bool store) {
  bool half = w->q.d == D_F16;
  for (u32 r = 0; r < op->ins->nd; r++) {
    u32 *lanes = (u32 *)(warp->regs + op->ins->d[r]);
    for (u32 l = 0; l < LANES; l++) {
      if (!half) {
        u32 *cell = &cells[d_row(l, r)][d_column(l, r)];
        *(store ? &lanes[l] : cell) = store ? *cell : lanes[l];
        continue;
      }
      u32 *low = &cells[d_row(l, 2 * r)][d_column(l, 2 * r)];
      if (store)
        lanes[l] = (low[0] & 0xFFFF) | low[1] << 16;
      else {
        low[0] = lanes[l] & 0xFFFF;
        low[1] = lanes[l] >> 16;
      }
    }
  }
}

static u32 fraction_of(const WgMma *w) {
  return w->q.a == T_E4M3 || w->q.a == T_E5M2 ? WGMMA_FRACTION_FP8 : WGMMA_FRACTION;
}

static u32 kept_of(const WgMma *w) {
  return w->q.a == T_E4M3 || w->q.a == T_E5M2 ? WGMMA_FRACTION_FP8 : F32_FRACTION;
}

/* Row r of warp k of a sparse A; false after a fault. */
static bool sparse_warp_row(Machine *m, AsyncOp *op, const WgMma *w, u32 k, u32 r, const double *a, const double *b,
                            double *acc) {
  const Ins *i = op->ins;
  const u32 *words = (const u32 *)(op->warp[k].regs + i->s[i->ns - 1]);
  SparseLanes lanes = {words, elem_bits(w->q.a), w->q.k, i->form.wgmma.first, false};
  ExactRow exact = {NULL, NULL, NULL, 0, 0, 0, w->q.n, fraction_of(w), kept_of(w)};
  u16 at[PANEL_K];
  u32 wrong = sparse_lanes_row(&lanes, r % 8 * 4, r / 8, at);
  if (wrong != SPARSE_RIGHT) {
    fault_async(m, op, "sparse-metadata",
                "row %u of A: the metadata 0x%x of a chunk names no places in it; that is undefined", k * WARP_ROWS + r,
                wrong);
    return false;
  }
  SparseRow row = {a + (k * WARP_ROWS + r) * w->q.k, b, at};
  sparse_row(&w->q, &row, m->opt.exact_mma && w->q.d != D_S32 ? &exact : NULL, acc);
  return true;
}

static bool compute_warp(Machine *m, AsyncOp *op, const WgMma *w, u32 k, const double *a, const double *b) {
  static _Thread_local double acc[MMA_ROWS * PANEL_N];
  static _Thread_local u32 cells[WARP_ROWS][PANEL_N];
  u32 n = w->q.n;
  bool exact = m->opt.exact_mma && w->q.d != D_S32;
  if (w->accumulate)
    d_move(op, w, &op->warp[k], cells, false);
  for (u32 r0 = 0; r0 < WARP_ROWS; r0 += MMA_ROWS) {
    memset(acc, 0, sizeof acc);
    for (u32 r = 0; r < MMA_ROWS && w->accumulate; r++)
      d_row_load(cells[r0 + r], w->q.d, 0, n, acc + r * PANEL_N);
    if (!exact && !w->sparse)
      mma_rows(acc, a + (k * WARP_ROWS + r0) * w->q.k, b, MMA_ROWS, w->q.k, n);
    for (u32 r = 0; r < MMA_ROWS; r++) {
      ExactRow x = {a, b, NULL, k * WARP_ROWS + r0 + r, 0, 0, n, fraction_of(w), kept_of(w)};
      if (w->sparse && !sparse_warp_row(m, op, w, k, r0 + r, a, b, acc + r * PANEL_N))
        return false;
      if (exact && !w->sparse)
        mma_exact_row(&w->q, &x, acc + r * PANEL_N);
      d_row_store(cells[r0 + r], w->q.d, w->q.saturate, false, n, acc + r * PANEL_N);
    }
  }
  d_move(op, w, &op->warp[k], cells, true);
  return true;
}

void wgmma_land(Machine *m, AsyncOp *op) {
  static _Thread_local double a[WGMMA_M * PANEL_K], b[PANEL_K * PANEL_N];
  const WgMma *w = (const WgMma *)op->payload;
  Cta *cta = op->cta;
  for (u32 k = 0; k < w->k; k++)
    memset(b + k * PANEL_N + w->q.n, 0, (PANEL_N - w->q.n) * sizeof(double));
  SmemOperand left = {cta, w->a, w->q.a, w->q.mn_a, w->q.neg_a, WGMMA_M, w->q.k};
  SmemOperand right = {cta, w->b, w->q.b, w->q.mn_b, w->q.neg_b, w->q.n, w->k};
  if (w->a_registers)
    gather_a_registers(op, w, a);
  else if (!gather(m, op, &left, a, w->q.k, 1, "A"))
    return;
  if (!gather(m, op, &right, b, 1, PANEL_N, "B"))
    return;
  if (m->opt.exact_mma && w->q.d != D_S32 && !w->sparse)
    mma_exact_prepare(&w->q, a, WGMMA_M, b);
  for (u32 k = 0; k < WARPGROUP_WARPS; k++)
    if (!compute_warp(m, op, w, k, a, b))
      return;
  cta->wgmma[w->group].landed = w->number;
  if (op->t_done > cta->wgmma[w->group].t_done)
    cta->wgmma[w->group].t_done = op->t_done;
  m->mma_count++;
  m->mma_flops += 2ull * WGMMA_M * w->q.n * w->q.k;
}
