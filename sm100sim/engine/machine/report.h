/* What a run reports: faults, which stop it, findings, and events of the timeline. */
#ifndef SM100SIM_REPORT_H
#define SM100SIM_REPORT_H
#include "machine/state.h"

/* A fault at the current instruction. */
__attribute__((format(printf, 3, 4))) Step fault(Ctx *c, const char *code, const char *fmt, ...);
/* A fault at the landing of an asynchronous operation. */
__attribute__((format(printf, 4, 5))) void fault_async(Machine *m, const AsyncOp *op, const char *code, const char *fmt,
                                                       ...);
/* A finding at the current instruction; `line2` is the second place, or 0. */
__attribute__((format(printf, 4, 5))) void finding(Ctx *c, u32 line2, const char *code, const char *fmt, ...);

/* What a kernel does wherever it does it: the first place in each CTA is a finding, the others are not. */
typedef enum {
  TOLD_LANES = 1,
  TOLD_UNALLOCATED = 2,
  TOLD_BARRIER_RANK = 4,
  TOLD_FREED = 8,
  TOLD_PARITY = 16,
  TOLD_PARTS = 32
} Told;

bool first_told(Cta *cta, Told habit);

/* Where something was found: `c` (or NULL) says who, `line` and `line2` are PTX lines. */
typedef struct {
  const Ctx *c;
  u32 line, line2;
} Place;

/* Findings of one code at one pair of places are counted; each fault is an entry of its own. */
void add_finding(Machine *m, Place at, Severity severity, const char *code, const char *text);

/* Timeline event of the traced cluster; times of the run's own clock. */
void trace_event(Machine *m, EventKind kind, Cta *cta, u32 warp, u32 line, u64 t0, u64 t1, u64 a, u64 b);
#endif
