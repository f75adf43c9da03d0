/* Instructions on pairs and on four bytes of a register (PTX ISA, "SIMD Video Instructions"). */
#include "arith/numeric.h"

static inline i32 part_of(u32 x, u32 at, u32 bits, bool is_signed) {
  u32 up = x << (32 - at - bits);
  return is_signed ? (i32)up >> (32 - bits) : (i32)(up >> (32 - bits));
}

static inline i32 video_result(Video op, i32 a, i32 b) {
  switch (op) {
    case VIDEO_ADD:
      return a + b;
    case VIDEO_SUB:
      return a - b;
    case VIDEO_AVRG:
      return (a + b + (a + b >= 0)) >> 1;
    case VIDEO_ABSDIFF:
      return a > b ? a - b : b - a;
    case VIDEO_MIN:
      return a < b ? a : b;
    case VIDEO_MAX:
      return a > b ? a : b;
    case VIDEO_EQ:
      return a == b;
    case VIDEO_NE:
      return a != b;
    case VIDEO_LT:
      return a < b;
    case VIDEO_LE:
      return a <= b;
    case VIDEO_GT:
      return a > b;
    default:
      return a >= b;
  }
}

static inline i32 clamped(i32 x, u32 bits, bool is_signed) {
  i32 most = (i32)(NONE32 >> (32 - bits + is_signed)), least = is_signed ? -most - 1 : 0;
  return x > most ? most : x < least ? least : x;
}

/* The parts' results in their places, or their sum with c. */
static inline u32 video(const IntegerForm *f, u32 a, u32 b, u32 c, u32 bits) {
  u32 merged = 0, sum = c;
  for (u32 at = 0; at < 32; at += bits) {
    i32 x = video_result((Video)f->table, part_of(a, at, bits, f->a_signed), part_of(b, at, bits, f->b_signed));
    if (f->mode & VIDEO_FLAG_SAT)
      x = clamped(x, bits, f->mode & VIDEO_FLAG_SIGNED);
    merged |= ((u32)x & NONE32 >> (32 - bits)) << at;
    sum += (u32)x;
  }
  return f->mode & VIDEO_FLAG_SUM ? sum : merged;
}

#define VIDEO_OP(name, bits)                                                                                          \
  static Step op_##name(Ctx *c, const Ins *i) {                                                                       \
    FOR_LANES (c->mask, l)                                                                                            \
      R32(c, i->d[0])[l] = video(&i->form.integer, R32(c, i->s[0])[l], R32(c, i->s[1])[l], R32(c, i->s[2])[l], bits); \
    return STEP_NEXT;                                                                                                 \
  }

VIDEO_OP(VIDEO_2, 16)
VIDEO_OP(VIDEO_4, 8)

OP_TABLE(video) = {{"VIDEO_2", op_VIDEO_2}, {"VIDEO_4", op_VIDEO_4}, {NULL, NULL}};
