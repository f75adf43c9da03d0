/* Machine life cycle, the table of handlers, faults and findings, and the C interface for Python. */
#define _GNU_SOURCE
#include "machine/core.h"
#include <stdarg.h>

extern const OpDef ops_control[], ops_integer[], ops_logic[], ops_floating[], ops_convert[], ops_predicate[],
    ops_warp[], ops_special[], ops_approx[], ops_half[], ops_pack[], ops_memory[], ops_atomic[], ops_matrix[],
    ops_fence[], ops_barrier[], ops_mbarrier[], ops_cluster[], ops_bulk[], ops_tma[], ops_tmem[], ops_mma[],
    ops_tcopy[];
static const OpDef *const TABLES[] = {ops_control, ops_integer, ops_logic,  ops_floating, ops_convert,  ops_predicate,
                                      ops_warp,    ops_special, ops_approx, ops_half,     ops_pack,     ops_memory,
                                      ops_atomic,  ops_matrix,  ops_fence,  ops_barrier,  ops_mbarrier, ops_cluster,
                                      ops_bulk,    ops_tma,     ops_tmem,   ops_mma,      ops_tcopy};
#define N_TABLES (sizeof TABLES / sizeof TABLES[0])

u32 sm100_opcode_count(void) {
  u32 n = 0;
  for (u32 t = 0; t < N_TABLES; t++)
    for (const OpDef *d = TABLES[t]; d->name; d++)
      n++;
  return n;
}

static const OpDef *opcode_def(u32 op) {
  for (u32 t = 0; t < N_TABLES; t++)
    for (const OpDef *d = TABLES[t]; d->name; d++)
      if (op-- == 0)
        return d;
  return NULL;
}

const char *sm100_opcode_name(u32 op) {
  const OpDef *d = opcode_def(op);
  return d ? d->name : NULL;
}

