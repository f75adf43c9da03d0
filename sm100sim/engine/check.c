/* Observers: every handler reports its accesses and synchronisation here; nothing here can change a run. */
#include "check.h"

#define SMEM_GRAIN 4u
#define GMEM_GRAIN 16u
#define PAGE_CELLS 256u

/* ---- life cycle ---------------------------------------------------------------------------- */
void check_cluster_start(Machine *m, Cluster *cl) {
  if (!(m->opt.check & (CHECK_RACE | CHECK_PROTOCOL))) return;
  Check *k = m->check ? m->check : calloc(1, sizeof(Check));
  m->check = k; k->races = m->opt.check & CHECK_RACE; k->protocol = m->opt.check & CHECK_PROTOCOL;
  k->cluster++;
  k->warps_per_cta = cl->ctas[0].n_warps; k->n_warps = cl->n_ctas * k->warps_per_cta;
  k->mma0 = k->n_warps; k->st0 = k->mma0 + cl->n_ctas; k->cp0 = k->st0 + k->n_warps;
  k->bulk_read0 = k->cp0 + k->n_warps; k->bulk_all0 = k->bulk_read0 + k->n_warps;
  k->mbar0 = k->bulk_all0 + k->n_warps; k->dims = k->mbar0 + MAX_MBAR_DIMS; k->n_mbar = 0;
  k->warps = calloc(k->n_warps, sizeof(Clock)); k->mma = calloc(cl->n_ctas, sizeof(Clock));
  k->mma_seq = calloc(cl->n_ctas, sizeof(u32)); k->st_seq = calloc(k->n_warps, sizeof(u32));
  k->cp_seq = calloc(k->n_warps, sizeof(u32)); k->bulk_group = calloc(k->n_warps, sizeof(u32));
  k->bulk_stored = calloc(k->n_warps, sizeof(u32));
  for (u32 w = 0; w < k->n_warps; w++) { k->warps[w] = clock_new(k->dims); k->warps[w].vc[w] = 1; k->bulk_group[w] = 1; }
  for (u32 r = 0; r < cl->n_ctas; r++) k->mma[r] = clock_new(k->dims);
  k->smem = calloc(cl->n_ctas, sizeof(Cell *)); k->tmem = calloc(cl->n_ctas, sizeof(Cell *));
  for (u32 r = 0; r < cl->n_ctas; r++) {
    k->smem[r] = calloc(cl->ctas[r].smem_bytes / SMEM_GRAIN + 1, sizeof(Cell));
    k->tmem[r] = calloc(TMEM_LANES * TMEM_COLS, sizeof(Cell));
  }
}
void check_cluster_end(Machine *m, Cluster *cl) {
  Check *k = m->check;
  if (!k) return;
  for (u32 w = 0; w < k->n_warps; w++) clock_free(&k->warps[w]);
  for (u32 r = 0; r < cl->n_ctas; r++) { clock_free(&k->mma[r]); free(k->smem[r]); free(k->tmem[r]); }
  for (u32 o = 0; o < k->n_objects; o++) { clock_free(&k->objects[o]->acc); clock_free(&k->objects[o]->pub); free(k->objects[o]); }
  k->n_objects = 0;
  free(k->warps); free(k->mma); free(k->mma_seq); free(k->st_seq); free(k->cp_seq); free(k->bulk_group); free(k->bulk_stored);
  free(k->smem); free(k->tmem);
}
void check_free(Machine *m) {
  Check *k = m->check;
  if (!k) return;
  for (u64 p = 0; p < k->cap_pages; p++) free(k->pages[p].cells);
  free(k->pages); free(k->objects); free(k->ops); free(k);
}

/* ---- agents ---------------------------------------------------------------------------------- */
static Check *on(const Machine *m) { return m->check; }

