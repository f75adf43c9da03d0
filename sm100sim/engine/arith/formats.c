/* Small float formats (PTX ISA, "Alternate Floating-Point Data Formats" and cvt). */
#include "arith/formats.h"
#include "arith/numeric.h"

typedef struct {
  u32 ebits, mbits;
  i32 bias;
  bool inf, nan;
  u32 nan_bits, max_bits;
} Spec;

static const Spec SPECS[FMT_COUNT] = {[FMT_F16] = {5, 10, 15, true, true, 0x7FFF, 0x7BFF},
                                      [FMT_BF16] = {8, 7, 127, true, true, 0x7FFF, 0x7F7F},
                                      [FMT_TF32] = {8, 10, 127, true, true, 0x3FFFF, 0x3FBFF},
                                      [FMT_E4M3] = {4, 3, 7, false, true, 0x7F, 0x7E},
                                      [FMT_E5M2] = {5, 2, 15, true, true, 0x7F, 0x7B},
                                      [FMT_E2M3] = {2, 3, 1, false, false, 0, 0x1F},
                                      [FMT_E3M2] = {3, 2, 3, false, false, 0, 0x1F},
                                      [FMT_E2M1] = {2, 1, 1, false, false, 0, 0x7},
                                      [FMT_UE8M0] = {8, 0, 127, false, true, 0xFF, 0xFE},
                                      [FMT_F32] = {8, 23, 127, true, true, 0x7FFFFFFF, 0x7F7FFFFF}};

double format_decode(Format f, u32 bits) {
  const Spec *s = &SPECS[f];
  if (f == FMT_UE8M0)
    return bits == 0xFF ? NAN : ldexp(1.0, (int)bits - 127);
  u32 m = bits & ((1u << s->mbits) - 1), e = bits >> s->mbits & ((1u << s->ebits) - 1),
      sign = bits >> (s->mbits + s->ebits) & 1;
  double v;
  if (s->inf && e == (1u << s->ebits) - 1)
    v = m ? NAN : INFINITY;
  else if (f == FMT_E4M3 && (bits & 0x7F) == 0x7F)
    v = NAN;
  else
    v = e ? ldexp((double)(m | 1u << s->mbits), (i32)e - s->bias - (i32)s->mbits)
          : ldexp((double)m, 1 - s->bias - (i32)s->mbits);
  return sign ? -v : v;
}

static double round_units(double units, Rounding r, bool negative) {
  double low = floor(units), rest = units - low;
  if (rest == 0.0)
    return low;
  switch (r) {
    case ROUND_RZ:
      return low;
    case ROUND_RM:
      return negative ? low + 1 : low;
    case ROUND_RP:
      return negative ? low : low + 1;
    case ROUND_RNA:
      return rest >= 0.5 ? low + 1 : low;
    default:
      return rest > 0.5 || (rest == 0.5 && fmod(low, 2.0) != 0.0) ? low + 1 : low;
  }
}

static u32 encode_scale(double x, Rounding r, bool satfinite) { /* ue8m0: a power of two, no sign */
  if (x != x)
    return 0xFF;
  x = fabs(x);
  if (isinf(x))
    return satfinite ? 0xFE : 0xFF;
  if (x <= ldexp(1.0, -127))
    return 0;
  int e;
  double m = frexp(x, &e);
  e -= 1;
  if (m * 2 > 1.0 && (r == ROUND_RP || (r != ROUND_RZ && m * 2 >= 1.5)))
    e += 1;
  if (e > 127)
    return satfinite ? 0xFE : 0xFF;
  return (u32)(e + 127);
}

u32 format_encode(Format f, double x, Rounding r, bool satfinite) {
  const Spec *s = &SPECS[f];
  if (f == FMT_UE8M0)
    return encode_scale(x, r, satfinite);
  u32 sign_bit = 1u << (s->mbits + s->ebits), sign = signbit(x) ? sign_bit : 0;
  if (x != x)
    return s->nan ? s->nan_bits : s->max_bits;
  double a = fabs(x);
  if (isinf(a))
    return sign |
           (satfinite || !s->inf ? (s->inf || !s->nan || satfinite ? s->max_bits : s->nan_bits) : s->max_bits + 1);
  if (a == 0.0)
    return sign;
  int e;
  frexp(a, &e);
  e -= 1;
  i32 emin = 1 - s->bias;
  if (e < emin)
    e = emin;
  double units = round_units(ldexp(a, (i32)s->mbits - e), r, sign != 0);
  if (units >= ldexp(2.0, (i32)s->mbits)) {
    units /= 2;
    e += 1;
  }
  u32 u = (u32)units, code = u < 1u << s->mbits ? u : ((u32)(e + s->bias) << s->mbits) + (u - (1u << s->mbits));
  if (e + s->bias >= 1 << s->ebits)
    code = NONE32; /* beyond every code; the shift may have wrapped */
  if (code > s->max_bits) {
    bool inward = r == ROUND_RZ || (r == ROUND_RM && !sign) || (r == ROUND_RP && sign);
    code = satfinite || inward || (!s->inf && !s->nan) ? s->max_bits : s->inf ? s->max_bits + 1 : s->nan_bits;
  }
  return sign | code;
}
