/* Vector clocks: one block of words; only the dimensions in use are joined and copied. */
#include "check/check.h"

Clock clock_new(const Check *check) {
  return mem_new(check->machine, check->clock_words, sizeof(u32));
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
  apply(into, from, check->first.mbar + check->n_mbar_dims);
  if (!check->strict_lanes) {
    apply(into + check->n_dims, from + check->n_dims, 2 * check->n_proxy_dims);
    return;
  }
  u32 proxy = 3 * check->n_warps + check->past->n_lane;
  apply(into + check->first.lane, from + check->first.lane, check->past->n_lane);
  for (u32 at = check->n_dims; at <= check->n_dims + check->n_proxy_dims; at += check->n_proxy_dims)
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
