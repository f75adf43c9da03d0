/* Timeline events of the traced cluster, in modelled cycles. */
#include "machine/core.h"

void trace_event(Machine *m, EventKind k, Cta *cta, u32 warp, u32 line, u64 t0, u64 t1, u64 a, u64 b) {
  if (!m->tracing)
    return;
  if (m->n_events == m->cap_events) {
    m->cap_events = m->cap_events ? 2 * m->cap_events : 4096;
    m->events = realloc(m->events, m->cap_events * sizeof(Event));
  }
  m->events[m->n_events++] = (Event){(u32)k, cta->rank, warp, 0, line, t0, t1, a, b};
}
