/* Vector clocks: one block of words; only the dimensions in use are joined and copied. */
#include "check.h"

Clock clock_new(const Check *k) { return calloc(k->words, sizeof(u32)); }
static inline void join(u32 *into, const u32 *from, u32 n) {
  for (u32 d = 0; d < n; d++) into[d] = into[d] > from[d] ? into[d] : from[d];
}
void clock_join(const Check *k, Clock into, const u32 *from) {
  join(into, from, k->mbar0 + k->n_mbar);
  join(into + k->dims, from + k->dims, 2 * k->n_proxy);
}
void clock_copy(const Check *k, Clock into, const u32 *from) {
  memcpy(into, from, (k->mbar0 + k->n_mbar) * sizeof(u32));
  memcpy(into + k->dims, from + k->dims, 2 * k->n_proxy * sizeof(u32));
}
void *grow(void *p, u32 n, u32 *cap, size_t item) {
  if (n < *cap) return p;
  *cap = *cap ? 2 * *cap : 16;
  return realloc(p, *cap * item);
}
