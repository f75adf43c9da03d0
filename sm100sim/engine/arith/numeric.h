/* Macros that write one handler per typed form: a lane loop that the compiler vectorises when all
 * lanes are active.
 *
 * Two slots of a warp are the same slot or disjoint, and lane l only reads lane l, so that a loop
 * over the lanes carries no dependence (the ivdep pragma).  The modifiers are copied
 * out of the instruction because the compiler cannot know that a lane store leaves them alone. */
#ifndef SM100SIM_NUMERIC_H
#define SM100SIM_NUMERIC_H
#include "machine/handler.h"
#include <math.h>

#define REGS(T, off) ((T *)(c->r + (off)))
#define MODIFIERS                           \
  const IntegerForm form = i->form.integer; \
  (void)form
#define HANDLER(name) static Step op_##name(Ctx *c, const Ins *i)
/* Handlers with one, two, three sources: D, T, U are the C types of destination and source lanes. */
#define UNARY(name, D, T, expr)              \
  HANDLER(name) {                            \
    D *d = REGS(D, i->d[0]);                 \
    const T *x = REGS(T, i->s[0]);           \
    MODIFIERS;                               \
    LANE_LOOP(T a = x[l]; d[l] = (D)(expr)); \
    return STEP_NEXT;                        \
  }
#define BINARY(name, D, T, expr)                          \
  HANDLER(name) {                                         \
    D *d = REGS(D, i->d[0]);                              \
    const T *x = REGS(T, i->s[0]), *y = REGS(T, i->s[1]); \
    MODIFIERS;                                            \
    LANE_LOOP(T a = x[l]; T b = y[l]; d[l] = (D)(expr));  \
    return STEP_NEXT;                                     \
  }
#define TERNARY(name, D, T, U, expr)                                 \
  HANDLER(name) {                                                    \
    D *d = REGS(D, i->d[0]);                                         \
    const T *x = REGS(T, i->s[0]), *y = REGS(T, i->s[1]);            \
    const U *z = REGS(U, i->s[2]);                                   \
    MODIFIERS;                                                       \
    LANE_LOOP(T a = x[l]; T b = y[l]; U e = z[l]; d[l] = (D)(expr)); \
    return STEP_NEXT;                                                \
  }
/* Shifts and bit fields of any width: the amounts are 32 bit. */
#define SHIFT(name, D, T, expr)                            \
  HANDLER(name) {                                          \
    D *d = REGS(D, i->d[0]);                               \
    const T *x = REGS(T, i->s[0]);                         \
    const u32 *y = REGS(u32, i->s[1]);                     \
    LANE_LOOP(T a = x[l]; u32 n = y[l]; d[l] = (D)(expr)); \
    return STEP_NEXT;                                      \
  }

static inline u32 bits_of(float x) {
  u32 u;
  memcpy(&u, &x, 4);
  return u;
}

static inline float float_of(u32 u) {
  float x;
  memcpy(&x, &u, 4);
  return x;
}

static inline u64 bits_of64(double x) {
  u64 u;
  memcpy(&u, &x, 8);
  return u;
}

static inline double double_of(u64 u) {
  double x;
  memcpy(&x, &u, 8);
  return x;
}

#define NAN32 0x7FFFFFFFu

/* Subnormal -> zero of the same sign (.ftz). */
static inline float flush(float x) {
  u32 u = bits_of(x);
  return (u & 0x7F800000u) ? x : float_of(u & 0x80000000u);
}

/* NaN results of f32 arithmetic are canonical (PTX ISA, "Floating Point Instructions"). */
static inline float canon(float x) {
  return x == x ? x : float_of(NAN32);
}

/* x * y + z rounded to odd, operands of 24 bits or fewer: the product is exact, and Knuth's sum gives the
 * error's sign.  Comparing it with a number of fewer bits gives what comparing the exact result would. */
static inline double fma_odd(double x, double y, double z) {
  double p = x * y, s = p + z, back = s - p, error = (p - (s - back)) + (z - back);
  u64 u = bits_of64(s);
  bool outward = (error > 0) == (s > 0);
  u = (error < 0 || error > 0) && !(u & 1) ? (outward ? u + 1 : u - 1) : u;
  return double_of(u);
}

/* Whether .ftz flushes an exact result: when it stays below the smallest normal number 2^lowest also after
 * rounding to `bits` bits with an exponent that has no lower end (H200 record; the ISA says "subnormal").
 * `mode`: nearest, to zero, down, up, in the order of Rounding in formats.h. */
static inline bool flushed(double exact, u32 mode, int lowest, int bits) {
  double size = fabs(exact), smallest = ldexp(1.0, lowest), quantum = ldexp(1.0, lowest - bits);
  bool outward = (mode == 2 && exact < 0) || (mode == 3 && exact > 0);
  return mode == 0 ? size < smallest - quantum / 2 : outward ? size <= smallest - quantum : size < smallest;
}

/* f64: a NaN result is an operand's, sign and payload kept, made quiet; without a NaN operand it is negative
 * with an empty payload (H200 record). */
#define NAN64 0xFFF8000000000000ull

static inline double quiet(double x) {
  return double_of(bits_of64(x) | 1ull << 51);
}

/* .sat: to [0, 1]; NaN and -0 become +0. */
static inline float saturate(float x) {
  return !(x > 0.0f) ? 0.0f : x > 1.0f ? 1.0f : x;
}

/* Minimum and maximum of two numbers, where -0 < +0. */
static inline float lesser(float a, float b) {
  float z = float_of(bits_of(a) | bits_of(b)), v = a < b ? a : b;
  return a == b ? z : v;
}

static inline float greater(float a, float b) {
  float z = float_of(bits_of(a) & bits_of(b)), v = a > b ? a : b;
  return a == b ? z : v;
}

/* The same where a NaN operand is ignored, or with `nan` wins; two NaNs give the canonical one. */
static inline float extreme(float a, float b, bool max, bool nan) {
  float less = lesser(a, b), more = greater(a, b), v = max ? more : less;
  v = a != a ? b : v;
  v = b != b ? a : v;
  bool undefined = nan ? (a != a) | (b != b) : (a != a) & (b != b);
  return undefined ? float_of(NAN32) : v;
}
#endif
