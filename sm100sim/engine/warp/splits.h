/* Divergence: splits and the joins that collect them. */
#ifndef SM100SIM_SPLITS_H
#define SM100SIM_SPLITS_H
#include "machine/core.h"

/* A join of the executing split's lanes at `pc`; its own one where that is the same. */
i32 join_at(Ctx *c, u32 pc);
/* A new join for `expect`, which go on at `pc`; a return arrives at it. */
i32 join_call(Ctx *c, u32 pc, u32 expect, i32 parent);
bool join_complete(const Warp *w, i32 index);
/* All lanes of a join have arrived or left: they go on as one split, in `sp` when that is free. */
void join_finish(Warp *w, i32 index, Split *sp);
/* Lanes of the executing split go on at `pc` by themselves, in its join; they may arrive there at once. */
Split *split_off(Ctx *c, u32 mask, u32 pc);
void split_end(Warp *w, Split *sp);

/* Lanes of `mask` that hold what its first lane holds. */
static inline u32 same_word(const u32 *values, u32 mask) {
  u32 same = 0, first = values[first_lane(mask)];
  FOR_LANES (mask, l)
    same |= (u32)(values[l] == first) << l;
  return same;
}
#endif
