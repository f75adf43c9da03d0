/* Scale factors of the block-scaled kinds (PTX ISA, "Block Scaling", "Scale factor layouts").
 *
 * Row r of A (column n of B) finds its factors in lane r % 32, column base + r / 32, as bytes of the
 * 32-bit cell; the program keeps four copies, one per 32-lane partition.  One factor per K block of
 * 32 elements (mxf8f6f4, mxf4) or 16 (mxf4nvf4 .block16), of a sparse A those that are kept: twice as many of B
 * (CUTLASS, SFVecSize in the traits of SM100_MMA_MXF8F6F4_SS_SPARSE and SM100_MMA_MXF4NVF4_SS_SPARSE). */
#include "mma/mma.h"

static u32 columns_for(u32 rows) {
  return (rows + 31) / 32;
}

Step scales_check(Ctx *c, const Mma *q) {
  Step s;
  u32 rows = q->q.m / q->q.group;
  if (q->q.group == 2 && q->q.m == 128)
    return fault(c, "unsupported", "scale factor layout of block-scaled cta_group::2 with M = 128");
  if (taddr_lane(q->sfa_taddr) || taddr_lane(q->sfb_taddr))
    return fault(c, "invalid-datapath-alignment", "scale factors start at lane %u (A) and %u (B), not 0",
                 taddr_lane(q->sfa_taddr), taddr_lane(q->sfb_taddr));
  if (q->sf_block == 16 && (q->q.sfa_id || q->q.sfb_id))
    return fault(c, "instr-desc-scale-id", "four factors per row need scale factor ids 0");
  if ((s = tmem_columns(c, c->cta, taddr_col(q->sfa_taddr), columns_for(rows), "scale factors of A")) != STEP_NEXT)
    return s;
  return tmem_columns(c, c->cta, taddr_col(q->sfb_taddr), columns_for(q->q.n), "scale factors of B");
}

/* Cell of row r; reports copies that differ between the partitions. */
static u32 factor_cell(Ctx *c, Cta *cta, u32 col, u32 r, const char *name) {
  u32 lane = r % 32, k = col + r / 32, value = tmem_row(cta, lane)[k];
  for (u32 p = 1; p < 4; p++)
    if (tmem_row(cta, lane + 32 * p)[k] != value)
      finding(c, 0, "scale-factors-differ",
              "%s: row %u is 0x%08x in partition 0 and 0x%08x in partition %u; all four need it", name, r, value,
              tmem_row(cta, lane + 32 * p)[k], p);
  return value;
}

static double factor_value(const Mma *q, u32 cell, u32 id, u32 block) {
  u8 byte = (u8)(cell >> 8 * (id + block));
  return q->q.ue8m0 ? ue8m0_value(byte) : e4m3_value(byte & 0x7F);
}

bool scales_read(Machine *m, AsyncOp *op, const Mma *q, Cta *cta, Scales *out) {
  Ctx c = landing_ctx(m, op);
  u32 ca = taddr_col(q->sfa_taddr), cb = taddr_col(q->sfb_taddr), rows = q->q.m / q->q.group, n = q->q.n;
  if (!tmem_columns_landing(m, op, cta, ca, columns_for(rows), "scale factors of A") ||
      !tmem_columns_landing(m, op, cta, cb, columns_for(n), "scale factors of B"))
    return false;
  see_tmem(NULL, op, cta, 0, TMEM_LANES, ca, columns_for(rows), ACC_READ);
  see_tmem(NULL, op, cta, 0, TMEM_LANES, cb, columns_for(n), ACC_READ);
  tmem_expect(&c, cta, 0, TMEM_LANES, ca, columns_for(rows), CELL_FULL, "scale factors of A");
  tmem_expect(&c, cta, 0, n < 32 ? n : TMEM_LANES, cb, columns_for(n), CELL_FULL, "scale factors of B");
  memset(out, 0, sizeof *out);
  out->blocks = q->q.k / q->sf_block;
  for (u32 r = 0; r < rows; r++) {
    u32 cell = factor_cell(&c, cta, ca, r, "scale factors of A");
    for (u32 j = 0; j < out->blocks; j++)
      out->a[r][j] = factor_value(q, cell, q->q.sfa_id, j);
  }
  for (u32 r = 0; r < n; r++) {
    u32 cell = factor_cell(&c, cta, cb, r, "scale factors of B");
    for (u32 j = 0; j < out->blocks; j++)
      out->b[j][r] = factor_value(q, cell, q->q.sfb_id, j);
  }
  return true;
}

/* Multiply the panels by their factors; elements of 4 to 8 bits times powers of two or 4-bit factors are exact. */
void scales_apply(const Scales *sf, const Mma *q, u32 rows, double *a, double *b) {
  u32 k = q->q.k, depth = b_depth(q);
  for (u32 r = 0; r < rows; r++)
    for (u32 i = 0; i < k; i++)
      a[r * k + i] *= sf->a[r][i / (k / sf->blocks)];
  for (u32 i = 0; i < depth; i++)
    for (u32 j = 0; j < q->q.n; j++)
      b[i * PANEL_N + j] *= sf->b[i / (depth / sf->blocks)][j];
}
