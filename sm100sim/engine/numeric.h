/* Macros that write one handler per typed form: a lane loop that the compiler vectorises when all
 * lanes are active. */
#ifndef SM100SIM_NUMERIC_H
#define SM100SIM_NUMERIC_H
#include "engine.h"
#include <math.h>

#define LANE_LOOP(body) \
  if (c->mask == NONE32) { for (u32 l = 0; l < LANES; l++) { body; } } else { FOR_LANES(c->mask, l) { body; } }
#define REGS(T, off) ((T *)(c->r + (off)))
/* Handlers with one, two, three sources: D, T are the C types of destination and source lanes. */
#define UNARY(name, D, T, expr) \
  static Step op_##name(Ctx *c, const Ins *i) { D *d = REGS(D, i->d[0]); const T *x = REGS(T, i->s[0]); \
    LANE_LOOP(T a = x[l]; d[l] = (D)(expr)) return STEP_NEXT; }
#define BINARY(name, D, T, expr) \
  static Step op_##name(Ctx *c, const Ins *i) { D *d = REGS(D, i->d[0]); const T *x = REGS(T, i->s[0]), *y = REGS(T, i->s[1]); \
    LANE_LOOP(T a = x[l]; T b = y[l]; d[l] = (D)(expr)) return STEP_NEXT; }
#define TERNARY(name, D, T, U, expr) \
  static Step op_##name(Ctx *c, const Ins *i) { D *d = REGS(D, i->d[0]); const T *x = REGS(T, i->s[0]), *y = REGS(T, i->s[1]); \
    const U *z = REGS(U, i->s[2]); LANE_LOOP(T a = x[l]; T b = y[l]; U e = z[l]; d[l] = (D)(expr)) return STEP_NEXT; }
/* Shift: the amount is 32 bit. */
#define SHIFT(name, D, T, expr) \
  static Step op_##name(Ctx *c, const Ins *i) { D *d = REGS(D, i->d[0]); const T *x = REGS(T, i->s[0]); const u32 *y = REGS(u32, i->s[1]); \
    LANE_LOOP(T a = x[l]; u32 n = y[l]; d[l] = (D)(expr)) return STEP_NEXT; }

static inline u32 bits_of(float x) { u32 u; memcpy(&u, &x, 4); return u; }
static inline float float_of(u32 u) { float x; memcpy(&x, &u, 4); return x; }
static inline u64 bits_of64(double x) { u64 u; memcpy(&u, &x, 8); return u; }
static inline double double_of(u64 u) { double x; memcpy(&x, &u, 8); return x; }
#define NAN32 0x7FFFFFFFu
/* Subnormal -> zero of the same sign (.ftz). */
static inline float flush(float x) { u32 u = bits_of(x); return (u & 0x7F800000u) ? x : float_of(u & 0x80000000u); }
/* NaN results of f32 arithmetic are canonical (PTX ISA, "Floating Point Instructions"). */
static inline float canon(float x) { return x == x ? x : float_of(NAN32); }
#endif
