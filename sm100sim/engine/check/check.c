/* Observers: every handler reports its accesses and synchronisation here; nothing here can change a run. */
#include "check/check.h"

#define SMEM_GRAIN 4u
#define GMEM_GRAIN 16u
#define PAGE_CELLS 256u

/* ---- life cycle ---------------------------------------------------------------------------- */
static void lay_out(Check *k, const Cluster *cl) {
  u32 n = cl->n_ctas * cl->ctas[0].n_warps;
  k->n_warps = n;
  k->warps_per_cta = cl->ctas[0].n_warps;
  k->n_ctas = cl->n_ctas;
  k->cp0 = n;
  k->mma0 = 2 * n;
  k->st0 = 3 * n;
  k->ld0 = 4 * n;
  k->bulk_read0 = 5 * n;
  k->bulk_all0 = 6 * n;
  k->init0 = 7 * n;
  k->foreign0 = 8 * n;
  k->tensor0 = k->foreign0 + MAX_FOREIGN;
  k->exec0 = k->tensor0 + k->bulk_read0;
  k->all0 = k->exec0 + n;
  k->mbar0 = k->all0 + (k->strict_lanes ? n : 0);
  k->lane0 = k->mbar0 + MAX_MBAR_DIMS;
  k->dims = k->lane0 + (k->strict_lanes ? MAX_LANE_DIMS : 0);
  k->n_proxy = k->strict_lanes ? 3 * n + MAX_LANE_DIMS : 2 * n;
  k->after0 = k->dims + 2 * k->n_proxy;
  k->words = k->after0 + (k->strict_fence ? k->bulk_read0 : 0);
  k->n_mbar = 0;
}

void check_cluster_start(Machine *m, Cluster *cl) {
  if (!(m->opt.check &
        (CHECK_RACE | CHECK_PROTOCOL | CHECK_STRICT_LD | CHECK_STRICT_FENCE | CHECK_STRICT_LANES | CHECK_STRICT_SCOPE)))
    return;
  Check *k = m->check ? m->check : calloc(1, sizeof(Check));
  m->check = k;
  k->races = m->opt.check & CHECK_RACE;
  k->protocol = m->opt.check & CHECK_PROTOCOL;
  k->strict_ld = m->opt.check & CHECK_STRICT_LD;
  k->strict_fence = m->opt.check & CHECK_STRICT_FENCE;
  k->strict_lanes = m->opt.check & CHECK_STRICT_LANES;
  k->strict_scope = m->opt.check & CHECK_STRICT_SCOPE;
  k->cluster++;
  k->n_foreign = 0;
  lay_out(k, cl);
  u32 n = k->n_warps;
  k->warps = calloc(n, sizeof(Clock));
  k->rel = calloc(n, sizeof *k->rel);
  k->pend = calloc(n, sizeof *k->pend);
  k->before = calloc(n, sizeof(Clock));
  k->mma_epoch = calloc(n, sizeof(u32));
  k->st_seq = calloc(n, sizeof(u32));
  k->cp_seq = calloc(n, sizeof(u32));
  k->inits = calloc(n, sizeof(u32));
  k->met = calloc(n, sizeof(u32));
  k->touched = calloc(k->mbar0, sizeof *k->touched);
  k->bulk = calloc(n, sizeof(BulkLog));
  k->loads = calloc(n, sizeof(LoadLog));
  lanes_start(k);
  for (u32 w = 0; w < n; w++) {
    k->warps[w] = clock_new(k);
    k->warps[w][w] = 1;
    k->warps[w][k->init0 + w] = 1;
  }
  k->smem = calloc(cl->n_ctas, sizeof(Cell *));
  k->tmem = calloc(cl->n_ctas, sizeof(Cell *));
  for (u32 r = 0; r < cl->n_ctas && k->races; r++) {
    k->smem[r] = calloc(cl->ctas[r].smem_bytes / SMEM_GRAIN + 1, sizeof(Cell));
    k->tmem[r] = calloc(TMEM_LANES * TMEM_COLS, sizeof(Cell));
  }
}

static void cells_free(Cell *cells, size_t n) {
  for (size_t c = 0; cells && c < n; c++)
    free(cells[c].more);
  free(cells);
}

static void object_free(SyncObject *o) {
  for (u32 g = 0; g < PUBLISHED; g++)
    free(o->pub[g]);
  free(o->acc);
  free(o->near);
  free(o->near_pub);
  free(o->generation);
  free(o->waited);
  free(o->wait_line);
  free(o);
}

