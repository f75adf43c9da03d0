/* Vector clocks: one block of words; only the dimensions in use are joined and copied. */
#include "check.h"

Clock clock_new(const Check *k) { return calloc(k->words, sizeof(u32)); }
static inline void join(u32 *into, const u32 *from, u32 n) {
  for (u32 d = 0; d < n; d++) into[d] = into[d] > from[d] ? into[d] : from[d];
}
void raise_to(u32 *into, const u32 *from, u32 n) { join(into, from, n); }

/* The parts of a clock that are in use, first word and length. */
#define PARTS 4u
static void parts(const Check *k, u32 at[PARTS][2]) {
  u32 proxy = k->strict_lanes ? 3 * k->n_warps + k->n_lane : k->n_proxy;
  u32 all[PARTS][2] = {{0, k->mbar0 + k->n_mbar}, {k->lane0, k->n_lane}, {k->dims, proxy}, {k->dims + k->n_proxy, proxy}};
  memcpy(at, all, sizeof all);
}
void clock_join(const Check *k, Clock into, const u32 *from) {
  u32 at[PARTS][2];
  parts(k, at);
  for (u32 p = 0; p < PARTS; p++) join(into + at[p][0], from + at[p][0], at[p][1]);
}
void clock_copy(const Check *k, Clock into, const u32 *from) {
  u32 at[PARTS][2];
  parts(k, at);
  for (u32 p = 0; p < PARTS; p++) memcpy(into + at[p][0], from + at[p][0], at[p][1] * sizeof(u32));
}
void *grow(void *p, u32 n, u32 *cap, size_t item) {
  if (n < *cap) return p;
  *cap = *cap ? 2 * *cap : 16;
  return realloc(p, *cap * item);
}
