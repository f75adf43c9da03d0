/* From shared memory to panels of doubles: element decoding, unit addresses, footprints
 * (PTX ISA, "Shared Memory Layout and Swizzling", "Packing format for matrix A and B"). */
#include "mma/operand.h"
#include <math.h>
#ifdef __F16C__
#include <immintrin.h>
#endif

static double E4M3[256], E5M2[256], E2M3[64], E3M2[64], E2M1[16];

/* Minifloat with `e` exponent and `m` fraction bits; no special values. */
static double minifloat(u32 x, int e, int m) {
  int bias = (1 << (e - 1)) - 1, exp = (int)(x >> m) & ((1 << e) - 1), frac = (int)x & ((1 << m) - 1);
  double v = exp ? ldexp((double)(frac | 1 << m), exp - bias - m) : ldexp((double)frac, 1 - bias - m);
  return x >> (e + m) & 1 ? -v : v;
}

__attribute__((constructor)) static void fill_tables(void) {
  for (u32 x = 0; x < 256; x++) {
    E4M3[x] = (x & 0x7F) == 0x7F ? (double)NAN : minifloat(x, 4, 3);
    u32 mag = x & 0x7F;
    E5M2[x] = mag > 0x7C    ? (double)NAN
              : mag == 0x7C ? (x & 0x80 ? -(double)INFINITY : (double)INFINITY)
                            : minifloat(x, 5, 2);
  }
  for (u32 x = 0; x < 64; x++) {
    E2M3[x] = minifloat(x, 2, 3);
    E3M2[x] = minifloat(x, 3, 2);
  }
  for (u32 x = 0; x < 16; x++)
    E2M1[x] = minifloat(x, 2, 1);
}

double e4m3_value(u8 x) {
  return E4M3[x];
}

double ue8m0_value(u8 x) {
  return x == 0xFF ? (double)NAN : ldexp(1.0, (int)x - 127);
}

double half_value(u16 x) {
  if ((x & 0x7C00) == 0x7C00)
    return x & 0x3FF ? (double)NAN : x & 0x8000 ? -(double)INFINITY : (double)INFINITY;
  return minifloat(x, 5, 10);
}

int elem_min_exponent(ElemType t) {
  static const int least[] = {-14, -126, -126, -6, -14, 0, -2, 0, 0, 0, 0};
  return least[t];
}

/* ---- one 16-byte unit -> 4, 8, 16 or 32 doubles --------------------------------------------- */
typedef void (*Decode)(const u8 *p, double *out);

static void decode_f16(const u8 *p, double *out) {
#ifdef __F16C__
  float f[8];
  _mm256_storeu_ps(f, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)));
  for (int k = 0; k < 8; k++)
    out[k] = f[k];
#else
  u16 h[8];
  memcpy(h, p, 16);
  for (int k = 0; k < 8; k++)
    out[k] = half_value(h[k]);
#endif
}

typedef u16 half8 __attribute__((vector_size(16)));
typedef u32 word8 __attribute__((vector_size(32)));
typedef float float8 __attribute__((vector_size(32)));
typedef double double8 __attribute__((vector_size(64), aligned(8)));

static void decode_bf16(const u8 *p, double *out) {
  half8 h;
  memcpy(&h, p, 16);
  word8 w = __builtin_convertvector(h, word8) << 16;
  *(double8 *)out = __builtin_convertvector((float8)w, double8);
}

static void decode_tf32(const u8 *p, double *out) { /* the low 13 fraction bits are ignored */
  u32 w[4];
  float f[4];
  memcpy(w, p, 16);
  for (int k = 0; k < 4; k++)
    w[k] &= ~0x1FFFu;
  memcpy(f, w, 16);
  for (int k = 0; k < 4; k++)
    out[k] = f[k];
}

static void decode_e4m3(const u8 *p, double *out) {
  for (int k = 0; k < 16; k++)
    out[k] = E4M3[p[k]];
}

static void decode_e5m2(const u8 *p, double *out) {
  for (int k = 0; k < 16; k++)
    out[k] = E5M2[p[k]];
}

static void decode_u8(const u8 *p, double *out) {
  for (int k = 0; k < 16; k++)
    out[k] = p[k];
}

static void decode_s8(const u8 *p, double *out) {
  for (int k = 0; k < 16; k++)
    out[k] = (i8)p[k];
}

/* Sixteen 6-bit elements in 12 bytes, 4 bytes of padding. */
static void decode_6bit(const u8 *p, double *out, const double *table) {
  for (int g = 0; g < 4; g++) {
    u32 w = (u32)p[3 * g] | (u32)p[3 * g + 1] << 8 | (u32)p[3 * g + 2] << 16;
    for (int k = 0; k < 4; k++)
      out[4 * g + k] = table[w >> (6 * k) & 63];
  }
}

static void decode_e2m3(const u8 *p, double *out) {
  decode_6bit(p, out, E2M3);
}

static void decode_e3m2(const u8 *p, double *out) {
  decode_6bit(p, out, E3M2);
}

/* Sixteen 4-bit elements in 8 bytes, 8 bytes of padding. */
static void decode_e2m1(const u8 *p, double *out) {
  for (int k = 0; k < 16; k++)
    out[k] = E2M1[p[k / 2] >> (k & 1) * 4 & 15];
}