void check_async_issue(Ctx *c, AsyncOp *op) {
  Check *k = on(c->m);
  if (!k) return;
  u32 w = warp_dim(k, c->cta, c->w->index);
  Clock *snapshot = malloc(sizeof(Clock));
  *snapshot = clock_new(k->dims);
  clock_copy(snapshot, &k->warps[w], k->dims);
  if (op->fifo == FIFO_MMA) {
    Clock *queue = &k->mma[op->fifo_key];
    clock_join(queue, snapshot, k->dims);
    queue->vc[k->mma0 + op->fifo_key] = ++k->mma_seq[op->fifo_key];
    clock_copy(snapshot, queue, k->dims);
  } else if (op->fifo == FIFO_TMEM_ST) {
    snapshot->vc[k->st0 + w] = ++k->st_seq[w];
  } else if (op->fifo == FIFO_CP_ASYNC) {
    snapshot->vc[k->cp0 + w] = ++k->cp_seq[w];
  }
  if (op_id(op, MAX_CLUSTER) > k->cap_ops) {
    u64 cap = op_id(op, MAX_CLUSTER) * 2 + 256;
    k->ops = realloc(k->ops, cap * sizeof(OpDone));
    memset(k->ops + k->cap_ops, 0, (cap - k->cap_ops) * sizeof(OpDone));
    k->cap_ops = cap;
  }
  /* Until an mbarrier is named, a copy's end can be learnt through its issuer's bulk group. */
  for (u32 r = 0; r < MAX_CLUSTER; r++)
    k->ops[op_id(op, r)] = (OpDone){k->bulk_all0 + w, k->bulk_group[w], k->bulk_read0 + w, k->bulk_group[w]};
  op->clock_id = (u64)(uintptr_t)snapshot;
  k->warps[w].vc[w]++;                 /* what the warp does from now on is not ordered before the operation */
}
void check_async_end(AsyncOp *op) {
  Clock *snapshot = (Clock *)(uintptr_t)op->clock_id;
  if (!snapshot) return;
  Check *k = on(op->cta->cl->m);
  u32 w = warp_dim(k, op->cta, op->warp->index);
  bool grouped = op->fifo == FIFO_NONE;     /* not when an mbarrier of any CTA learnt of it */
  for (u32 r = 0; r < MAX_CLUSTER; r++) grouped = grouped && k->ops[op_id(op, r)].dim == k->bulk_all0 + w;
  u32 group = k->ops[op_id(op, 0)].epoch;
  if (grouped && group > k->bulk_stored[w]) k->bulk_stored[w] = group;
  clock_free(snapshot); free(snapshot);
}
static Agent agent_of(const Check *k, const Ctx *c, const AsyncOp *op, Proxy p) {
  if (!op) {
    u32 w = warp_dim(k, c->cta, c->w->index);
    return (Agent){&k->warps[w], w, k->warps[w].vc[w], (u8)p, c->ins->line};
  }
  u32 w = warp_dim(k, op->cta, op->warp->index);
  Clock *snapshot = (Clock *)(uintptr_t)op->clock_id;
  u32 dim = op->fifo == FIFO_MMA ? k->mma0 + op->fifo_key : op->fifo == FIFO_TMEM_ST ? k->st0 + w : op->fifo == FIFO_CP_ASYNC ? k->cp0 + w : OP_DIM;
  return (Agent){snapshot, dim, dim == OP_DIM ? (u32)op_id(op, k->landing) : snapshot->vc[dim], (u8)p, op->line};
}
static Ctx context_of(const Ctx *c, const AsyncOp *op, Machine *m) {
  if (c) return *c;
  return (Ctx){.m = m, .cl = op->cta->cl, .cta = op->cta, .w = op->warp, .ins = op->ins, .mask = 1u << (op->lane & 31)};
}

