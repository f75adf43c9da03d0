/* Small float formats: encode from and decode to double, exact in every rounding mode. */
#ifndef SM100SIM_FORMATS_H
#define SM100SIM_FORMATS_H
#include "machine/handler.h"
#ifdef __F16C__
#include <immintrin.h>
#endif

double format_decode(Format f, u32 bits);
/* `satfinite`: NaN and overflow become the largest finite value (formats with NaN keep NaN). */
u32 format_encode(Format f, double x, Rounding r, bool satfinite);

/* A double cut to f32 by rounding to odd: any later rounding to 22 bits or fewer, subnormal results
 * included, gives what one rounding of the double would (Boldo and Melquiond, "When double rounding is odd"). */
static inline float narrow_odd(double v) {
  float f = (float)v;
  double back = f;
  u32 u;
  memcpy(&u, &f, 4);
  double size = back < 0 ? -back : back, exact = v < 0 ? -v : v;
  u32 step = size > exact ? NONE32 : 1u;
  u = (back < v || back > v) && !(u & 1) ? u + step : u;
  memcpy(&f, &u, 4);
  return f;
}

/* f32 -> bf16 and f16 codes, to nearest even; NaN is canonical. */
static inline u32 encode_bf16(float x) {
  u32 u;
  memcpy(&u, &x, 4);
  return x != x ? 0x7FFFu : (u + 0x7FFFu + (u >> 16 & 1)) >> 16;
}

static inline u32 encode_f16(float x) {
  _Float16 h = (_Float16)x;
  u16 u;
  memcpy(&u, &h, 2);
  return x != x ? 0x7FFFu : u;
}

static inline float decode_bf16(u32 code) {
  u32 u = code << 16;
  float x;
  memcpy(&x, &u, 4);
  return x;
}

static inline float decode_f16(u32 code) {
  u16 u = (u16)code;
  _Float16 h;
  memcpy(&h, &u, 2);
  return (float)h;
}

/* The same for all lanes; `code` are zero-extended. */
static inline void encode_f16_lanes(const float *x, u32 *code) {
#ifdef __F16C__
  for (u32 l = 0; l < LANES; l += 8)
    _mm256_storeu_si256((__m256i *)(code + l),
                        _mm256_cvtepu16_epi32(_mm256_cvtps_ph(_mm256_loadu_ps(x + l), _MM_FROUND_TO_NEAREST_INT)));
  for (u32 l = 0; l < LANES; l++)
    code[l] = x[l] != x[l] ? 0x7FFFu : code[l];
#else
  for (u32 l = 0; l < LANES; l++)
    code[l] = encode_f16(x[l]);
#endif
}

static inline void decode_f16_lanes(const u32 *code, float *x) {
#ifdef __F16C__
  u16 narrow[LANES];
  for (u32 l = 0; l < LANES; l++)
    narrow[l] = (u16)code[l];
  for (u32 l = 0; l < LANES; l += 8)
    _mm256_storeu_ps(x + l, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(narrow + l))));
#else
  for (u32 l = 0; l < LANES; l++)
    x[l] = decode_f16(code[l]);
#endif
}
#endif