static void decode_e2m1_pair(const u8 *p, double *out) {
  for (int k = 0; k < 32; k++)
    out[k] = E2M1[p[k / 2] >> (k & 1) * 4 & 15];
}

static Decode decoder(ElemType t) {
  static const Decode table[] = {decode_f16,  decode_bf16, decode_tf32, decode_e4m3, decode_e5m2,     decode_e2m3,
                                 decode_e3m2, decode_e2m1, decode_u8,   decode_s8,   decode_e2m1_pair};
  return table[t];
}

/* In Tensor Memory each of 4 or 6 bits is in the middle of a byte: 00xxxx00, 0xxxxxx0 (CUTLASS,
 * cp_narrow_a_to_tmem_mma.py, which tests it on a B200). */
static void decode_holders(ElemType t, const u8 *p, double *out) {
  for (u32 k = 0; k < 32; k++)
    out[k] = t == T_E2M1 ? E2M1[p[k] >> 2 & 15] : (t == T_E2M3 ? E2M3 : E3M2)[p[k] >> 1 & 63];
}

void elements_decode(ElemType t, const u8 *p, bool negate, double *out) {
  u32 per = 128 / elem_bits(t);
  if (elem_narrow(t))
    decode_holders(t, p, out);
  else {
    decoder(t)(p, out);
    decoder(t)(p + 16, out + per);
  }
  if (negate)
    for (u32 k = 0; k < 2 * per; k++)
      out[k] = -out[k];
}

/* ---- whole operands --------------------------------------------------------------------------- */
static inline u32 unit_elements(const SmemOperand *o) {
  return 128 / elem_bits(o->type);
}

u32 operand_extent(const SmemOperand *o) {
  const SmemDesc *d = &o->d;
  u32 far = 0, per = unit_elements(o);
  if (!o->mn_major) {
    for (u32 r = 0; r < o->rows; r += r + 8 < o->rows ? 8 : 1)
      for (u32 u = 0; u < o->k / per; u++) {
        u32 x = k_major_unit(d, r, u);
        if (x > far)
          far = x;
      }
    return far + 16;
  }
  for (u32 u = 0; u < (o->rows + per - 1) / per; u++)
    for (u32 k = 0; k < o->k; k++) {
      u32 x = mn_major_unit(d, u, k);
      if (x > far)
        far = x;
    }
  return far + 16;
}

static inline const u8 *unit_at(const SmemOperand *o, u32 linear, UnitSet *touched) {
  u32 a = operand_address(&o->d, linear);
  if (a < SMEM_RESERVED || a + 16 > o->cta->smem_bytes)
    return NULL;
  if (touched)
    unit_add(touched, a);
  return o->cta->smem + a;
}

static bool gather_k_major(const SmemOperand *o, double *out, u32 row_pitch, u32 k_pitch, UnitSet *touched) {
  Decode decode = decoder(o->type);
  u32 per = unit_elements(o);
  for (u32 r = 0; r < o->rows; r++)
    for (u32 u = 0; u < o->k / per; u++) {
      const u8 *p = unit_at(o, k_major_unit(&o->d, r, u), touched);
      if (!p)
        return false;
      if (k_pitch == 1) {
        decode(p, out + r * row_pitch + u * per);
        continue;
      }
      double t[32];
      decode(p, t);
      double *to = out + r * row_pitch + u * per * k_pitch;
      for (u32 e = 0; e < per; e++)
        to[e * k_pitch] = t[e];
    }
  return true;
}

static bool gather_mn_major(const SmemOperand *o, double *out, u32 row_pitch, u32 k_pitch, UnitSet *touched) {
  Decode decode = decoder(o->type);
  u32 per = unit_elements(o);
  for (u32 u = 0; u * per < o->rows; u++) {
    u32 n = o->rows - u * per < per ? o->rows - u * per : per;
    for (u32 k = 0; k < o->k; k++) {
      const u8 *p = unit_at(o, mn_major_unit(&o->d, u, k), touched);
      if (!p)
        return false;
      double t[32];
      decode(p, t);
      double *to = out + u * per * row_pitch + k * k_pitch;
      for (u32 e = 0; e < n; e++)
        to[e * row_pitch] = t[e];
    }
  }
  return true;
}

bool operand_gather(const SmemOperand *o, double *out, u32 row_pitch, u32 k_pitch, UnitSet *touched) {
  bool ok = o->mn_major ? gather_mn_major(o, out, row_pitch, k_pitch, touched)
                        : gather_k_major(o, out, row_pitch, k_pitch, touched);
  if (ok && o->negate)
    for (u32 r = 0; r < o->rows; r++)
      for (u32 k = 0; k < o->k; k++)
        out[r * row_pitch + k * k_pitch] = -out[r * row_pitch + k * k_pitch];
  return ok;
}

void units_observe(AsyncOp *op, Cta *cta, const UnitSet *units) {
  u32 n = cta->smem_bytes / 16, first = 0;
  bool open = false;
  for (u32 k = 0; k <= n; k++) {
    bool set = k < n && (units->words[k >> 6] >> (k & 63) & 1);
    if (set && !open) {
      first = k;
      open = true;
    }
    if (!set && open) {
      see_smem(NULL, op, cta, first * 16, (k - first) * 16, ACC_READ, PROXY_ASYNC);
      open = false;
    }
    if (!set && !open && !(k & 63) && k + 64 <= n && !units->words[k >> 6])
      k += 63;
  }
}