void check_cluster_end(Machine *m, Cluster *cl) {
  Check *k = m->check;
  if (!k)
    return;
  for (u32 w = 0; w < k->n_warps; w++) {
    free(k->warps[w]);
    free(k->before[w]);
    free(k->bulk[w].open);
    free(k->loads[w].of);
    free(k->loads[w].open);
    for (u32 s = 0; s < 3; s++) {
      free(k->rel[w][s]);
      free(k->pend[w][s]);
    }
  }
  for (u32 r = 0; r < cl->n_ctas; r++) {
    cells_free(k->smem[r], cl->ctas[r].smem_bytes / SMEM_GRAIN + 1);
    cells_free(k->tmem[r], TMEM_LANES * TMEM_COLS);
  }
  for (u32 o = 0; o < k->n_objects; o++)
    object_free(k->objects[o]);
  k->n_objects = 0;
  flags_end_cluster(k);
  lanes_end(k);
  free(k->warps);
  free(k->rel);
  free(k->pend);
  free(k->before);
  free(k->mma_epoch);
  free(k->st_seq);
  free(k->cp_seq);
  free(k->inits);
  free(k->met);
  free(k->touched);
  free(k->bulk);
  free(k->loads);
  free(k->smem);
  free(k->tmem);
}

void check_free(Machine *m) {
  Check *k = m->check;
  if (!k)
    return;
  for (u64 p = 0; p < k->cap_pages; p++)
    cells_free(k->pages[p].cells, PAGE_CELLS);
  flags_free(k);
  free(k->pages);
  free(k->objects);
  free(k->ops);
  free(k->lane_dim);
  free(k);
}

/* ---- agents ---------------------------------------------------------------------------------- */
static Check *on(const Machine *m) {
  return m->check;
}

void check_async_issue(Ctx *c, AsyncOp *op) {
  Check *k = on(c->m);
  if (!k)
    return;
  u32 w = warp_dim(k, c->cta, c->w->index);
  Issue *issue = calloc(1, sizeof(Issue));
  issue->at = clock_new(k);
  const u32 *own = lanes_view(k, w, c->mask);
  clock_copy(k, issue->at, own);
  lanes_mark(c, k, w, own[w], issue->at + k->all0, issue->at + k->lane0);
  issue->met = k->met[w];
  if (k->strict_fence)
    memcpy(issue->at + k->after0, own + k->after0, k->bulk_read0 * sizeof(u32));
  op->clock_id = (u64)(uintptr_t)issue;
  switch (op->fifo) {
    /* The warp's epoch serves as the number of the operation: it says both when it was issued and, in the MMA
     * dimension, that it and all before it are complete. */
    case FIFO_MMA:
      issue->at[k->mma0 + w] = issue->epoch = k->mma_epoch[w] = k->warps[w][w];
      break;
    case FIFO_TMEM_ST:
      issue->at[k->st0 + w] = issue->epoch = ++k->st_seq[w];
      break;
    case FIFO_CP_ASYNC:
      issue->epoch = ++k->cp_seq[w];
      break;
    default:
      issue->id = (u32)k->n_ops;
      while (k->n_ops + k->n_ctas > k->cap_ops) {
        k->cap_ops = k->cap_ops ? 2 * k->cap_ops : 256;
        k->ops = realloc(k->ops, k->cap_ops * sizeof(OpDone));
      }
      for (u32 r = 0; r < k->n_ctas; r++)
        k->ops[k->n_ops++] = (OpDone){.warp = w};
      if (k->n_ops >= NONE32)
        c->m->lost = true; /* the numbers of copies start again */
  }
  k->warps[w][w]++; /* what the warp does from now on is not ordered before the operation */
}

void check_async_end(AsyncOp *op) {
  Issue *issue = issue_of(op);
  if (!issue)
    return;
  free(issue->at);
  free(issue);
}

static Agent agent_of(Check *k, const Ctx *c, const AsyncOp *op, Proxy p) {
  const Cta *cta = op ? op->cta : c->cta;
  u32 w = warp_dim(k, cta, op ? op->warp->index : c->w->index);
  if (!op)
    return (Agent){lanes_view(k, w, c->mask), w, k->warps[w][w], w, c->ins->line, (u8)p, false, 0};
  const Issue *issue = issue_of(op);
  Agent a = {issue->at, OP_DIM, issue->id + k->landing, w, op->line, (u8)p, op->fifo == FIFO_MMA, issue->met};
  if (op->fifo == FIFO_NONE)
    return a;
  a.dim = (op->fifo == FIFO_MMA ? k->mma0 : op->fifo == FIFO_TMEM_ST ? k->st0 : k->cp0) + w;
  a.epoch = issue->epoch;
  return a;
}

static Ctx context_of(const Ctx *c, const AsyncOp *op, Machine *m) {
  if (c)
    return *c;
  return (Ctx){.m = m, .cl = op->cta->cl, .cta = op->cta, .w = op->warp, .ins = op->ins, .mask = 1u << (op->lane & 31)};
}

