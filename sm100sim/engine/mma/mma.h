/* One tcgen05.mma between issue and landing, and what the files of this folder give each other. */
#ifndef SM100SIM_MMA_H
#define SM100SIM_MMA_H
#include "tmem/tmem.h"
#include "mma/operand.h"

/* Modelled times (SemiAnalysis microbench-blackwell on a B200).  One instruction holds the tensor pipe N/2 cycles for
 * M = 128 and M = 64 (one CTA) and M = 256 (pair), N/4 for M = 128 (pair).  Latency from the end of the last
 * instruction to the arrival that a waiting thread observes: fixed part below, by A source and number of CTAs. */
enum {
  MMA_FIXED_SS_1 = 136,
  MMA_FIXED_TS_1 = 104,
  MMA_FIXED_SS_2 = 170,
  MMA_FIXED_TS_2 = 138,
  MMA_FIXED_SS_M64 = 120,
  SMEM_BYTES_PER_CYCLE = 128,
  COPY_FIXED = 64 /* not published: about half of an MMA */
};

#ifdef __AVX512F__
#define MMA_ROWS 8u /* rows of the kernel's register block, whose width is two vectors */
#else
#define MMA_ROWS 4u
#endif

typedef struct {
  InstrDesc q;
  SmemDesc a, b;
  bool a_tmem, accumulate, masked, sparse;
  u32 a_taddr, d_taddr, scale_d;      /* D is multiplied by 2^-scale_d first */
  u32 off_lanes[8];                   /* lanes whose D row stays as it is: 4 words per CTA, even CTA first */
  u32 sfa_taddr, sfb_taddr, sf_block; /* block-scaled kinds: addresses, elements of K per scale factor */
  u32 meta_taddr, meta_cols;          /* of a sparse A: Tensor Memory columns with metadata */
  u64 zeros;                          /* of .ws: the zero-column mask descriptor, or 0 */
} Mma;

#define MMA_PARTS 4u

/* How many columns of B in turn are 0 and are used, and how many of the first turn are left out (PTX ISA, "Zero-Column
 * Mask Descriptor": its examples, to which its table gives the two spans the other way round). */
typedef struct {
  u32 zeros, used, start;
  bool zeros_first;
} ZeroColumns;

static inline ZeroColumns zero_columns(const Mma *q, u32 part) {
  return (ZeroColumns){(q->zeros >> 40 & 255) + 1, (q->zeros >> 48 & 255) + 1, q->zeros >> 8 * part & 255,
                       q->zeros >> (32 + part) & 1};
}

static inline u32 b_depth(const Mma *q) { /* elements of B along K; q.k are those of A */
  return q->sparse ? 2 * q->q.k : q->q.k;
}

/* A block of D: rows of this CTA, columns [n0, n1), where it lies in Tensor Memory. */
typedef struct {
  Cta *cta;
  u32 index, rows, n0, n1, col, lane0;
  bool half_lanes;
} Part;

static inline u32 part_lane(const Part *p, u32 r) {
  return p->half_lanes ? r % 16 + 32 * (r / 16) + p->lane0 : r + p->lane0;
}

/* Scale factors of one CTA: a[row][block of K], b[block of K][n]. */
typedef struct {
  u32 blocks;
  double a[128][4], b[4][PANEL_N];
} Scales;

/* acc[r][n] += sum over k of a[r][k] * b[k][n]; products exact, sums in double (kernel.c). */
void mma_rows(double *acc, const double *a, const double *b, u32 rows, u32 k, u32 n);
/* D rows between Tensor Memory and doubles; the store rounds once (kernel.c). */
void d_row_load(const u32 *row, DType d, u32 scale_d, u32 n, double *acc);
void d_row_store(u32 *row, DType d, bool saturate, bool poison, u32 n, const double *acc);

/* The bit-level model of one row: acc holds D on entry and the rounded result on return (exact.c).
 * Panels and scale factors (or NULL); the row; columns [n0, n0 + n).  `prepare` comes first for each panel pair. */
typedef struct {
  const double *a, *b;
  const Scales *sf;
  u32 row, sf_row, n0, n; /* rows of the panel and of the scale factors */
  u32 fraction;           /* bits that every aligned term keeps */
  u32 kept;               /* bits that an f32 result keeps */
} ExactRow;

enum { SM100_FRACTION = 25, F32_FRACTION = 23 };

void mma_exact_prepare(const InstrDesc *q, const double *a, u32 rows, const double *b);
void mma_exact_row(const InstrDesc *q, const ExactRow *x, double *acc);

/* Metadata of a sparse A in the registers of a warp: `first` of four lanes has the first word. */
typedef struct {
  const u32 *words;
  u32 bits, kept, first; /* bits of an element; elements of a row that are kept */
  bool ordered;          /* a lower index comes first */
} SparseLanes;

/* A row's kept elements, where each is along K, and B of all K. */
typedef struct {
  const double *a, *b;
  const u16 *at;
} SparseRow;

enum { SPARSE_RIGHT = 16 };

/* Where the kept elements of row l / 4 (+ 8 with `half`) are; SPARSE_RIGHT, or four bits that name none (sparse.c). */
u32 sparse_lanes_row(const SparseLanes *x, u32 l, u32 half, u16 *at);
/* The same for every row of A in one CTA, from Tensor Memory; false after a fault. */
bool sparse_tmem(Machine *m, AsyncOp *op, const Mma *q, Cta *cta, u16 (*at)[PANEL_K]);
/* acc[n] += the products of a row; q->k counts kept elements; `exact`: by the bit-level model, or NULL. */
void sparse_row(const InstrDesc *q, const SparseRow *x, const ExactRow *exact, double *acc);
/* Read the scale factors of one CTA; false after a fault (block.c). */
bool scales_read(Machine *m, AsyncOp *op, const Mma *q, Cta *cta, Scales *out);
void scales_apply(const Scales *sf, const Mma *q, u32 rows, double *a, double *b);
Step scales_check(Ctx *c, const Mma *q);
/* Perform the MMA (run.c). */
void mma_land(Machine *m, AsyncOp *op);
u32 mma_parts(const Mma *q, Cta *cta, u32 index, Part out[MMA_PARTS]);
Step op_copy(Ctx *c, const Ins *i); /* tcgen05.cp (tmem/copy.c), for the table in commit.c */
/* Occupy the tensor pipe of the issuing CTA or pair and set op->t_done (tmem/commit.c). */
void pipe_occupy(Ctx *c, AsyncOp *op, u32 key, u64 cycles, u64 fixed, u64 *start);
#endif
