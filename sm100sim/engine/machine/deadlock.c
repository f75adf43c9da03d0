/* The report of a cluster in which nothing can move: who waits, at which line, for which barrier. */
#include "machine/core.h"
#include "sync/mbarrier.h"

static const char *const WAITS[] = {
    "nothing",    "mbarrier",   "named barrier",  "cluster barrier",        "lanes of its own warp", "tcgen05.alloc",
    "setmaxnreg", "bulk group", "cp.async group", "wgmma of its warpgroup", "another event"};

static void describe_mbarrier(char *out, size_t n, Cluster *cl, const Why *y) {
  Mbar *b = y->rank < cl->n_ctas ? mbar_at(&cl->ctas[y->rank], y->addr) : NULL;
  if (!b) {
    snprintf(out, n, "mbarrier at CTA %u + 0x%x (not alive)", y->rank, y->addr);
    return;
  }
  snprintf(out, n,
           "mbarrier CTA %u + 0x%x for parity %llu: phase %llu, pending arrivals %lld of %u, tx bytes %lld, "
           "initialised at PTX line %u",
           y->rank, y->addr, (unsigned long long)y->want, (unsigned long long)b->phase, (long long)b->pending,
           b->expected, (long long)b->tx, b->init_line);
}

static void describe(char *out, size_t n, Cluster *cl, const Cta *cta, const Split *sp) {
  const Why *y = &sp->why;
  switch (y->kind) {
    case WAIT_MBARRIER:
      describe_mbarrier(out, n, cl, y);
      return;
    case WAIT_NAMED:
      snprintf(out, n, "named barrier %u: %u of %u threads arrived", y->addr, cta->named[y->addr % MAX_NAMED].arrived,
               cta->named[y->addr % MAX_NAMED].count);
      return;
    case WAIT_CLUSTER:
      snprintf(out, n, "cluster barrier: %u of %u threads arrived", cl->bar_arrived, cl->bar_expected);
      return;
    case WAIT_WARP:
      snprintf(out, n, "lanes %08llx of its own warp at a .sync instruction", (unsigned long long)y->want);
      return;
    case WAIT_SETMAXNREG:
      snprintf(out, n,
               "setmaxnreg to %u registers per thread: %llu registers more than the %u of the CTA's pool, %u per "
               "thread at launch",
               y->addr, (unsigned long long)y->want, register_pool(cta), cl->m->prog.entry_regs);
      return;
    case WAIT_WGMMA:
      snprintf(out, n, "number %llu of the wgmma of its warpgroup, of which all four warps have issued %u",
               (unsigned long long)y->want, y->addr);
      return;
    default:
      snprintf(out, n, "%s (0x%x, %llu)", WAITS[y->kind], y->addr, (unsigned long long)y->want);
  }
}

void report_deadlock(Machine *m, Cluster *cl) {
  for (u32 k = 0; k < cl->n_ctas; k++)
    for (u32 w = 0; w < cl->ctas[k].n_warps; w++)
      for (u32 s = 0; s < LANES; s++) {
        Split *sp = &cl->ctas[k].warps[w].splits[s];
        if (!sp->live)
          continue;
        char what[280], text[400];
        describe(what, sizeof what, cl, &cl->ctas[k], sp);
        snprintf(text, sizeof text, "warp %u of CTA rank %u waits for %s", w, k, what);
        Ctx c = {.m = m, .cl = cl, .cta = &cl->ctas[k], .w = &cl->ctas[k].warps[w], .sp = sp, .mask = sp->mask};
        add_finding(m, (Place){&c, m->prog.code[sp->pc].line, 0}, SEVERITY_FAULT, "deadlock", text);
      }
}