static Rec record_of(const Check *k, const Agent *me, u32 mask, u32 kind) {
  return (Rec){.epoch = me->epoch,
               .dim = (u16)me->dim,
               .mask = (u16)mask,
               .line = me->line,
               .cluster = k->cluster,
               .kind = kind,
               .proxy = me->proxy};
}

/* The bits of Rec.kind.  Atomics have at least device scope here: no atom or red without one is narrower. */
static u32 kind_of(Acc a) {
  u32 scope = a >> 2 & 3;
  if ((a & 3) == ACC_ATOMIC && !scope)
    scope = 3;
  return ((a & 3) != ACC_READ) | scope << 1;
}

/* ---- accesses -------------------------------------------------------------------------------- */
static void validity(Ctx *c, Cta *owner, u32 offset, u32 len, Acc a) {
  u8 *valid = owner->smem_valid + offset, *gap = (a & 3) == ACC_WRITE ? NULL : memchr(valid, 0, len);
  if (gap)
    finding(c, 0, "uninitialised-shared", "byte CTA %u + 0x%x is read before anything wrote it", owner->rank,
            (u32)(gap - owner->smem_valid));
  memset(valid, 1, len);
}

static u32 grain_mask(u64 cell, u32 grain, u64 lo, u64 hi) {
  u64 base = cell * grain, from = lo > base ? lo - base : 0, to = hi < base + grain ? hi - base : grain;
  return ((1u << to) - 1) & ~((1u << from) - 1);
}

/* Lanes of c->mask that touch bytes [lo, hi) of an access from `start` on, and those bytes of one of them. */
static u32 lanes_at(const Ctx *c, u64 start, u64 lo, u64 hi) {
  if (!c->each)
    return c->mask;
  u32 first = (u32)(lo - start) / c->each, last = (u32)(hi - 1 - start) / c->each;
  return (NONE32 >> (31 - last) & NONE32 << first) << first_lane(c->mask);
}

static u32 mask_of_lane(const Ctx *c, u64 start, u64 base, u32 lane, u32 mask) {
  if (!c->each)
    return mask;
  u64 from = start + (lane - first_lane(c->mask)) * c->each, to = from + c->each;
  u32 lo = from > base ? (u32)(from - base) : 0, hi = to - base < 16 ? (u32)(to - base) : 16;
  return mask & ((1u << hi) - 1) & ~((1u << lo) - 1);
}

/* A generic access of a warp to one cell.  In shared memory each lane's bytes are a record; elsewhere, and where lanes
 * touch the same bytes, one record stands for all, unless one of the lanes knows more than the others. */
static void touch(Ctx *d, Check *k, Cell *cell, Agent *me, Rec now, const Where *at, u64 start) {
  u64 lo = at->address + (u32)__builtin_ctz(now.mask), hi = at->address + 32u - (u32)__builtin_clz(now.mask);
  u32 lanes = k->strict_lanes ? lanes_at(d, start, lo, hi) : d->mask, whole = now.mask;
  bool apart = k->apart[me->warp] & lanes, many = lanes & (lanes - 1);
  if (!k->strict_lanes || !many || !(apart || (d->each && !at->global))) {
    now.lanes = lane_set(d, k, lanes);
    if (k->strict_lanes)
      me->clock = apart ? lanes_view(k, me->warp, lanes) : k->warps[me->warp];
    if (!race_repeat(k, cell, me, &now))
      race_access(d, k, cell, me, &now, at);
    return;
  }
  FOR_LANES (lanes, l) {
    now.mask = (u16)mask_of_lane(d, start, at->address, l, whole);
    now.lanes = 1 + l;
    me->clock = lanes_view(k, me->warp, 1u << l);
    if (!race_repeat(k, cell, me, &now))
      race_access(d, k, cell, me, &now, at);
  }
}

void see_smem(Ctx *c, AsyncOp *op, Cta *owner, u32 offset, u32 len, Acc a, Proxy p) {
  Machine *m = owner->cl->m;
  Check *k = on(m);
  if (!k && !owner->smem_valid)
    return;
  Ctx d = context_of(c, op, m);
  if (owner->smem_valid)
    validity(&d, owner, offset, len, a);
  if (!k)
    return;
  k->landing = owner->rank;
  Agent me = agent_of(k, c, op, p);
  if (cta_of(k, me.warp) != owner->rank)
    see_remote(&d, op, owner, &me);
  if (!k->races)
    return;
  Rec now = record_of(k, &me, 0, kind_of(a));
  for (u64 g = offset / SMEM_GRAIN; g * SMEM_GRAIN < offset + len; g++) {
    Cell *cell = &k->smem[owner->rank][g];
    now.mask = (u16)grain_mask(g, SMEM_GRAIN, offset, offset + len);
    Where at = {"shared", owner->rank, g * SMEM_GRAIN, false, false};
    if (!op) {
      touch(&d, k, cell, &me, now, &at, offset);
      continue;
    }
    if (!race_repeat(k, cell, &me, &now))
      race_access(&d, k, cell, &me, &now, &at);
  }
}

