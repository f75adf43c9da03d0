/* Matrix operations of one warp in registers: mma.sync and movmatrix (PTX ISA, "Warp Level Matrix Multiply-Accumulate
 * Instructions").
 *
 * All fragments follow one pattern.  A register holds 32 bits of a row of A (of a column of B): those of lane l
 * belong to row l / 4 and are word l % 4 of the row's next 16 bytes; with 16 rows of A, odd registers hold rows 8 to
 * 15.  D has two neighbours in a row: row l / 4 (+ 8 from element 2 on), columns 2 (l % 4) and one more.  f64 is one
 * value per lane and register in the same places. */
#include "mma/mma.h"
#include <math.h>

#define SYNC_N 8u
#define ROW_BYTES 64u

typedef struct {
  const MmaSyncForm *f;
  u32 a_registers, b_registers, kept; /* kept: elements of a row of A */
  const u32 *a, *b, *c;
} Fragments;

static u32 bits_of(u32 type) {
  static const u8 bits[] = {16, 16, 32, 8, 8, 8, 8, 4, 4, 64, 1};
  return bits[type];
}

static Fragments fragments(const Ins *i) {
  Fragments x = {.f = &i->form.mma_sync, .a = i->s};
  x.kept = x.f->flags & SYNC_FLAG_SPARSE ? x.f->k / 2 : x.f->k;
  u32 width = x.f->a == SYNC_F64 ? 64 : 32;
  x.b_registers = bits_of(x.f->a) * x.f->k * SYNC_N / (LANES * width);
  x.a_registers = bits_of(x.f->a) * x.kept * x.f->m / (LANES * width);
  x.b = x.a + x.a_registers;
  x.c = x.b + x.b_registers;
  return x;
}

static u32 d_row(u32 lane, u32 e) {
  return lane / 4 + 8 * (e / 2);
}

static u32 d_column(u32 lane, u32 e) {
  return 2 * (lane % 4) + e % 2;
}

/* ---- elements ------------------------------------------------------------------------------------- */
/* The bytes of rows of A, or of columns of B; `halves`: registers that share 16 bytes of K. */
static void gather(const Ctx *c, const u32 *slots, u32 count, u32 halves, u8 rows[16][ROW_BYTES]) {
  memset(rows, 0, 16 * ROW_BYTES);
  for (u32 r = 0; r < count; r++)
    for (u32 l = 0; l < LANES; l++)
      memcpy(rows[l / 4 + 8 * (r % halves)] + 16 * (r / halves) + 4 * (l % 4), &R32(c, slots[r])[l], 4);
}

static void decode(u32 type, const u8 *row, double *out) {
  static const ElemType element[] = {T_F16, T_BF16, T_TF32, T_E4M3, T_E5M2, T_U8, T_S8};
  if (type < SYNC_U4) {
    for (u32 part = 0; part < ROW_BYTES / 32; part++)
      elements_decode(element[type], row + 32 * part, false, out + part * 256 / bits_of(type));
    return;
  }
  for (u32 k = 0; k < 2 * ROW_BYTES; k++) {
    i32 nibble = row[k / 2] >> 4 * (k % 2) & 15;
    out[k] = type == SYNC_S4 && nibble > 7 ? nibble - 16 : nibble;
  }
}

static void panels(const Ctx *c, const Fragments *x, double *a, double *b) {
  u8 rows[16][ROW_BYTES];
  double column[2 * ROW_BYTES], row[2 * ROW_BYTES];
  u32 k = x->f->k;
  gather(c, x->a, x->a_registers, x->f->m / 8, rows);
  for (u32 r = 0; r < x->f->m; r++) {
    decode(x->f->a, rows[r], row);
    memcpy(a + r * x->kept, row, x->kept * sizeof(double));
  }
  gather(c, x->b, x->b_registers, 1, rows);
  for (u32 n = 0; n < SYNC_N; n++) {
    decode(x->f->b, rows[n], column);
    for (u32 j = 0; j < k; j++)
      b[j * PANEL_N + n] = column[j];
  }
}

