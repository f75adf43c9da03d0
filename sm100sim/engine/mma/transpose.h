/* 8 x 8 block of 32-bit words, rows to columns: the core of 32x32b loads and stores, where a warp's lane
 * is a row of Tensor Memory and a register is a column. */
#ifndef SM100SIM_TRANSPOSE_H
#define SM100SIM_TRANSPOSE_H
#include "machine/handler.h"

typedef u32 row8 __attribute__((vector_size(32)));
#ifdef __clang__
#define SHUFFLE8(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE8(a, b, ...) __builtin_shuffle(a, b, (row8){__VA_ARGS__})
#endif
static inline void transpose_8x8(const u32 *const in[8], u32 *const out[8]) {
  row8 a[8], b[8], c[8];
  for (int k = 0; k < 8; k++)
    memcpy(&a[k], in[k], 32);
  for (int k = 0; k < 8; k += 2) { /* 1-word, 2-word, then 4-word exchanges */
    b[k] = SHUFFLE8(a[k], a[k + 1], 0, 8, 2, 10, 4, 12, 6, 14);
    b[k + 1] = SHUFFLE8(a[k], a[k + 1], 1, 9, 3, 11, 5, 13, 7, 15);
  }
  for (int g = 0; g < 8; g += 4)
    for (int k = g; k < g + 2; k++) {
      c[k] = SHUFFLE8(b[k], b[k + 2], 0, 1, 8, 9, 4, 5, 12, 13);
      c[k + 2] = SHUFFLE8(b[k], b[k + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
  for (int k = 0; k < 4; k++) {
    a[k] = SHUFFLE8(c[k], c[k + 4], 0, 1, 2, 3, 8, 9, 10, 11);
    a[k + 4] = SHUFFLE8(c[k], c[k + 4], 4, 5, 6, 7, 12, 13, 14, 15);
  }
  for (int k = 0; k < 8; k++)
    memcpy(out[k], &a[k], 32);
}
#endif
