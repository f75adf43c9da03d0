/* Sparse A: which elements of a row are kept, and the product of such a row (PTX ISA, "Sparse matrix storage").
 *
 * Four bits of metadata stand for a chunk of a row: two 2-bit indices, the first kept element's lower, into four
 * elements of 16 or 8 bits or four pairs of 4-bit ones.  Of two 32-bit elements one is kept: 0b0100 says the first,
 * 0b1110 the second. */
#include "mma/mma.h"

static bool sparse_chunk(u32 bits, u32 nibble, bool ordered, u16 *at) {
  u32 low = nibble & 3, high = nibble >> 2;
  if (bits == 32) {
    at[0] = nibble == 0xE;
    return nibble == 0x4 || nibble == 0xE;
  }
  if (bits == 4)
    for (u32 e = 0; e < 4; e++)
      at[e] = (u16)(2 * (e < 2 ? low : high) + e % 2);
  else {
    at[0] = (u16)low;
    at[1] = (u16)high;
  }
  return low != high && (!ordered || low < high);
}

/* A row's places from its metadata, the first chunk's lowest; the first four bits that the ISA gives no meaning. */
static u32 row_places(u32 bits, u32 kept, u64 metadata, bool ordered, u16 *at) {
  u32 per = bits == 32 ? 1 : bits == 4 ? 4 : 2, wide = bits == 32 ? 2 : bits == 4 ? 8 : 4, wrong = SPARSE_RIGHT;
  for (u32 j = 0; j < kept / per; j++) {
    u32 nibble = metadata >> 4 * j & 15;
    if (!sparse_chunk(bits, nibble, ordered, at + per * j) && wrong == SPARSE_RIGHT)
      wrong = nibble;
    for (u32 e = 0; e < per; e++)
      at[per * j + e] += (u16)(wide * j);
  }
  return wrong;
}

/* The metadata of a group of four lanes, 32 bits a lane (as an H100 has it): for each part of K that the smaller of two
 * shapes has, 16 or 32 bits of the row of the group's number, then as many of the row 8 further. */
u32 sparse_lanes_row(const SparseLanes *x, u32 l, u32 half, u16 *at) {
  u32 bits = 4 * x->kept / (x->bits == 32 ? 1 : x->bits == 4 ? 4 : 2), part = x->bits > 8 ? 16 : 32;
  u64 metadata = 0;
  for (u32 done = 0; done < bits; done += part) {
    u32 bit = 2 * done + half * part, word = x->words[l / 4 * 4 + x->first + bit / 32];
    metadata |= (u64)(word >> bit % 32 & (part == 16 ? 0xFFFF : NONE32)) << done;
  }
  return row_places(x->bits, x->kept, metadata, x->ordered, at);
}

/* Elements of 8 bits: the 64 bits of a row are in its lane.  Wider ones: 16 bits are of one half of K; of lanes
 * 16 i ... 16 i + 15, those from the ninth on have the second half, and of a cell's bits the upper the rows 8 further
 * (CUTLASS, fragments of E in mma_traits_sm100_frag.hpp). */
static u64 tmem_metadata(const Mma *q, Cta *cta, u32 row) {
  u32 col = taddr_col(q->meta_taddr);
  if (q->meta_cols == 2)
    return tmem_row(cta, row)[col] | (u64)tmem_row(cta, row)[col + 1] << 32;
  u32 lane = row / 16 * 16 + row % 8, shift = row / 8 % 2 * 16;
  return (tmem_row(cta, lane)[col] >> shift & 0xFFFF) | (tmem_row(cta, lane + 8)[col] >> shift & 0xFFFF) << 16;
}

/* CUTLASS's compressor writes 0 for a chunk with the first element alone, and its example 84b runs so. */
bool sparse_tmem(Machine *m, AsyncOp *op, const Mma *q, Cta *cta, u16 (*at)[PANEL_K]) {
  Ctx c = landing_ctx(m, op);
  u32 col = taddr_col(q->meta_taddr);
  see_tmem(NULL, op, cta, 0, TMEM_LANES, col, q->meta_cols, ACC_READ);
  tmem_expect(&c, cta, 0, TMEM_LANES, col, q->meta_cols, CELL_FULL, "metadata of tcgen05.mma.sp");
  for (u32 row = 0; row < TMEM_LANES; row++) {
    u32 wrong = row_places(elem_bits(q->q.a), q->q.k, tmem_metadata(q, cta, row), false, at[row]);
    if (wrong == SPARSE_RIGHT)
      continue;
    if (elem_bits(q->q.a) == 32) {
      fault_async(m, op, "sparse-metadata",
                  "row %u of A: the metadata 0x%x of a chunk names no places in it; that is undefined", row, wrong);
      return false;
    }
    finding(&c, 0, "sparse-metadata-twice",
            "row %u of A: the metadata 0x%x of a chunk names one place twice; both kept elements are taken to be there",
            row, wrong);
  }
  return true;
}

void sparse_row(const InstrDesc *q, const SparseRow *x, const ExactRow *exact, double *acc) {
  static _Thread_local double chosen[PANEL_K * PANEL_N];
  if (!exact) {
    for (u32 j = 0; j < q->k; j++)
      for (u32 n = 0; n < q->n; n++)
        acc[n] += x->a[j] * x->b[x->at[j] * PANEL_N + n];
    return;
  }
  for (u32 j = 0; j < q->k; j++)
    memcpy(chosen + j * PANEL_N, x->b + x->at[j] * PANEL_N, q->n * sizeof(double));
  ExactRow row = *exact;
  row.a = x->a;
  row.b = chosen;
  mma_exact_prepare(q, x->a, 1, chosen);
  mma_exact_row(q, &row, acc);
}
