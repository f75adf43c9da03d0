/* What handlers report of their accesses: records of who touched which cell, under which clock. */
#include "check/check.h"

#define GMEM_GRAIN 16u

/* ---- agents ---------------------------------------------------------------------------------- */
static Agent agent_of(Check *check, const Ctx *c, const AsyncOp *op, Proxy p) {
  const Cta *cta = op ? op->cta : c->cta;
  u32 w = warp_dim(check, cta, op ? op->warp->index : c->w->index);
  if (!op)
    return (Agent){lanes_view(check, w, c->mask), w, check->warps[w][w], w, c->ins->line, (u8)p, false, 0};
  const Issue *issue = issue_of(op);
  Agent a = {issue->at, OP_DIM, issue->id + check->landing, w, op->line, (u8)p, op->fifo == FIFO_MMA, issue->met};
  if (op->fifo == FIFO_NONE)
    return a;
  a.dim = (op->fifo == FIFO_MMA || op->fifo == FIFO_WGMMA ? check->first.mma
           : op->fifo == FIFO_TMEM_ST                     ? check->first.st
                                                          : check->first.cp) +
          w;
  a.epoch = issue->epoch;
  return a;
}

static Ctx context_of(const Ctx *c, const AsyncOp *op, Machine *m) {
  if (c)
    return *c;
  return (Ctx){.m = m, .cl = op->cta->cl, .cta = op->cta, .w = op->warp, .ins = op->ins, .mask = lane_bit(op->lane)};
}

static Rec record_of(const Check *check, const Agent *me, u32 mask, u32 kind) {
  return (Rec){.epoch = me->epoch,
               .dim = (u16)me->dim,
               .mask = (u16)mask,
               .line = me->line,
               .cluster = check->cluster,
               .kind = kind,
               .proxy = me->proxy == PROXY_ASYNC};
}

/* The bits of Rec.kind.  Atomics have at least device scope here: no atom or red without one is narrower. */
static u32 kind_of(Acc a) {
  u32 scope = a / ACC_SCOPE;
  if ((a & ACC_KIND) == ACC_ATOMIC && !scope)
    scope = SCOPE_DEVICE;
  return ((a & ACC_KIND) == ACC_READ ? 0 : KIND_WRITE) | scope << KIND_SCOPE_SHIFT;
}

