/* Vector clocks: one block of words; only the dimensions in use are joined and copied. */
#include "check/check.h"

Clock clock_new(const Check *check) {
  return mem_new(check->machine, check->words, sizeof(u32));
}

void raise_to(u32 *into, const u32 *from, u32 n) {
  for (u32 d = 0; d < n; d++)
    into[d] = into[d] > from[d] ? into[d] : from[d];
}

static void set_to(u32 *into, const u32 *from, u32 n) {
  memcpy(into, from, n * sizeof(u32));
}

static void lower_to(u32 *into, const u32 *from, u32 n) {
  for (u32 d = 0; d < n; d++)
    into[d] = into[d] < from[d] ? into[d] : from[d];
}

static inline void each_part(const Check *check, Clock into, const u32 *from,
                             void (*apply)(u32 *into, const u32 *from, u32 n)) {
  apply(into, from, check->mbar0 + check->n_mbar);
  if (!check->strict_lanes) {
    apply(into + check->dims, from + check->dims, 2 * check->n_proxy);
    return;
  }
  u32 proxy = 3 * check->n_warps + check->past->n_lane;
  apply(into + check->lane0, from + check->lane0, check->past->n_lane);
  for (u32 at = check->dims; at <= check->dims + check->n_proxy; at += check->n_proxy)
    apply(into + at, from + at, proxy);
}

void clock_join(const Check *check, Clock into, const u32 *from) {
  each_part(check, into, from, raise_to);
}

void clock_copy(const Check *check, Clock into, const u32 *from) {
  each_part(check, into, from, set_to);
}

/* What both know. */
void clock_meet(const Check *check, Clock into, const u32 *from) {
  each_part(check, into, from, lower_to);
}
