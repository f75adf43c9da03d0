/* The arithmetic of the default mode: exact products, one instruction's sum and D in double precision,
 * one rounding to the type of D.  A double carries 53 bits, so the sum of 8 to 64 products of at most
 * 22 bits differs from the exact sum by less than 2^-48 of the largest term. */
#include "mma/mma.h"
#include <math.h>

#if defined(__AVX512F__)
#define VLEN 8
#else
#define VLEN 4
#endif
typedef double vec __attribute__((vector_size(VLEN * 8), aligned(8)));
#define ROWS MMA_ROWS

/* Products of operand elements are exact in double, so fusing multiply and add cannot change a result. */
#pragma GCC push_options
#pragma GCC optimize("fp-contract=fast")

static inline void block_rows(double *acc, const double *a, const double *b, u32 k, u32 n) {
  vec s[ROWS][2];
  for (u32 r = 0; r < ROWS; r++) {
    s[r][0] = *(const vec *)(acc + r * PANEL_N + n);
    s[r][1] = *(const vec *)(acc + r * PANEL_N + n + VLEN);
  }
  for (u32 i = 0; i < k; i++) {
    const vec b0 = *(const vec *)(b + i * PANEL_N + n), b1 = *(const vec *)(b + i * PANEL_N + n + VLEN);
    for (u32 r = 0; r < ROWS; r++) {
      double x = a[r * k + i];
      s[r][0] += x * b0;
      s[r][1] += x * b1;
    }
  }
  for (u32 r = 0; r < ROWS; r++) {
    *(vec *)(acc + r * PANEL_N + n) = s[r][0];
    *(vec *)(acc + r * PANEL_N + n + VLEN) = s[r][1];
  }
}

void mma_rows(double *acc, const double *a, const double *b, u32 rows, u32 k, u32 n) {
  for (u32 r = 0; r < rows; r += ROWS)
    for (u32 j = 0; j < n; j += 2 * VLEN)
      block_rows(acc + r * PANEL_N, a + r * k, b, k, j);
}

#pragma GCC pop_options

/* Round to half precision, nearest even, in one step. */
static u16 to_half(double x) {
  if (isnan(x))
    return 0x7FFF;
  u16 sign = signbit(x) ? 0x8000 : 0;
  double y = fabs(x);
  if (y >= 65520.0)
    return sign | 0x7C00;
  int e;
  frexp(y, &e);
  int exp = y == 0 || e - 1 < -14 ? -14 : e - 1;
  u32 units = (u32)nearbyint(ldexp(y, 10 - exp)); /* 2^10 .. 2^11, below for subnormals */
  if (units < 1024)
    return sign | (u16)units;
  return (u16)(sign | (((u32)(exp + 14) << 10) + units));
}

void d_row_load(const u32 *row, DType d, u32 scale_d, u32 n, double *acc) {
  if (d == D_F32) {
    const double f = 1.0 / (double)(1u << scale_d);
    for (u32 k = 0; k < n; k++) {
      float v;
      memcpy(&v, row + k, 4);
      acc[k] = (double)v * f;
    }
  } else if (d == D_F16) {
    for (u32 k = 0; k < n; k++)
      acc[k] = ldexp(half_value((u16)row[k]), -(int)scale_d);
  } else {
    for (u32 k = 0; k < n; k++)
      acc[k] = (i32)row[k];
  }
}

static u32 to_s32(double x, bool saturate) { /* sums stay far below 2^53: exact */
  if (saturate)
    return (u32)(i32)fmax(-2147483648.0, fmin(2147483647.0, x));
  return (u32)(u64)(i64)x;
}

void d_row_store(u32 *row, DType d, bool saturate, bool poison, u32 n, const double *acc) {
  if (d == D_F32) {
    for (u32 k = 0; k < n; k++) {
      float v = (float)acc[k];
      u32 w;
      memcpy(&w, &v, 4);
      row[k] = v != v ? 0x7FFFFFFFu : w;
    }
  } else if (d == D_F16) { /* the upper half of the column is undefined */
    for (u32 k = 0; k < n; k++)
      row[k] = (poison ? 0xFFFF0000u : 0) | to_half(acc[k]);
  } else {
    for (u32 k = 0; k < n; k++)
      row[k] = to_s32(acc[k], saturate);
  }
}