/* ---- C and D -------------------------------------------------------------------------------------- */
/* Rows of 32-bit cells from registers, or back; an f16 register has two columns. */
static void d_move(const Ctx *c, const u32 *slots, u32 count, DType d, u32 (*cells)[SYNC_N], bool store) {
  for (u32 r = 0; r < count; r++)
    for (u32 l = 0; l < LANES; l++) {
      u32 *reg = &R32(c, slots[r])[l], e = d == D_F16 ? 2 * r : r;
      u32 *cell = &cells[d_row(l, e)][d_column(l, e)];
      if (d != D_F16)
        *(store ? reg : cell) = store ? *cell : *reg;
      else if (store)
        *reg = (cell[0] & 0xFFFF) | cell[1] << 16;
      else {
        cell[0] = *reg & 0xFFFF;
        cell[1] = *reg >> 16;
      }
    }
}

static Step sparse_fault(Ctx *c, u32 nibble, u32 row) {
  return fault(
      c, "sparse-metadata",
      "row %u of A: the metadata 0x%x of a chunk names no places in it, or not in ascending order; that is undefined",
      row, nibble);
}

/* The rows of a sparse A; D stays as it is where metadata has no meaning. */
static Step multiply_sparse(Ctx *c, const Ins *i, const Fragments *x, const InstrDesc *q, double *a, double *b,
                            double *acc) {
  const u32 *words = R32(c, i->s[i->ns - 1]);
  SparseLanes lanes = {words, bits_of(x->f->a), x->kept, x->f->first, x->f->flags & SYNC_FLAG_ORDERED};
  ExactRow exact = {NULL, NULL, NULL, 0, 0, 0, SYNC_N, SM100_FRACTION, F32_FRACTION};
  for (u32 r = 0; r < 16; r++) {
    u16 at[PANEL_K];
    u32 wrong = sparse_lanes_row(&lanes, r % 8 * 4, r / 8, at);
    if (wrong != SPARSE_RIGHT)
      return sparse_fault(c, wrong, r);
    sparse_row(q, &(SparseRow){a + r * x->kept, b, at}, c->m->opt.exact_mma && q->d != D_S32 ? &exact : NULL,
               acc + r * PANEL_N);
  }
  return STEP_NEXT;
}

static Step multiply(Ctx *c, const Ins *i, const Fragments *x) {
  static const ElemType element[] = {T_F16, T_BF16, T_TF32, T_E4M3, T_E5M2};
  static const DType result[] = {D_F16, D_F32, D_S32};
  static _Thread_local double a[16 * PANEL_K], b[MOST_K * PANEL_N], acc[16 * PANEL_N];
  u32 cells[16][SYNC_N], m = x->f->m;
  InstrDesc q = {.kind = KIND_F16, .d = result[x->f->d], .m = m, .n = SYNC_N, .k = x->kept};
  panels(c, x, a, b);
  d_move(c, x->c, i->nd, q.d, cells, false);
  for (u32 r = 0; r < m; r++)
    d_row_load(cells[r], q.d, 0, SYNC_N, acc + r * PANEL_N);
  if (q.d != D_S32) {
    q.a = element[x->f->a];
    q.b = element[x->f->b];
  }
  Step s = x->f->flags & SYNC_FLAG_SPARSE ? multiply_sparse(c, i, x, &q, a, b, acc) : STEP_NEXT;
  if (s != STEP_NEXT)
    return s;
  bool exact = c->m->opt.exact_mma && q.d != D_S32;
  if (exact && !(x->f->flags & SYNC_FLAG_SPARSE)) {
    mma_exact_prepare(&q, a, m, b);
    for (u32 r = 0; r < m; r++)
      mma_exact_row(&q, &(ExactRow){a, b, NULL, r, 0, 0, SYNC_N, SM100_FRACTION, F32_FRACTION}, acc + r * PANEL_N);
  } else if (!(x->f->flags & SYNC_FLAG_SPARSE))
    mma_rows(acc, a, b, m, q.k, SYNC_N);
  for (u32 r = 0; r < m; r++)
    d_row_store(cells[r], q.d, x->f->flags & SYNC_FLAG_SATURATE, false, SYNC_N, acc + r * PANEL_N);
  d_move(c, i->d, i->nd, q.d, cells, true);
  return STEP_NEXT;
}

