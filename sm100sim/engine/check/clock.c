/* Vector clocks: one block of words; only the dimensions in use are joined and copied. */
#include "check/check.h"

Clock clock_new(const Check *k) {
  return calloc(k->words, sizeof(u32));
}

void raise_to(u32 *into, const u32 *from, u32 n) {
  for (u32 d = 0; d < n; d++)
    into[d] = into[d] > from[d] ? into[d] : from[d];
}

static void set_to(u32 *into, const u32 *from, u32 n) {
  memcpy(into, from, n * sizeof(u32));
}

static inline void each_part(const Check *k, Clock into, const u32 *from,
                             void (*apply)(u32 *into, const u32 *from, u32 n)) {
  apply(into, from, k->mbar0 + k->n_mbar);
  if (!k->strict_lanes) {
    apply(into + k->dims, from + k->dims, 2 * k->n_proxy);
    return;
  }
  u32 proxy = 3 * k->n_warps + k->n_lane;
  apply(into + k->lane0, from + k->lane0, k->n_lane);
  for (u32 at = k->dims; at <= k->dims + k->n_proxy; at += k->n_proxy)
    apply(into + at, from + at, proxy);
}

void clock_join(const Check *k, Clock into, const u32 *from) {
  each_part(k, into, from, raise_to);
}

void clock_copy(const Check *k, Clock into, const u32 *from) {
  each_part(k, into, from, set_to);
}

void *grow(void *p, u32 n, u32 *cap, size_t item) {
  if (n < *cap)
    return p;
  *cap = *cap ? 2 * *cap : 16;
  return realloc(p, *cap * item);
}
