/* Element arithmetic of atomics and reductions: integers wrap, floats round to nearest even, a NaN
 * result is the canonical one (PTX ISA, "Floating-Point Instructions"). */
#include "memory/reduce.h"
#include <math.h>

u32 element_bytes(Element e) {
  static const u8 bytes[] = {1, 2, 4, 4, 8, 8, 2, 2, 4, 4, 8, 8};
  return bytes[e];
}

static float bf16_to_f32(u32 h) {
  u32 b = h << 16;
  float f;
  memcpy(&f, &b, 4);
  return f;
}

static u32 f32_bits(float f) {
  u32 b;
  memcpy(&b, &f, 4);
  return b;
}

static u32 f32_to_bf16(float f) {
  u32 b = f32_bits(f);
  if (f != f)
    return 0x7FFF;
  return (b + 0x7FFF + (b >> 16 & 1)) >> 16;
}

static float f16_to_f32(u32 h) {
  u16 bits = (u16)h;
  _Float16 x;
  memcpy(&x, &bits, 2);
  return (float)x;
}

static u32 f32_to_f16(double v) {
  if (v != v)
    return 0x7FFF;
  _Float16 x = (_Float16)v;
  u16 bits;
  memcpy(&bits, &x, 2);
  return bits;
}

static float flush(float f) {
  return fabsf(f) < 0x1p-126f ? copysignf(0.0f, f) : f;
}

/* min and max ignore a NaN operand; -0 is below +0. */
static double minimum(double a, double b) {
  return a != a ? b : b != b ? a : a < b || (a == b && signbit(a)) ? a : b;
}

static double maximum(double a, double b) {
  return a != a ? b : b != b ? a : a > b || (a == b && !signbit(a)) ? a : b;
}

static double float_op(RedOp op, double a, double b) {
  return op == RED_ADD ? a + b : op == RED_MIN ? minimum(a, b) : maximum(a, b);
}

static u64 reduce_f32(RedOp op, u32 old, u32 operand, bool ftz) {
  float a, b, r;
  memcpy(&a, &old, 4);
  memcpy(&b, &operand, 4);
  if (ftz && op == RED_ADD) {
    a = flush(a);
    b = flush(b);
  }
  r = op == RED_ADD ? a + b : (float)float_op(op, a, b);
  if (ftz && op == RED_ADD)
    r = flush(r);
  return r != r ? 0x7FFFFFFFu : f32_bits(r);
}

/* Sums of f64: in global memory the operand's NaN comes before the element's and stays signaling; in shared
 * memory the element's comes first, made quiet (H200 record). */
static u64 add_f64(u64 old, u64 operand, bool shared) {
  double a, b, r;
  u64 bits, quiet = shared ? 1ull << 51 : 0;
  memcpy(&a, &old, 8);
  memcpy(&b, &operand, 8);
  r = a + b;
  memcpy(&bits, &r, 8);
  if (r == r)
    return bits;
  if (a != a && (shared || b == b))
    return old | quiet;
  return b != b ? operand | quiet : 0xFFF8000000000000ull;
}

static u64 reduce_float(RedOp op, Element e, u64 old, u64 operand) {
  switch (e) {
    case EL_F16:
      return f32_to_f16(float_op(op, f16_to_f32((u32)old), f16_to_f32((u32)operand)));
    case EL_BF16: { /* a sum in binary32 may need two roundings; binary64 holds it exactly enough to round once */
      double r = float_op(op, bf16_to_f32((u32)old), bf16_to_f32((u32)operand));
      float f = (float)r;
      if (op == RED_ADD && f == f && !isinf(f) && (f32_bits(f) & 0xFFFF) == 0x8000 && (double)f != r) {
        bool away = (r > f) == (f > 0);
        u32 b = f32_bits(f) + (away ? 1u : (u32)-1);
        memcpy(&f, &b, 4);
      }
      return f32_to_bf16(f);
    }
    case EL_F32:
      return reduce_f32(op, (u32)old, (u32)operand, false);
    case EL_F32_FTZ:
      return reduce_f32(op, (u32)old, (u32)operand, true);
    default:
      return add_f64(old, operand, e == EL_F64_SHARED);
  }
}

static u64 reduce_signed(RedOp op, i64 a, i64 b) {
  return (u64)(op == RED_ADD ? (i64)((u64)a + (u64)b) : op == RED_MIN ? (a < b ? a : b) : (a > b ? a : b));
}

u64 reduce_element(RedOp op, Element e, u64 old, u64 b, u64 compare) {
  u32 bytes = element_bytes(e);
  u64 mask = bytes == 8 ? ~0ull : (1ull << 8 * bytes) - 1, r;
  switch (op) {
    case RED_EXCH:
      r = b;
      break;
    case RED_CAS:
      r = ((old ^ compare) & mask) == 0 ? b : old;
      break;
    case RED_AND:
      r = old & b;
      break;
    case RED_OR:
      r = old | b;
      break;
    case RED_XOR:
      r = old ^ b;
      break;
    case RED_INC:
      r = old >= b ? 0 : old + 1;
      break;
    case RED_DEC:
      r = old == 0 || old > b ? b : old - 1;
      break;
    default:
      if (e >= EL_F16)
        r = reduce_float(op, e, old, b);
      else if (e == EL_S32)
        r = reduce_signed(op, (i32)old, (i32)b);
      else if (e == EL_S64)
        r = reduce_signed(op, (i64)old, (i64)b);
      else
        r = op == RED_ADD ? old + b : op == RED_MIN ? (old < b ? old : b) : (old > b ? old : b);
  }
  return r & mask;
}

void reduce_bytes(RedOp op, Element e, u8 *dst, const u8 *src, u32 bytes) {
  u32 size = element_bytes(e);
  for (u32 k = 0; k < bytes; k += size) {
    u64 old = 0, b = 0;
    memcpy(&old, dst + k, size);
    memcpy(&b, src + k, size);
    u64 r = reduce_element(op, e, old, b, 0);
    memcpy(dst + k, &r, size);
  }
}