static void tmem_block(Ctx *d, Check *k, const Agent *me, const Cta *owner, const u32 block[4], u32 kind) {
  Rec now = record_of(k, me, 1, kind);
  for (u32 l = block[0]; l < block[0] + block[1]; l++)
    for (u32 q = block[2]; q < block[2] + block[3]; q++) {
      Cell *cell = &k->tmem[owner->rank][(l & 127) * TMEM_COLS + (q & 511)];
      if (race_repeat(k, cell, me, &now))
        continue;
      Where at = {"tmem", owner->rank, (u64)l << 16 | q, false, true};
      race_access(d, k, cell, me, &now, &at);
    }
}

void see_tmem(Ctx *c, AsyncOp *op, Cta *owner, u32 lane, u32 n_lanes, u32 col, u32 n_cols, Acc a) {
  Machine *m = owner->cl->m;
  Check *k = on(m);
  if (!(k && k->races))
    return;
  Ctx d = context_of(c, op, m);
  Agent me = agent_of(k, c, op, PROXY_GENERIC);
  tmem_block(&d, k, &me, owner, (u32[]){lane, n_lanes, col, n_cols}, kind_of(a));
}

void see_tmem_ld(Ctx *c, u32 lane, u32 n_lanes, u32 col, u32 n_cols) {
  Check *k = on(c->m);
  if (!(k && k->races))
    return;
  Agent me = agent_of(k, c, NULL, PROXY_GENERIC);
  me.dim = k->ld0 + me.warp;
  me.epoch = k->loads[me.warp].seq;
  tmem_block(c, k, &me, c->cta, (u32[]){lane, n_lanes, col, n_cols}, 0);
}

/* Columns get a new owner: the accesses to the former allocation were checked against its dealloc. */
void see_tmem_alloc(Ctx *c, Cta *owner, u32 col, u32 n_cols, bool pair) {
  Check *k = on(c->m);
  if (!(k && k->races))
    return;
  for (u32 l = 0; l < TMEM_LANES; l++)
    for (u32 q = col; q < col + n_cols; q++)
      cell_clear(&k->tmem[owner->rank][l * TMEM_COLS + q]);
  if (!pair)
    see_tmem(c, NULL, owner, 0, TMEM_LANES, col, n_cols, ACC_WRITE);
}

static Cell *page_of(Check *k, u64 page) {
  if (k->n_pages * 2 >= k->cap_pages) {
    u64 old = k->cap_pages;
    Page *was = k->pages;
    k->cap_pages = old ? old * 2 : 1024;
    k->pages = calloc(k->cap_pages, sizeof(Page));
    for (u64 i = 0; i < old; i++)
      if (was[i].cells) {
        u64 h = was[i].page * 0x9E3779B97F4A7C15ull % k->cap_pages;
        while (k->pages[h].cells)
          h = (h + 1) % k->cap_pages;
        k->pages[h] = was[i];
      }
    free(was);
  }
  u64 h = page * 0x9E3779B97F4A7C15ull % k->cap_pages;
  while (k->pages[h].cells && k->pages[h].page != page)
    h = (h + 1) % k->cap_pages;
  if (!k->pages[h].cells) {
    k->pages[h] = (Page){page, calloc(PAGE_CELLS, sizeof(Cell))};
    k->n_pages++;
  }
  return k->pages[h].cells;
}

void see_gmem(Ctx *c, AsyncOp *op, Machine *m, u64 addr, u64 len, Acc a, Proxy p) {
  Check *k = on(m);
  if (!(k && k->races))
    return;
  Ctx d = context_of(c, op, m);
  Agent me = agent_of(k, c, op, p);
  for (u64 g = addr / GMEM_GRAIN; g * GMEM_GRAIN < addr + len; g++) {
    Where at = {"global", 0, g * GMEM_GRAIN, true, false};
    Rec now = record_of(k, &me, grain_mask(g, GMEM_GRAIN, addr, addr + len), kind_of(a));
    Cell *cell = &page_of(k, g / PAGE_CELLS)[g % PAGE_CELLS];
    if (op)
      race_access(&d, k, cell, &me, &now, &at);
    else
      touch(&d, k, cell, &me, now, &at, addr);
  }
}
