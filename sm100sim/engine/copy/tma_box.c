/* The rows of a box in global memory, and their place in swizzled shared memory (PTX ISA, "Tiled Mode",
 * "Im2col Mode", "Swizzling Modes").  A row of an im2col copy is a pixel's channels.
 *
 * A box lies in shared memory row after row, dimension 0 fastest.  The swizzle exchanges 16-byte chunks by
 * the absolute shared address: bits 4... are XORed with as many bits from bit 7 on; with 32-byte atoms, bits 5 and 6
 * with bits 7 and 8. */
#include "copy/tensormap.h"

/* Elements of dimension 0 that exist for a copy. */
static u64 inner_end(const TensorMap *t, bool write) {
  u64 bytes = t->dim[0] * t->bytes;
  return write ? (bytes + 15) / 16 * 16 / t->bytes : t->dim[0];
}

void walk_start(Walk *w, const TensorMap *t, const i32 coord[MAX_RANK], bool write) {
  *w = (Walk){.map = t, .inner = inner_end(t, write), .more = true};
  memcpy(w->c, coord, sizeof w->c);
}

/* The filter base after this one: W first, each dimension in its stride from corner to corner; then the next image. */
static void next_base(Walk *w) {
  const TensorMap *t = w->map;
  u32 d = 1, last = t->rank - 1;
  for (; d < last; d++) {
    w->c[d] += (i32)t->step[d];
    if (w->c[d] <= t->last[d - 1])
      break;
    w->c[d] = t->lower[d - 1];
  }
  if (d == last)
    w->c[d]++;
  w->more = ++w->at[1] < t->pixels;
}

/* Where dimension d of the row lies: what the walk has come to, or the coordinate of a named row, or of a pixel. */
static i64 row_position(const Walk *w, u32 d) {
  const TensorMap *t = w->map;
  if (t->rows)
    return w->c[1 + w->at[1]];
  if (t->pixels)
    return (i64)w->c[d] + (d + 1 < t->rank ? (i64)t->offset[d - 1] : 0);
  return (i64)w->c[d] + (i64)w->at[d] * t->step[d];
}

bool walk_row(Walk *w, Row *row) {
  const TensorMap *t = w->map;
  if (!w->more)
    return false;
  i64 first = w->c[0], lo = first < 0 ? -first : 0, hi = (i64)w->inner - first;
  if (hi > (i64)t->count[0])
    hi = t->count[0];
  bool inside = lo < hi;
  row->addr = t->base + (u64)(first * (i64)t->bytes);
  for (u32 d = 1; d < t->rank; d++) {
    i64 x = row_position(w, d);
    if (x < 0 || x >= (i64)t->dim[d])
      inside = false;
    row->addr += (u64)x * t->stride[d];
  }
  row->lo = inside ? (u32)lo : 0;
  row->hi = inside ? (u32)hi : 0;
  if (t->pixels) {
    next_base(w);
    return true;
  }
  u32 d = 1;
  while (d < t->rank && ++w->at[d] == t->count[d])
    w->at[d++] = 0;
  w->more = d < t->rank;
  return true;
}

bool box_span(const TensorMap *t, const i32 coord[MAX_RANK], bool write, u64 *addr, u64 *len) {
  u64 first = t->base, last = t->base;
  for (u32 d = 0; d < t->rank; d++) {
    i64 lo = coord[d], hi = lo + (i64)(t->count[d] - 1) * (d ? t->step[d] : 1),
        size = (i64)(d ? t->dim[d] : inner_end(t, write));
    if (lo < 0)
      lo = 0;
    if (hi > size - 1)
      hi = size - 1;
    if (lo > hi)
      return false;
    first += (u64)lo * t->stride[d];
    last += (u64)hi * t->stride[d];
  }
  *addr = first;
  *len = last + t->bytes - first;
  return true;
}

/* Bits of the 128-byte line's number that the address takes up, moved to where they are XORed. */
static inline u32 line_mask(u32 swizzle) {
  return swizzle == SWIZZLE_ATOM32 ? 3 : (1u << swizzle) - 1;
}

static inline u32 place(u32 address, u32 mask, u32 shift) {
  return address ^ ((address >> 7 & mask) << shift);
}

static inline u32 shift_of(u32 swizzle) {
  return swizzle == SWIZZLE_ATOM32 ? 5 : 4;
}

u32 swizzle_place(u32 address, u32 swizzle) {
  return place(address, line_mask(swizzle), shift_of(swizzle));
}

void swizzle_put(u8 *smem, u32 offset, const u8 *from, u32 bytes, u32 swizzle) {
  u32 mask = line_mask(swizzle), shift = shift_of(swizzle);
  if (!mask) {
    memcpy(smem + offset, from, bytes);
    return;
  }
  for (u32 k = 0; k < bytes; k += 16)
    memcpy(smem + place(offset + k, mask, shift), from + k, 16);
}

void swizzle_get(const u8 *smem, u32 offset, u8 *to, u32 bytes, u32 swizzle) {
  u32 mask = line_mask(swizzle), shift = shift_of(swizzle);
  if (!mask) {
    memcpy(to, smem + offset, bytes);
    return;
  }
  for (u32 k = 0; k < bytes; k += 16)
    memcpy(to + k, smem + place(offset + k, mask, shift), 16);
}

void box_row_put(u8 *smem, u32 offset, const u8 *from, const TensorMap *t) {
  u8 row[PADDED_ROW] = {0};
  if (!t->padded) {
    swizzle_put(smem, offset, from, t->count[0] * t->bytes, t->swizzle);
    return;
  }
  for (u32 k = 0; k < PADDED_ROW / 16; k++)
    memcpy(row + 16 * k, from + 2 * t->packed * k, 2 * t->packed);
  swizzle_put(smem, offset, row, PADDED_ROW, t->swizzle);
}
