/* The bit-level accumulation model (Options.exact_mma), after the published model MMA-Sim of the tensor
 * cores of this generation: products are exact; all products of the instruction and D are aligned to
 * the largest exponent and truncated to 25 fraction bits; their exact sum is rounded toward zero to
 * f32, or to nearest even to f16.  Kinds mxf4 and mxf4nvf4 first add 16 products exactly, multiply by
 * the scale factors and keep 35 fraction bits. */
#include "mma/mma.h"
#include <math.h>

typedef struct {
  double sig;
  i64 exp;
} Term; /* sig * 2^exp, 1 <= |sig| < 2 above the least exponent */

static Term split(double x, int least) {
  if (x == 0 || !isfinite(x))
    return (Term){x, -126};
  int e;
  double s = frexp(x, &e) * 2;
  e--;
  if (e < least) {
    s = ldexp(s, e - least);
    e = least;
  }
  return (Term){s, e};
}

static double toward_zero_f32(double x, int kept) {
  Term t = split(x, -126);
  double y = ldexp(trunc(ldexp(t.sig, kept)), (int)t.exp - kept);
  return fabs(y) >= 0x1p128 ? copysign((double)INFINITY, y) : y;
}

static inline bool four_bit(const InstrDesc *q) {
  return q->kind == KIND_MXF4 || q->kind == KIND_MXF4NVF4;
}

/* Significands and exponents of both panels, made once per instruction and CTA. */
static _Thread_local double a_sig[128 * PANEL_K], b_sig[PANEL_K * PANEL_N];
static _Thread_local i64 a_exp[128 * PANEL_K], b_exp[PANEL_K * PANEL_N];

void mma_exact_prepare(const InstrDesc *q, const double *a, u32 rows, const double *b) {
  if (four_bit(q))
    return;
  int least_a = elem_min_exponent(q->a), least_b = elem_min_exponent(q->b);
  for (u32 k = 0; k < rows * q->k; k++) {
    Term t = split(a[k], least_a);
    a_sig[k] = t.sig;
    a_exp[k] = t.exp;
  }
  for (u32 k = 0; k < q->k; k++)
    for (u32 at = k * PANEL_N; at < k * PANEL_N + q->n; at++) {
      Term t = split(b[at], least_b);
      b_sig[at] = t.sig;
      b_exp[at] = t.exp;
    }
}

/* 2^s for -1022 <= s <= 1023. */
static inline double power_of_two(i64 s) {
  u64 w = (u64)(s + 1023) << 52;
  double d;
  memcpy(&d, &w, 8);
  return d;
}

/* acc of one row: n columns side by side.  Cutting a term that is 2^1000 too small gives 0, so the shift is clamped. */
static void plain_row(const InstrDesc *q, const ExactRow *x, const double *sfa, double *acc) {
  const Scales *sf = x->sf;
  u32 row = x->row, n0 = x->n0, n = x->n, fraction = x->fraction;
  i64 top[256], c_exp[256];
  double sum[256], finite[256], c_sig[256];
  i64 scale[256];
  double sa = sfa ? sfa[0] : 1.0;
  for (u32 j = 0; j < n; j++) {
    double sb = sf ? sf->b[0][n0 + j] : 1.0;
    scale[j] = isnan(sa) || isnan(sb) ? 0 : ilogb(sa) + ilogb(sb);
    Term c = split(acc[j], q->d == D_F16 ? -14 : -126);
    c_sig[j] = c.sig;
    c_exp[j] = top[j] = c.exp;
    finite[j] = acc[j] + (isnan(sa) || isnan(sb) ? (double)NAN : 0);
  }
  for (u32 k = 0; k < q->k; k++) {
    const i64 ea = a_exp[row * q->k + k], *eb = b_exp + k * PANEL_N + n0;
    const double xa = a_sig[row * q->k + k], *xb = b_sig + k * PANEL_N + n0;
    for (u32 j = 0; j < n; j++) {
      i64 e = ea + eb[j] + scale[j];
      top[j] = e > top[j] ? e : top[j];
      finite[j] += xa * xb[j];
    }
  }
  for (u32 j = 0; j < n; j++) {
    i64 s = fraction + c_exp[j] - top[j];
    sum[j] = trunc(c_sig[j] * power_of_two(s < -1000 ? -1000 : s));
  }
  for (u32 k = 0; k < q->k; k++) {
    const i64 ea = a_exp[row * q->k + k], *eb = b_exp + k * PANEL_N + n0;
    const double xa = a_sig[row * q->k + k], *xb = b_sig + k * PANEL_N + n0;
    for (u32 j = 0; j < n; j++) {
      i64 s = fraction + ea + eb[j] + scale[j] - top[j];
      sum[j] += trunc(xa * xb[j] * power_of_two(s < -1000 ? -1000 : s)); /* integers below 2^34: exact */
    }
  }
  for (u32 j = 0; j < n; j++)
    acc[j] = isfinite(finite[j]) ? ldexp(sum[j], (int)top[j] - (int)fraction) : finite[j];
}

static double dot_four_bit(const InstrDesc *q, const double *a, const double *b, u32 col, const double *sfa,
                           const Scales *sf, double c) {
  Term terms[PANEL_K / 16 + 1];
  u32 n = 0, per = q->k / sf->blocks;
  for (u32 k0 = 0; k0 < q->k; k0 += 16) {
    double s = 0, sa = sfa[k0 / per], sb = sf->b[k0 / per][col];
    if (isnan(sa) || isnan(sb))
      return (double)NAN;
    for (u32 k = k0; k < k0 + 16; k++)
      s += a[k] * b[k * PANEL_N + col];
    Term x = split(sa, q->ue8m0 ? -127 : -6), y = split(sb, q->ue8m0 ? -127 : -6);
    terms[n++] = (Term){s * x.sig * y.sig, x.exp + y.exp};
  }
  if (!isfinite(c))
    return c;
  terms[n++] = split(c, -126);
  i64 top = terms[0].exp;
  double sum = 0;
  for (u32 k = 1; k < n; k++)
    if (terms[k].exp > top)
      top = terms[k].exp;
  for (u32 k = 0; k < n; k++)
    sum += trunc(ldexp(terms[k].sig, (int)(35 + terms[k].exp - top)));
  return ldexp(sum, (int)top - 35);
}

void mma_exact_row(const InstrDesc *q, const ExactRow *x, double *acc) {
  const double *sfa = x->sf ? x->sf->a[x->sf_row] : NULL;
  if (four_bit(q))
    for (u32 j = 0; j < x->n; j++)
      acc[j] = dot_four_bit(q, x->a + x->row * q->k, x->b, x->n0 + j, sfa, x->sf, acc[j]);
  else
    plain_row(q, x, sfa, acc);
  if (q->d == D_F32)
    for (u32 j = 0; j < x->n; j++)
      if (isfinite(acc[j]))
        acc[j] = toward_zero_f32(acc[j], (int)x->kept);
}
