/* Work that its own thread waits for: bulk async-groups, and tcgen05.ld through its registers. */
#include "check/check.h"

/* ---- bulk async-groups ------------------------------------------------------------------------ */
/* A wait of one lane says nothing of another lane's copies: the warp's clock advances to the oldest open copy. */
static void bulk_advance(const Ctx *c, Check *k, u32 w) {
  BulkLog *log = &k->bulk[w];
  u32 kept = 0, unread = 0;
  for (u32 i = 0; i < log->n; i++) {
    if (!log->open[i].read && !unread)
      unread = log->open[i].seq;
    if (!log->open[i].all)
      log->open[kept++] = log->open[i];
  }
  log->n = kept;
  FOR_CLOCKS(c, k, w, own) {
    own[k->bulk_read0 + w] = unread ? unread - 1 : log->seq;
    own[k->bulk_all0 + w] = kept ? log->open[0].seq - 1 : log->seq;
  }
}

void see_bulk_join(Ctx *c, AsyncOp *op) {
  Check *k = c->m->check;
  if (!k)
    return;
  u32 w = warp_dim(k, c->cta, c->w->index);
  BulkLog *log = &k->bulk[w];
  log->open = grow(log->open, log->n, &log->cap, sizeof *log->open);
  log->open[log->n++] = (BulkRec){.seq = ++log->seq, .lane = op->lane, .group = op->group};
  for (u32 r = 0; r < k->n_ctas; r++)
    k->ops[issue_of(op)->id + r] = (OpDone){k->bulk_all0 + w, log->seq, k->bulk_read0 + w, log->seq, w};
}

/* The lanes of c->mask know that all but their `pending` newest groups are complete, or have been read. */
void see_bulk_wait(Ctx *c, u32 pending, bool read_only) {
  Check *k = c->m->check;
  if (!k)
    return;
  u32 w = warp_dim(k, c->cta, c->w->index);
  BulkLog *log = &k->bulk[w];
  Ctx theirs = *c;
  theirs.mask = 0;
  for (u32 i = 0; i < log->n; i++) {
    BulkRec *r = &log->open[i];
    u32 groups = c->w->bulk_groups[r->lane];
    if (!(c->mask >> r->lane & 1) || r->group + pending >= groups)
      continue;
    r->read = true;
    r->all |= !read_only;
    theirs.mask |= 1u << r->lane;
  }
  if (theirs.mask)
    bulk_advance(&theirs, k, w);
}

/* ---- tcgen05.ld ------------------------------------------------------------------------------- */
static void loads_advance(Check *k, Warp *warp, u32 w) {
  const LoadLog *log = &k->loads[w];
  warp->loads_open = log->n;
  lanes_set(k, w, k->ld0 + w, log->n ? log->open[0].seq - 1 : log->seq);
}

void loads_waited(Check *k, Warp *warp, u32 w) {
  LoadLog *log = &k->loads[w];
  for (u32 i = 0; i < log->n; i++)
    for (u32 s = 0; s < log->open[i].n_slots; s++)
      log->of[log->open[i].slots[s] >> 3] = 0;
  log->n = 0;
  loads_advance(k, warp, w);
}

/* The instruction starts a load into the registers d[0], d[1], ... */
void see_load(Ctx *c, const u32 *slots, u32 n) {
  Check *k = c->m->check;
  if (!k || !(k->races || k->strict_ld))
    return;
  u32 w = warp_dim(k, c->cta, c->w->index);
  LoadLog *log = &k->loads[w];
  if (!log->of)
    log->of = calloc(c->m->prog.reg_bytes / 8 + 1, sizeof(u32));
  log->open = grow(log->open, log->n, &log->cap, sizeof *log->open);
  log->open[log->n++] = (Load){log->seq = k->warps[w][w]++, c->ins->line, slots,
                               n}; /* the epoch as its number, like an MMA's */
  for (u32 s = 0; s < n; s++)
    log->of[slots[s] >> 3] = log->seq;
  c->w->loads_open = log->n;
}

static void complete(Ctx *c, Check *k, u32 w, u32 seq, bool use) {
  LoadLog *log = &k->loads[w];
  u32 i = 0;
  while (log->open[i].seq != seq)
    i++;
  const Load load = log->open[i];
  if (use && k->strict_ld)
    finding(c, load.line, "ld-not-waited",
            "warp %u of CTA %u uses a register of the tcgen05.ld at PTX line %u; missing: a tcgen05.wait::ld before "
            "the use",
            c->w->index, c->cta->rank, load.line);
  for (u32 s = 0; s < load.n_slots; s++)
    if (log->of[load.slots[s] >> 3] == seq)
      log->of[load.slots[s] >> 3] = 0;
  memmove(log->open + i, log->open + i + 1, (--log->n - i) * sizeof(Load));
  loads_advance(k, c->w, w);
}

/* An instruction that reads or overwrites a register waits for the load that writes it. */
void see_registers(Ctx *c, const Ins *i) {
  Check *k = c->m->check;
  u32 w = warp_dim(k, c->cta, c->w->index), *of = k->loads[w].of;
  for (u32 s = 0; s < i->ns && c->w->loads_open; s++)
    if (of[i->s[s] >> 3])
      complete(c, k, w, of[i->s[s] >> 3], true);
  for (u32 d = 0; d < i->nd && c->w->loads_open; d++)
    if (of[i->d[d] >> 3])
      complete(c, k, w, of[i->d[d] >> 3], false);
}