/* ---- accesses -------------------------------------------------------------------------------- */
static void validity(Ctx *c, Cta *owner, u32 offset, u32 len, Acc a) {
  u8 *valid = owner->smem_valid + offset, *gap = (a & ACC_KIND) == ACC_WRITE ? NULL : memchr(valid, 0, len);
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

/* A generic access of a warp to one cell with CHECK_STRICT_LANES.  In shared memory each lane's bytes are a record;
 * elsewhere, and where lanes touch the same bytes, one record stands for all, unless one of the lanes knows more than
 * the others. */
static void touch(Ctx *d, Check *check, Cell *cell, Agent *me, Rec now, const Where *at, u64 start) {
  u64 lo = at->address + (u32)__builtin_ctz(now.mask), hi = at->address + 32u - (u32)__builtin_clz(now.mask);
  u32 lanes = lanes_at(d, start, lo, hi), whole = now.mask;
  bool apart = check->apart[me->warp] & lanes, many = lanes & (lanes - 1);
  if (!many || !(apart || (d->each && !at->global))) {
    now.lanes = lane_set(d, check, lanes);
    me->clock = apart ? lanes_view(check, me->warp, lanes) : check->warps[me->warp];
    if (!race_repeat(check, cell, me, &now, at->global))
      race_access(d, check, cell, me, &now, at);
    return;
  }
  FOR_LANES (lanes, l) {
    now.mask = (u16)mask_of_lane(d, start, at->address, l, whole);
    now.lanes = 1 + l;
    me->clock = lanes_view(check, me->warp, 1u << l);
    if (!race_repeat(check, cell, me, &now, at->global))
      race_access(d, check, cell, me, &now, at);
  }
}

void see_smem(Ctx *c, AsyncOp *op, Cta *owner, u32 offset, u32 len, Acc a, Proxy p) {
  Machine *m = owner->cl->m;
  Check *check = m->check;
  if (!check && !owner->smem_valid)
    return;
  Ctx d = context_of(c, op, m);
  if (owner->smem_valid)
    validity(&d, owner, offset, len, a);
  if (!check)
    return;
  check->landing = owner->rank;
  Agent me = agent_of(check, c, op, p);
  if (cta_of(check, me.warp) != owner->rank)
    see_remote(&d, op, owner, &me);
  if (!check->races)
    return;
  Rec now = record_of(check, &me, 0, kind_of(a));
  bool lanes = !op && check->strict_lanes;
  now.lanes = op || lanes ? 0 : lane_set(&d, check, d.mask);
  for (u64 g = offset / SMEM_GRAIN; g * SMEM_GRAIN < offset + len; g++) {
    Cell *cell = &check->smem[owner->rank][g];
    now.mask = (u16)grain_mask(g, SMEM_GRAIN, offset, offset + len);
    Where at = {"shared", owner->rank, g * SMEM_GRAIN, false, false};
    if (lanes)
      touch(&d, check, cell, &me, now, &at, offset);
    else if (!race_repeat(check, cell, &me, &now, false))
      race_access(&d, check, cell, &me, &now, &at);
  }
}

/* Many kernels use no Tensor Memory: its cells come with the first access. */
static Cell *tmem_cells(Check *check, const Cta *owner) {
  if (!check->tmem[owner->rank])
    check->tmem[owner->rank] = mem_new(check->machine, TMEM_LANES * TMEM_COLS, sizeof(Cell));
  return check->tmem[owner->rank];
}

static void tmem_block(Ctx *d, Check *check, const Agent *me, const Cta *owner, const u32 block[4], u32 kind) {
  Rec now = record_of(check, me, 1, kind);
  Cell *cells = tmem_cells(check, owner);
  for (u32 l = block[0]; l < block[0] + block[1]; l++)
    for (u32 q = block[2]; q < block[2] + block[3]; q++) {
      Cell *cell = &cells[l % TMEM_LANES * TMEM_COLS + q % TMEM_COLS];
      if (race_repeat(check, cell, me, &now, false))
        continue;
      Where at = {"tmem", owner->rank, (u64)l << 16 | q, false, true};
      race_access(d, check, cell, me, &now, &at);
    }
}

void see_tmem(Ctx *c, AsyncOp *op, Cta *owner, u32 lane, u32 n_lanes, u32 col, u32 n_cols, Acc a) {
  Machine *m = owner->cl->m;
  Check *check = m->check;
  if (!(check && check->races))
    return;
  Ctx d = context_of(c, op, m);
  Agent me = agent_of(check, c, op, PROXY_GENERIC);
  tmem_block(&d, check, &me, owner, (u32[]){lane, n_lanes, col, n_cols}, kind_of(a));
}

void see_tmem_ld(Ctx *c, u32 lane, u32 n_lanes, u32 col, u32 n_cols) {
  Check *check = c->m->check;
  if (!(check && check->races))
    return;
  Agent me = agent_of(check, c, NULL, PROXY_GENERIC);
  me.dim = check->first.ld + me.warp;
  me.epoch = check->loads[me.warp].seq;
  tmem_block(c, check, &me, c->cta, (u32[]){lane, n_lanes, col, n_cols}, 0);
}

/* Columns get a new owner: the accesses to the former allocation were checked against its dealloc. */
void see_tmem_alloc(Ctx *c, Cta *owner, u32 col, u32 n_cols, bool pair) {
  Check *check = c->m->check;
  if (!(check && check->races))
    return;
  Cell *cells = tmem_cells(check, owner);
  for (u32 l = 0; l < TMEM_LANES; l++)
    for (u32 q = col; q < col + n_cols; q++)
      cell_clear(&cells[l * TMEM_COLS + q]);
  if (!pair)
    see_tmem(c, NULL, owner, 0, TMEM_LANES, col, n_cols, ACC_WRITE);
}

static u64 place_of(const Past *past, u64 page) {
  u64 h = page * 0x9E3779B97F4A7C15ull >> 32 & (past->cap_pages - 1);
  while (past->pages[h].cells && past->pages[h].page != page)
    h = (h + 1) & (past->cap_pages - 1);
  return h;
}

static void more_pages(Machine *m, Past *past) {
  u64 old = past->cap_pages;
  Page *was = past->pages;
  past->cap_pages = old ? old * 2 : 1024; /* a power of two */
  past->pages = mem_new(m, past->cap_pages, sizeof(Page));
  for (u64 i = 0; i < old; i++)
    if (was[i].cells)
      past->pages[place_of(past, was[i].page)] = was[i];
  mem_free(was);
}

static Cell *page_of(Check *check, u64 page) {
  Past *past = check->past;
  if (past->last.cells && past->last.page == page)
    return past->last.cells;
  if (past->n_pages * 2 >= past->cap_pages)
    more_pages(check->machine, past);
  Page *at = &past->pages[place_of(past, page)];
  if (!at->cells) {
    *at = (Page){page, mem_new(check->machine, PAGE_CELLS, sizeof(Cell))};
    past->n_pages++;
  }
  past->last = *at;
  return at->cells;
}

void see_gmem(Ctx *c, AsyncOp *op, Machine *m, u64 addr, u64 len, Acc a, Proxy p) {
  Check *check = m->check;
  if (!(check && check->races))
    return;
  Ctx d = context_of(c, op, m);
  Agent me = agent_of(check, c, op, p);
  Rec now = record_of(check, &me, 0, kind_of(a));
  bool lanes = !op && check->strict_lanes;
  now.lanes = op || lanes ? 0 : lane_set(&d, check, d.mask);
  for (u64 g = addr / GMEM_GRAIN; g * GMEM_GRAIN < addr + len; g++) {
    Cell *cell = &page_of(check, g / PAGE_CELLS)[g % PAGE_CELLS];
    Where at = {"global", 0, g * GMEM_GRAIN, true, false};
    now.mask = (u16)grain_mask(g, GMEM_GRAIN, addr, addr + len);
    if (lanes)
      touch(&d, check, cell, &me, now, &at, addr);
    else if (op || !race_repeat(check, cell, &me, &now, true))
      race_access(&d, check, cell, &me, &now, &at);
  }
}
