/* Work that its own thread waits for: bulk async-groups, and tcgen05.ld through its registers. */
#include "check/check.h"

/* ---- bulk async-groups ------------------------------------------------------------------------ */
/* A wait of one lane says nothing of another lane's copies: the warp's clock advances to the oldest open copy. */
static void bulk_advance(const Ctx *c, Check *check, u32 w) {
  BulkLog *log = &check->bulk[w];
  u32 kept = 0, unread = 0;
  for (u32 i = 0; i < log->n; i++) {
    if (!log->open[i].read && !unread)
      unread = log->open[i].seq;
    if (!log->open[i].all)
      log->open[kept++] = log->open[i];
  }
  log->n = kept;
  FOR_CLOCKS (c, check, w, own) {
    own[check->first.bulk_read + w] = unread ? unread - 1 : log->seq;
    own[check->first.bulk_all + w] = kept ? log->open[0].seq - 1 : log->seq;
  }
}

void see_bulk_join(Ctx *c, AsyncOp *op) {
  Check *check = c->m->check;
  if (!check)
    return;
  u32 w = warp_dim(check, c->cta, c->w->index);
  BulkLog *log = &check->bulk[w];
  log->open = mem_grow(c->m, log->open, log->n, &log->cap, sizeof *log->open);
  log->open[log->n++] = (BulkRec){.seq = ++log->seq, .lane = op->lane, .group = op->group};
  for (u32 r = 0; r < check->n_ctas; r++)
    check->past->ops[issue_of(op)->id + r] = (OpDone){check->first.bulk_all + w, log->seq, check->first.bulk_read + w,
                                                      log->seq, w};
}

/* The lanes of c->mask know that all but their `pending` newest groups are complete, or have been read. */
void see_bulk_wait(Ctx *c, u32 pending, bool read_only) {
  Check *check = c->m->check;
  if (!check)
    return;
  u32 w = warp_dim(check, c->cta, c->w->index);
  BulkLog *log = &check->bulk[w];
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
    bulk_advance(&theirs, check, w);
}

/* ---- tcgen05.ld ------------------------------------------------------------------------------- */
static void loads_advance(Check *check, Warp *warp, u32 w) {
  const LoadLog *log = &check->loads[w];
  warp->loads_open = log->n;
  lanes_set(check, w, check->first.ld + w, log->n ? log->open[0].seq - 1 : log->seq);
}

void loads_waited(Check *check, Warp *warp, u32 w) {
  LoadLog *log = &check->loads[w];
  for (u32 i = 0; i < log->n; i++)
    for (u32 s = 0; s < log->open[i].n_slots; s++)
      log->of[slot_index(log->open[i].slots[s])] = 0;
  log->n = 0;
  loads_advance(check, warp, w);
}

/* The instruction starts a load into the registers d[0], d[1], ... */
void see_load(Ctx *c, const u32 *slots, u32 n) {
  Check *check = c->m->check;
  if (!check || !(check->races || check->strict_ld))
    return;
  u32 w = warp_dim(check, c->cta, c->w->index);
  LoadLog *log = &check->loads[w];
  if (!log->of)
    log->of = mem_new(c->m, c->m->prog.reg_bytes / SLOT_GRAIN + 1, sizeof(u32));
  log->open = mem_grow(c->m, log->open, log->n, &log->cap, sizeof *log->open);
  log->open[log->n++] = (Load){log->seq = check->warps[w][w]++, c->ins->line, slots,
                               n}; /* the epoch as its number, like an MMA's */
  for (u32 s = 0; s < n; s++)
    log->of[slot_index(slots[s])] = log->seq;
  c->w->loads_open = log->n;
}

static void complete(Ctx *c, Check *check, u32 w, u32 seq, bool use) {
  LoadLog *log = &check->loads[w];
  u32 i = 0;
  while (log->open[i].seq != seq)
    i++;
  const Load load = log->open[i];
  if (use && check->strict_ld)
    finding(c, load.line, "ld-not-waited",
            "warp %u of CTA %u uses a register of the tcgen05.ld at PTX line %u; missing: a tcgen05.wait::ld before "
            "the use",
            c->w->index, c->cta->rank, load.line);
  for (u32 s = 0; s < load.n_slots; s++)
    if (log->of[slot_index(load.slots[s])] == seq)
      log->of[slot_index(load.slots[s])] = 0;
  memmove(log->open + i, log->open + i + 1, (--log->n - i) * sizeof(Load));
  loads_advance(check, c->w, w);
}

/* An instruction that reads or overwrites a register waits for the load that writes it. */
void see_registers(Ctx *c, const Ins *i) {
  Check *check = c->m->check;
  u32 w = warp_dim(check, c->cta, c->w->index), *of = check->loads[w].of;
  for (u32 s = 0; s < i->ns && c->w->loads_open; s++)
    if (of[slot_index(i->s[s])])
      complete(c, check, w, of[slot_index(i->s[s])], true);
  for (u32 d = 0; d < i->nd && c->w->loads_open; d++)
    if (of[slot_index(i->d[d])])
      complete(c, check, w, of[slot_index(i->d[d])], false);
}