/* ---- accesses -------------------------------------------------------------------------------- */
static void validity(Ctx *c, Cta *owner, u32 offset, u32 len, Acc a) {
  if (a != ACC_READ) { memset(owner->smem_valid + offset, 1, len); return; }
  u8 *gap = memchr(owner->smem_valid + offset, 0, len);
  if (!gap) return;
  u32 at = (u32)(gap - owner->smem_valid);
  add_finding(c->m, c, c->ins ? c->ins->line : 0, 0, false, "uninitialised-shared", "shared memory is read before anything wrote it");
  Finding *f = &c->m->findings[c->m->n_findings ? c->m->n_findings - 1 : 0];
  snprintf(f->text, sizeof f->text, "uninitialised-shared\nbyte CTA %u + 0x%x is read before anything wrote it", owner->rank, at);
  memset(owner->smem_valid + offset, 1, len);
}
static u32 grain_mask(u64 cell, u32 grain, u64 lo, u64 hi) {
  u64 base = cell * grain, from = lo > base ? lo - base : 0, to = hi < base + grain ? hi - base : grain;
  return ((1u << to) - 1) & ~((1u << from) - 1);
}
void see_smem(Ctx *c, AsyncOp *op, Cta *owner, u32 offset, u32 len, Acc a, Proxy p) {
  Machine *m = owner->cl->m;
  Check *k = on(m);
  if (!(k && k->races) && !owner->smem_valid) return;
  Ctx d = context_of(c, op, m);
  if (owner->smem_valid) validity(&d, owner, offset, len, a);
  if (!(k && k->races)) return;
  k->landing = owner->rank;
  Agent me = agent_of(k, c, op, p);
  for (u64 g = offset / SMEM_GRAIN; g * SMEM_GRAIN < offset + len; g++) {
    Where at = {"shared", owner->rank, g * SMEM_GRAIN, SMEM_GRAIN};
    race_access(&d, k, &k->smem[owner->rank][g], &me, grain_mask(g, SMEM_GRAIN, offset, offset + len), a, &at);
  }
}
void see_tmem(Ctx *c, AsyncOp *op, Cta *owner, u32 lane, u32 n_lanes, u32 col, u32 n_cols, Acc a) {
  Machine *m = owner->cl->m;
  Check *k = on(m);
  if (!(k && k->races)) return;
  Ctx d = context_of(c, op, m);
  Agent me = agent_of(k, c, op, PROXY_GENERIC);
  for (u32 l = lane; l < lane + n_lanes; l++)
    for (u32 q = col; q < col + n_cols; q++) {
      Where at = {"tmem", owner->rank, (u64)l << 16 | q, 4};
      race_access(&d, k, &k->tmem[owner->rank][(l & 127) * TMEM_COLS + (q & 511)], &me, 1, a, &at);
    }
}
static Cell *page_of(Check *k, u64 page) {
  if (k->n_pages * 2 >= k->cap_pages) {
    u64 old = k->cap_pages; Page *was = k->pages;
    k->cap_pages = old ? old * 2 : 1024; k->pages = calloc(k->cap_pages, sizeof(Page));
    for (u64 i = 0; i < old; i++)
      if (was[i].cells) {
        u64 h = was[i].page * 0x9E3779B97F4A7C15ull % k->cap_pages;
        while (k->pages[h].cells) h = (h + 1) % k->cap_pages;
        k->pages[h] = was[i];
      }
    free(was);
  }
  u64 h = page * 0x9E3779B97F4A7C15ull % k->cap_pages;
  while (k->pages[h].cells && k->pages[h].page != page) h = (h + 1) % k->cap_pages;
  if (!k->pages[h].cells) { k->pages[h] = (Page){page, calloc(PAGE_CELLS, sizeof(Cell))}; k->n_pages++; }
  return k->pages[h].cells;
}
void see_gmem(Ctx *c, AsyncOp *op, Machine *m, u64 addr, u64 len, Acc a, Proxy p) {
  Check *k = on(m);
  if (!(k && k->races)) return;
  Ctx d = context_of(c, op, m);
  Agent me = agent_of(k, c, op, p);
  for (u64 g = addr / GMEM_GRAIN; g * GMEM_GRAIN < addr + len; g++) {
    Where at = {"global", 0, g * GMEM_GRAIN, GMEM_GRAIN};
    race_access(&d, k, &page_of(k, g / PAGE_CELLS)[g % PAGE_CELLS], &me, grain_mask(g, GMEM_GRAIN, addr, addr + len), a, &at);
  }
}
