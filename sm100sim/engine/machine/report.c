/* Findings, faults, and the timeline of the traced cluster. */
#include "machine/report.h"
#include "machine/alloc.h"
#include "machine/registers.h"
#include <stdarg.h>

/* The finding that one more of the same is counted in. */
static RawFinding *same_finding(Machine *m, Place at, const char *code) {
  for (u32 k = 0; k < m->n_findings; k++) {
    RawFinding *f = &m->findings[k];
    if (f->severity == SEVERITY_FINDING && f->line == at.line && f->line2 == at.line2 && !strcmp(f->code, code))
      return f;
  }
  return NULL;
}

/* The calls that led to the executing function, the innermost first; a return goes on after its call. */
static void add_callers(RawFinding *f, const Ctx *c) {
  const char *word = "; called at";
  size_t used = strlen(f->text);
  for (i32 k = c->sp->join; k >= 0; k = c->w->joins[k].parent) {
    const Join *j = &c->w->joins[k];
    if (j->at != NONE32)
      continue;
    u32 line = c->m->prog.code[j->pc - 1].line;
    int n = snprintf(f->text + used, sizeof f->text - used, "%s PTX line %u", word, line);
    if (n < 0 || used + (size_t)n >= sizeof f->text - 8) {
      snprintf(f->text + used, sizeof f->text - used, " ...");
      return;
    }
    used += (size_t)n;
    word = ",";
  }
}

void add_finding(Machine *m, Place at, Severity severity, const char *code, const char *text) {
  RawFinding *same = severity == SEVERITY_FINDING ? same_finding(m, at, code) : NULL;
  if (same) {
    same->count++;
    return;
  }
  u64 room = (u64)m->opt.max_findings + (severity == SEVERITY_FAULT && !m->faulted); /* the first fault has a place */
  m->faulted |= severity == SEVERITY_FAULT;
  if (m->n_findings >= room) {
    m->lost = true;
    return;
  }
  const Ctx *c = at.c;
  RawFinding *f = &m->findings[m->n_findings++];
  *f = (RawFinding){.severity = severity,
                    .count = 1,
                    .line = at.line,
                    .line2 = at.line2,
                    .rank = NONE32,
                    .warp = NONE32,
                    .cluster = c && c->cta ? c->cta->cl->index : 0};
  snprintf(f->code, sizeof f->code, "%s", code);
  snprintf(f->text, sizeof f->text, "%s", text);
  if (!c || !c->cta)
    return;
  f->rank = c->cta->rank;
  memcpy(f->ctaid, c->cta->ctaid, sizeof f->ctaid);
  if (!c->w)
    return;
  f->warp = c->w->index;
  f->lane = c->mask ? first_lane(c->mask) : 0;
  u64 t = c->sp ? c->sp->t : 0;
  if (c->sp && strcmp(code, "unsupported"))
    add_callers(f, c);
  trace_event(m, EV_FINDING, c->cta, c->w->index, at.line, t, t, m->n_findings - 1, 0);
}

bool first_told(Cta *cta, Told habit) {
  bool first = !(cta->told & habit);
  cta->told |= habit;
  return first;
}

static u32 line_of(const Ctx *c) {
  return c->ins ? c->ins->line : 0;
}

Step fault(Ctx *c, const char *code, const char *fmt, ...) {
  char text[TEXT_BYTES];
  va_list a;
  va_start(a, fmt);
  vsnprintf(text, sizeof text, fmt, a);
  va_end(a);
  add_finding(c->m, (Place){c, line_of(c), 0}, SEVERITY_FAULT, code, text);
  return STEP_FAULT;
}

void finding(Ctx *c, u32 line2, const char *code, const char *fmt, ...) {
  char text[TEXT_BYTES];
  va_list a;
  va_start(a, fmt);
  vsnprintf(text, sizeof text, fmt, a);
  va_end(a);
  add_finding(c->m, (Place){c, line_of(c), line2}, SEVERITY_FINDING, code, text);
}

void fault_async(Machine *m, const AsyncOp *op, const char *code, const char *fmt, ...) {
  char text[TEXT_BYTES];
  va_list a;
  va_start(a, fmt);
  vsnprintf(text, sizeof text, fmt, a);
  va_end(a);
  Ctx c = {.m = m, .cta = op->cta, .w = op->warp, .mask = lane_bit(op->lane)};
  add_finding(m, (Place){&c, op->line, 0}, SEVERITY_FAULT, code, text);
}

void trace_event(Machine *m, EventKind kind, Cta *cta, u32 warp, u32 line, u64 t0, u64 t1, u64 a, u64 b) {
  if (!m->tracing)
    return;
  if (m->n_events == m->cap_events) {
    u64 more = m->cap_events ? 2 * m->cap_events : 4096;
    m->events = mem_resize(m, m->events, more, sizeof(RawEvent));
    m->cap_events = more;
  }
  m->events[m->n_events++] = (RawEvent){
      .kind = kind, .rank = cta->rank, .warp = warp, .line = line, .t0 = t0, .t1 = t1, .a = a, .b = b};
}
