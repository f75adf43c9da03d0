/* Registers of a warp: a slot is 32 lanes of one register. */
#ifndef SM100SIM_REGISTERS_H
#define SM100SIM_REGISTERS_H
#include "machine/state.h"

#define R32(c, off) ((u32 *)((c)->r + (off))) /* 32 lanes of 32 bit (also b8, b16, f32) */
#define RI32(c, off) ((i32 *)((c)->r + (off)))
#define RF32(c, off) ((float *)((c)->r + (off)))
#define R64(c, off) ((u64 *)((c)->r + (off))) /* 32 lanes of 64 bit */
#define RI64(c, off) ((i64 *)((c)->r + (off)))
#define RF64(c, off) ((double *)((c)->r + (off)))
#define R128LO(c, off) ((u64 *)((c)->r + (off))) /* b128: 32 low halves, then 32 high halves */
#define R128HI(c, off) ((u64 *)((c)->r + (off)) + LANES)
#define PRED(c, off) (*(u32 *)((c)->r + (off))) /* predicate: one lane mask */
#define FOR_LANES(m, l) for (u32 m_ = (m), l; m_ && (l = (u32)__builtin_ctz(m_), 1); m_ &= m_ - 1)
/* The lanes of c->mask; the compiler vectorises the loop over all. */
#define IVDEP _Pragma("GCC ivdep")
#define LANE_LOOP(body)                     \
  if (c->mask == NONE32) {                  \
    IVDEP for (u32 l = 0; l < LANES; l++) { \
      body;                                 \
    }                                       \
  } else {                                  \
    FOR_LANES (c->mask, l) {                \
      body;                                 \
    }                                       \
  }

static inline u32 first_lane(u32 mask) {
  return (u32)__builtin_ctz(mask);
}

/* Index of a slot in Warp.valid and in other tables that have one entry per slot. */
static inline u32 slot_index(u32 slot) {
  return slot / SLOT_GRAIN;
}

static inline u32 lane_bit(u32 lane) {
  return 1u << lane % LANES;
}

static inline void set_pred(Ctx *c, u32 off, u32 bits) {
  PRED(c, off) = (PRED(c, off) & ~c->mask) | (bits & c->mask);
}
#endif