/* Single bits: the ones of the and, or of the exclusive or, of a row and a column are counted. */
static void count_ones(Ctx *c, const Ins *i, const Fragments *x) {
  u8 a[16][ROW_BYTES], b[16][ROW_BYTES];
  u32 cells[16][SYNC_N];
  gather(c, x->a, x->a_registers, x->f->m / 8, a);
  gather(c, x->b, x->b_registers, 1, b);
  d_move(c, x->c, i->nd, D_S32, cells, false);
  for (u32 r = 0; r < x->f->m; r++)
    for (u32 n = 0; n < SYNC_N; n++)
      for (u32 k = 0; k < x->f->k / 8u; k++)
        cells[r][n] += (u32)__builtin_popcount(x->f->flags & SYNC_FLAG_EXCLUSIVE ? a[r][k] ^ b[n][k]
                                                                                 : a[r][k] & b[n][k]);
  d_move(c, i->d, i->nd, D_S32, cells, true);
}

/* f64: a chain of fused multiply-adds in the order of K, each rounded to nearest. */
static void multiply_f64(Ctx *c, const Ins *i, const Fragments *x) {
  double a[16][16], b[16][SYNC_N], d[16][SYNC_N];
  u32 halves = x->f->m / 8;
  for (u32 l = 0; l < LANES; l++) {
    for (u32 r = 0; r < x->a_registers; r++)
      a[l / 4 + 8 * (r % halves)][4 * (r / halves) + l % 4] = RF64(c, x->a[r])[l];
    for (u32 r = 0; r < x->b_registers; r++)
      b[4 * r + l % 4][l / 4] = RF64(c, x->b[r])[l];
    for (u32 e = 0; e < i->nd; e++)
      d[d_row(l, e)][d_column(l, e)] = RF64(c, x->c[e])[l];
  }
  for (u32 r = 0; r < x->f->m; r++)
    for (u32 n = 0; n < SYNC_N; n++)
      for (u32 k = 0; k < x->f->k; k++)
        d[r][n] = fma(a[r][k], b[k][n], d[r][n]);
  for (u32 l = 0; l < LANES; l++)
    for (u32 e = 0; e < i->nd; e++)
      RF64(c, i->d[e])[l] = d[d_row(l, e)][d_column(l, e)];
}

/* d: D; s: A, B, C, and the metadata of a sparse A. */
static Step op_mma_sync(Ctx *c, const Ins *i) {
  Step s = whole_warp(c);
  if (s != STEP_NEXT)
    return s;
  Fragments x = fragments(i);
  if (x.f->a == SYNC_F64)
    multiply_f64(c, i, &x);
  else if (x.f->a == SYNC_B1)
    count_ones(c, i, &x);
  else
    s = multiply(c, i, &x);
  c->m->mma_count++;
  c->m->mma_flops += 2ull * x.f->m * SYNC_N * x.kept;
  return s;
}

/* movmatrix: lane l holds two neighbours of row l / 4 of an 8x8 matrix, and of its transpose. */
static Step op_movmatrix(Ctx *c, const Ins *i) {
  Step s = whole_warp(c);
  if (s != STEP_NEXT)
    return s;
  u16 matrix[8][8];
  for (u32 l = 0; l < LANES; l++)
    memcpy(&matrix[l / 4][2 * (l % 4)], &R32(c, i->s[0])[l], 4);
  for (u32 l = 0; l < LANES; l++)
    R32(c, i->d[0])[l] = matrix[2 * (l % 4)][l / 4] | (u32)matrix[2 * (l % 4) + 1][l / 4] << 16;
  return STEP_NEXT;
}

/* What .sync.aligned asks of an instruction that other operations carry out. */
static Step op_aligned(Ctx *c, const Ins *i) {
  (void)i;
  return whole_warp(c);
}

OP_TABLE(sync_mma) = {{"MMA_SYNC", op_mma_sync}, {"MOVMATRIX", op_movmatrix}, {"ALIGNED", op_aligned}, {NULL, NULL}};
