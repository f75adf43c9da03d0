/* Vector clocks. */
#include "check.h"

Clock clock_new(u32 dims) { return (Clock){calloc(dims, sizeof(u32)), calloc(dims, sizeof(u32))}; }
void clock_free(Clock *c) { free(c->vc); free(c->ac); c->vc = c->ac = NULL; }
void clock_join(Clock *into, const Clock *from, u32 dims) {
  for (u32 k = 0; k < dims; k++) {
    into->vc[k] = into->vc[k] > from->vc[k] ? into->vc[k] : from->vc[k];
    into->ac[k] = into->ac[k] > from->ac[k] ? into->ac[k] : from->ac[k];
  }
}
void clock_copy(Clock *into, const Clock *from, u32 dims) {
  memcpy(into->vc, from->vc, dims * sizeof(u32));
  memcpy(into->ac, from->ac, dims * sizeof(u32));
}
