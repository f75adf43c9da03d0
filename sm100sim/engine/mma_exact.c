/* The bit-level accumulation model (CHECK_MMA_EXACT), after the published model MMA-Sim of the tensor
 * cores of this generation: products are exact; all products of the instruction and D are aligned to
 * the largest exponent and truncated to 25 fraction bits; their exact sum is rounded toward zero to
 * f32, or to nearest even to f16.  Kinds mxf4 and mxf4nvf4 first add 16 products exactly, multiply by
 * the scale factors and keep 35 fraction bits. */
#include "mma.h"
#include <math.h>

typedef struct { double sig; int exp; } Term;          /* sig * 2^exp, sig not normalised */

static Term split(double x, int least) {
  if (x == 0) return (Term){x, -126};
  int e; double s = frexp(x, &e) * 2; e--;
  if (e < least) { s = ldexp(s, e - least); e = least; }
  return (Term){s, e};
}
/* Exact integer sum in units of 2^(largest exponent - bits); every term is cut toward zero first. */
static double aligned_sum(const Term *t, u32 n, int bits) {
  int top = t[0].exp;
  for (u32 k = 1; k < n; k++) if (t[k].exp > top) top = t[k].exp;
  i64 sum = 0;
  for (u32 k = 0; k < n; k++) sum += (i64)trunc(ldexp(t[k].sig, bits + t[k].exp - top));
  return ldexp((double)sum, top - bits);               /* |sum| < 2^53: at most 65 terms below 2^(bits + 3) */
}
static double toward_zero_f32(double x) {
  Term t = split(x, -126);
  double y = ldexp(trunc(ldexp(t.sig, 23)), t.exp - 23);
  return fabs(y) >= 0x1p128 ? copysign((double)INFINITY, y) : y;
}
/* Sum of special values when the plain sum is not finite; true when it decides the result. */
static bool special_sum(const double *products, u32 n, double c, double *out) {
  double s = c;
  for (u32 k = 0; k < n; k++) s += products[k];
  *out = s;
  return !isfinite(s);
}
static double dot_plain(const InstrDesc *q, const double *a, const double *b, u32 col, double sa, double sb, double c) {
  double products[PANEL_K], out; Term terms[PANEL_K + 1];
  int ea = elem_min_exponent(q->a), eb = elem_min_exponent(q->b);
  int scale = isnan(sa) || isnan(sb) ? 0 : ilogb(sa) + ilogb(sb);
  for (u32 k = 0; k < q->k; k++) products[k] = a[k] * b[k * PANEL_N + col] * sa * sb;
  if (special_sum(products, q->k, c, &out)) return out;
  terms[q->k] = split(c, q->d == D_F16 ? -14 : -126);
  for (u32 k = 0; k < q->k; k++) {
    Term x = split(a[k], ea), y = split(b[k * PANEL_N + col], eb);
    terms[k] = (Term){x.sig * y.sig, x.exp + y.exp + scale};
  }
  return aligned_sum(terms, q->k + 1, 25);
}
static double dot_four_bit(const InstrDesc *q, const double *a, const double *b, u32 col, const double *sfa, const Scales *sf, double c) {
  Term terms[PANEL_K / 16 + 1]; u32 n = 0, per = q->k / sf->blocks;
  if (isnan(c)) return c;
  for (u32 k0 = 0; k0 < q->k; k0 += 16) {
    double s = 0, sa = sfa[k0 / per], sb = sf->b[k0 / per][col];
    if (isnan(sa) || isnan(sb)) return (double)NAN;
    for (u32 k = k0; k < k0 + 16; k++) s += a[k] * b[k * PANEL_N + col];
    Term x = split(sa, q->ue8m0 ? -127 : -6), y = split(sb, q->ue8m0 ? -127 : -6);
    terms[n++] = (Term){s * x.sig * y.sig, x.exp + y.exp};
  }
  if (isinf(c)) return c;
  terms[n++] = split(c, -126);
  return aligned_sum(terms, n, 35);
}
void mma_exact_row(const InstrDesc *q, const double *a, const double *b, const double *sfa, const Scales *sf, u32 n0, u32 n, double *acc) {
  bool four_bit = q->kind == KIND_MXF4 || q->kind == KIND_MXF4NVF4;
  for (u32 j = 0; j < n; j++) {
    double s = four_bit ? dot_four_bit(q, a, b, n0 + j, sfa, sf, acc[j])
             : dot_plain(q, a, b, n0 + j, sf ? sfa[0] : 1.0, sf ? sf->b[0][n0 + j] : 1.0, acc[j]);
    acc[j] = q->d == D_F32 && isfinite(s) ? toward_zero_f32(s) : s;
  }
}