u64 rng_next(Machine *m) { /* splitmix64: the same seed repeats a run exactly */
  u64 z = (m->rng += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

/* ---- findings ------------------------------------------------------------------------------ */
void add_finding(Machine *m, const Ctx *c, u32 line, u32 line2, bool fatal, const char *code, const char *text) {
  if (fatal)
    m->faulted = true;
  for (u32 k = 0; k < m->n_findings; k++) /* one report per pair of places and kind */
    if (m->findings[k].line == line && m->findings[k].line2 == line2 &&
        strncmp(m->findings[k].text, code, strlen(code)) == 0 && !fatal) {
      m->findings[k].code++;
      return;
    }
  if (m->n_findings >= m->opt.max_findings) {
    m->lost = true;
    return;
  }
  Finding *f = &m->findings[m->n_findings++];
  memset(f, 0, sizeof *f);
  f->code = 1;
  f->line = line;
  f->line2 = line2;
  f->rank = NONE32;
  f->warp = NONE32;
  if (c && c->cta) {
    f->rank = c->cta->rank;
    memcpy(f->ctaid, c->cta->ctaid, sizeof f->ctaid);
  }
  if (c && c->w) {
    f->warp = c->w->index;
    f->lane = c->mask ? first_lane(c->mask) : 0;
  }
  snprintf(f->text, sizeof f->text, "%s%s\n%s", code, fatal ? "!" : "", text);
  if (c && c->cta && c->w) {
    u64 t = c->sp ? c->sp->t : 0;
    trace_event(m, EV_FINDING, c->cta, c->w->index, line, t, t, m->n_findings - 1, 0);
  }
}

Step fault(Ctx *c, const char *code, const char *fmt, ...) {
  char text[460];
  va_list a;
  va_start(a, fmt);
  vsnprintf(text, sizeof text, fmt, a);
  va_end(a);
  add_finding(c->m, c, c->ins ? c->ins->line : 0, 0, true, code, text);
  return STEP_FAULT;
}

void finding(Ctx *c, u32 line2, const char *code, const char *fmt, ...) {
  char text[460];
  va_list a;
  va_start(a, fmt);
  vsnprintf(text, sizeof text, fmt, a);
  va_end(a);
  add_finding(c->m, c, c->ins ? c->ins->line : 0, line2, false, code, text);
}

void fault_async(Machine *m, const AsyncOp *op, const char *code, const char *fmt, ...) {
  char text[460];
  va_list a;
  va_start(a, fmt);
  vsnprintf(text, sizeof text, fmt, a);
  va_end(a);
  Ctx c = {.m = m, .cta = op->cta, .w = op->warp, .mask = 1u << (op->lane & 31)};
  add_finding(m, &c, op->line, 0, true, code, text);
}

/* ---- clusters ------------------------------------------------------------------------------ */
static void cta_init(Machine *m, Cluster *cl, Cta *cta, u32 rank) {
  const Options *o = &m->opt;
  cta->cl = cl;
  cta->rank = rank;
  u32 r = rank;
  for (int k = 0; k < 3; k++) {
    cta->cluster_ctaid[k] = r % o->cluster[k];
    r /= o->cluster[k];
    cta->ctaid[k] = cl->id[k] * o->cluster[k] + cta->cluster_ctaid[k];
  }
  cta->smem_bytes = SMEM_RESERVED + m->prog.static_smem + o->dynamic_smem;
  cta->smem = malloc(cta->smem_bytes + 64);
  memset(cta->smem, o->poison ? 0xFF : 0, cta->smem_bytes);
  cta->mbar_at = calloc(cta->smem_bytes / 8 + 1, sizeof(u16));
  cta->tmem = malloc(sizeof(u32) * TMEM_LANES * TMEM_COLS);
  memset(cta->tmem, o->poison ? 0xFF : 0, sizeof(u32) * TMEM_LANES * TMEM_COLS);
  if (o->check & CHECK_SMEM)
    cta->smem_valid = calloc(cta->smem_bytes, 1);
  if (o->check & CHECK_TMEM)
    cta->tmem_valid = calloc(TMEM_LANES * TMEM_COLS, 1);
  u32 threads = o->block[0] * o->block[1] * o->block[2];
  cta->n_warps = (threads + LANES - 1) / LANES;
  cta->warps = calloc(cta->n_warps, sizeof(Warp));
  for (u32 k = 0; k < cta->n_warps; k++) {
    Warp *w = &cta->warps[k];
    w->cta = cta;
    w->index = k;
    w->maxnreg = m->prog.entry_regs;
    u32 left = threads - k * LANES;
    w->lanes = left >= LANES ? NONE32 : (1u << left) - 1;
    w->regs = aligned_alloc(64, m->prog.reg_bytes + 64);
    if (o->poison)
      memset(w->regs, 0xFF, m->prog.reg_bytes);
    memcpy(w->regs, m->prog.reg_init, m->prog.reg_bytes);
    if (o->check & CHECK_REGS)
      w->valid = calloc(m->prog.reg_bytes / 8 + 1, sizeof(u32));
    if (m->prog.local_bytes)
      w->local = calloc(LANES, m->prog.local_bytes);
    warp_start(w);
  }
}

Cluster *cluster_new(Machine *m, const u32 id[3]) {
  Cluster *cl = calloc(1, sizeof(Cluster));
  cl->m = m;
  memcpy(cl->id, id, sizeof cl->id);
  cl->n_ctas = m->opt.cluster[0] * m->opt.cluster[1] * m->opt.cluster[2];
  for (u32 k = 0; k < cl->n_ctas; k++) {
    cta_init(m, cl, &cl->ctas[k], k);
    for (u32 w = 0; w < cl->ctas[k].n_warps; w++)
      cl->bar_expected += (u32)__builtin_popcount(cl->ctas[k].warps[w].lanes);
  }
  check_cluster_start(m, cl);
  return cl;
}

void cluster_free(Cluster *cl) {
  async_free(cl);
  for (u32 k = 0; k < cl->n_ctas; k++) {
    Cta *cta = &cl->ctas[k];
    for (u32 w = 0; w < cta->n_warps; w++) {
      free(cta->warps[w].regs);
      free(cta->warps[w].valid);
      free(cta->warps[w].local);
    }
    free(cta->warps);
    free(cta->smem);
    free(cta->smem_valid);
    free(cta->tmem);
    free(cta->tmem_valid);
    free(cta->mbars);
    free(cta->mbar_at);
  }
  free(cl);
}

/* ---- C interface --------------------------------------------------------------------------- */
Machine *sm100_machine_new(const Options *opt) {
  Machine *m = calloc(1, sizeof(Machine));
  m->opt = *opt;
  m->rng = opt->seed;
  m->findings = calloc(opt->max_findings + 1, sizeof(Finding));
  m->op_count = calloc(sm100_opcode_count(), sizeof(u64));
  m->clusters_total = 1;
  for (int k = 0; k < 3; k++)
    m->clusters_total *= opt->grid[k] / opt->cluster[k];
  return m;
}

int sm100_machine_load(Machine *m, const RawIns *raw, u32 n, const u32 *operands, u32 n_operands, const u8 *reg_init,
                       u32 reg_bytes, const Special *specials, u32 n_specials, u32 static_smem, u32 entry_regs,
                       u32 local_bytes) {
  Program *p = &m->prog;
  p->operands = malloc(sizeof(u32) * (n_operands + 1));
  memcpy(p->operands, operands, sizeof(u32) * n_operands);
  p->code = calloc(n + 1, sizeof(Ins));
  p->n_code = n;
  for (u32 k = 0; k < n; k++) {
    const RawIns *r = &raw[k];
    const OpDef *def = opcode_def(r->op);
    if (!def)
      return (int)k + 1;
    Ins *i = &p->code[k];
    *i = (Ins){def->fn,
               r->op,
               r->line,
               r->guard,
               (u8)r->guard_neg,
               (u16)r->nd,
               (u16)r->ns,
               (u16)r->cost,
               (u16)r->unit,
               p->operands + r->opnd,
               p->operands + r->opnd + r->nd,
               r->imm,
               {0},
               r->target,
               r->reconv};
    memcpy(i->sub, r->sub, sizeof i->sub);
  }
  p->reg_init = malloc(reg_bytes);
  memcpy(p->reg_init, reg_init, reg_bytes);
  p->reg_bytes = reg_bytes;
  p->specials = malloc(sizeof(Special) * (n_specials + 1));
  memcpy(p->specials, specials, sizeof(Special) * n_specials);
  p->n_specials = n_specials;
  p->static_smem = static_smem;
  p->entry_regs = entry_regs;
  p->local_bytes = local_bytes;
  m->line_count = calloc(n + 1, sizeof(u64));
  return 0;
}

void sm100_machine_memory(Machine *m, const Region *regions, u32 n, const u8 *params) {
  m->regions = malloc(sizeof(Region) * (n + 1));
  memcpy(m->regions, regions, sizeof(Region) * n);
  m->n_regions = n;
  m->params = params;
}

bool machine_claim_cluster(Machine *m, u32 id[3]) {
  if (m->clusters_done >= m->clusters_total)
    return false;
  u64 k = m->clusters_done++;
  for (int d = 0; d < 3; d++) {
    u32 n = m->opt.grid[d] / m->opt.cluster[d];
    id[d] = (u32)(k % n);
    k /= n;
  }
  return true;
}

int sm100_machine_run(Machine *m, volatile u64 *progress, u64 max_clusters) {
  m->progress_out = progress;
  u32 id[3];
  for (u64 k = 0; k < max_clusters && !m->faulted && !m->stop && machine_claim_cluster(m, id); k++) {
    m->tracing = m->opt.trace_cluster == m->clusters_done - 1;
    Cluster *cl = cluster_new(m, id);
    cluster_run(m, cl);
    check_cluster_end(m, cl);
    cluster_free(cl);
    if (progress) {
      progress[0] = m->clusters_done;
      progress[2] = m->instructions;
    }
  }
  return m->faulted ? 1 : 0;
}

u32 sm100_machine_findings(Machine *m, Finding *out, u32 cap) {
  u32 n = m->n_findings < cap ? m->n_findings : cap;
  memcpy(out, m->findings, sizeof(Finding) * n);
  return n;
}

u64 sm100_machine_events(Machine *m, Event *out, u64 cap) {
  if (out)
    memcpy(out, m->events, sizeof(Event) * (m->n_events < cap ? m->n_events : cap));
  return m->n_events;
}

void sm100_machine_counts(Machine *m, u64 *per_op, u64 *per_ins, u64 totals[11]) {
  memcpy(per_op, m->op_count, sizeof(u64) * sm100_opcode_count());
  memcpy(per_ins, m->line_count, sizeof(u64) * m->prog.n_code);
  u64 t[11] = {m->instructions,
               m->thread_instructions,
               m->clusters_done,
               m->clusters_total,
               m->bytes_tma_load,
               m->bytes_tma_store,
               m->mma_count,
               m->mma_flops,
               m->t_end,
               m->faulted,
               m->lost};
  memcpy(totals, t, sizeof t);
}

void sm100_machine_stop(Machine *m) {
  m->stop = 1;
}

void sm100_machine_free(Machine *m) {
  check_free(m);
  free(m->prog.code);
  free(m->prog.operands);
  free(m->prog.reg_init);
  free(m->prog.specials);
  free(m->regions);
  free(m->findings);
  free(m->events);
  free(m->op_count);
  free(m->line_count);
  free(m);
}
