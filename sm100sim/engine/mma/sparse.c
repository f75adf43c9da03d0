/* Sparse A: which elements of a row are kept, and the product of such a row (PTX ISA, "Sparse matrix storage").
 *
 * Four bits of metadata stand for a chunk of a row: two 2-bit indices, the first kept element's lower, into four
 * elements of 16 or 8 bits or four pairs of 4-bit ones.  Of two 32-bit elements one is kept: 0b0100 says the first,
 * 0b1110 the second. */
#include "mma/mma.h"

bool sparse_chunk(u32 bits, u32 nibble, bool ordered, u16 *at) {
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

/* The metadata of a group of four lanes: all of the row of its number, then of the row 8 further, 32 bits a lane. */
u32 sparse_lanes_row(const SparseLanes *x, u32 l, u32 half, u16 *at) {
  u32 per = x->bits == 32 ? 1 : x->bits == 4 ? 4 : 2, wide = x->bits == 32 ? 2 : x->bits == 4 ? 8 : 4;
  u32 nibbles = x->kept / per, first = 32 * x->first + half * 4 * nibbles;
  for (u32 j = 0; j < nibbles; j++) {
    u32 bit = first + 4 * j, nibble = x->words[l / 4 * 4 + bit / 32] >> bit % 32 & 15;
    if (!sparse_chunk(x->bits, nibble, x->ordered, at + per * j))
      return nibble;
    for (u32 e = 0; e < per; e++)
      at[per * j + e] += (u16)(wide * j);
  }
  return SPARSE_RIGHT;
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
