/* The rule of the race checker: of two overlapping accesses, one of them a write, the earlier must
 * happen before the later; a generic access before an asynchronous one must also be fenced. */
#include "check.h"

typedef enum { ORDERED, UNORDERED, UNFENCED } Order;

static Order order(const Check *k, const Agent *me, const Rec *r) {
  if (r->cluster != k->cluster) return UNORDERED;
  u32 dim = r->dim, epoch = r->epoch;
  if (dim & OP_DIM) {
    const OpDone *done = &k->ops[epoch];
    if (!r->write && done->epoch2 && me->clock->vc[done->dim2] >= done->epoch2) return ORDERED;
    if (!done->epoch || me->clock->vc[done->dim] < done->epoch) return UNORDERED;
    return ORDERED;
  }
  bool own = dim == me->dim;
  if (!own && me->clock->vc[dim] < epoch) return UNORDERED;
  if (r->write && r->proxy == PROXY_GENERIC && me->proxy == PROXY_ASYNC && me->clock->ac[dim] < epoch) return UNFENCED;
  return ORDERED;
}
static const SyncObject *object_of_dim(const Check *k, u32 dim) {
  for (u32 o = 0; o < k->n_objects; o++) if (k->objects[o]->is_mbar && k->objects[o]->dim == dim) return k->objects[o];
  return NULL;
}
static void who(const Check *k, char *out, size_t n, u32 dim, u32 epoch) {
  if (dim & OP_DIM) { snprintf(out, n, "asynchronous copy %u", epoch / MAX_CLUSTER); return; }
  u32 w = dim, per = k->warps_per_cta;
  if (dim < k->mma0) { snprintf(out, n, "warp %u of CTA %u", w % per, w / per); return; }
  if (dim < k->st0) { snprintf(out, n, "the MMA pipe of CTA %u", dim - k->mma0); return; }
  if (dim < k->cp0) { w = dim - k->st0; snprintf(out, n, "tcgen05.st of warp %u, CTA %u", w % per, w / per); return; }
  snprintf(out, n, "cp.async of warp %u, CTA %u", (dim - k->cp0) % per, (dim - k->cp0) / per);
}
/* Which edge would order the earlier access before others. */
static void missing_edge(const Check *k, char *out, size_t n, const Rec *r, Order o) {
  if (r->cluster != k->cluster) { snprintf(out, n, "clusters of a grid are not ordered"); return; }
  if (o == UNFENCED) { snprintf(out, n, "a fence.proxy.async between the generic write and the asynchronous access"); return; }
  if (r->dim & OP_DIM) {
    const OpDone *done = &k->ops[r->epoch];
    const SyncObject *b = done->epoch ? object_of_dim(k, done->dim) : NULL;
    if (b) snprintf(out, n, "a wait for phase %u of the mbarrier at CTA %u + 0x%x", done->epoch - 1, b->rank, b->offset);
    else snprintf(out, n, "a wait for the copy (mbarrier, or cp.async.bulk.wait_group by the issuing thread) passed on to the other side");
    return;
  }
  if (r->dim >= k->mma0 && r->dim < k->st0) { snprintf(out, n, "a tcgen05.commit after it and a wait on that mbarrier"); return; }
  if (r->dim >= k->st0 && r->dim < k->cp0) { snprintf(out, n, "a tcgen05.wait::st before the signal to the other side"); return; }
  if (r->dim >= k->cp0 && r->dim < k->bulk_read0) { snprintf(out, n, "a cp.async.wait_group before the signal to the other side"); return; }
  snprintf(out, n, "an arrive by that warp and a wait by the other side on one mbarrier or barrier");
}
static void report(Ctx *c, Check *k, const Agent *me, const Rec *r, Acc a, Order o, const Where *at) {
  char first[80], second[80], edge[160], code[40];
  who(k, first, sizeof first, r->dim, r->epoch); who(k, second, sizeof second, me->dim, me->epoch);
  missing_edge(k, edge, sizeof edge, r, o);
  snprintf(code, sizeof code, "race-%s", at->space);
  char text[360];
  if ((r->dim & OP_DIM) && me->dim == OP_DIM && r->write && a != ACC_READ && r->line == me->line) {
    /* Threads of one warp that all issue the same bulk copy: the same bytes, several times. */
    snprintf(text, sizeof text, "%s at %s CTA %u + 0x%llx repeats the write of %s by the same instruction: "
             "more than one thread issues it and each copy is carried out; elect one thread",
             second, at->space, at->rank, (unsigned long long)at->address, first);
    add_finding(c->m, c, me->line, r->line, false, "repeated-copy", text);
    return;
  }
  snprintf(text, sizeof text, "%s by %s at %s CTA %u + 0x%llx is not ordered after the %s by %s (%s proxy then %s proxy); missing: %s",
           a == ACC_READ ? "read" : "write", second, at->space, at->rank, (unsigned long long)at->address,
           r->write ? "write" : "read", first, r->proxy ? "async" : "generic", me->proxy ? "async" : "generic", edge);
  add_finding(c->m, c, me->line, r->line, false, code, text);
}
static inline bool conflicts(const Rec *r, u32 mask, Acc a) {
  if (!r->epoch || !(r->mask & mask)) return false;
  return !(a == ACC_ATOMIC && r->write == ACC_ATOMIC);
}
static void remember_read(const Check *k, Cell *cell, const Agent *me, const Rec *now) {
  Rec *slot = NULL;
  for (u32 i = 0; i < 3; i++) {
    Rec *r = &cell->r[i];
    if (!r->epoch || (r->dim == now->dim && !(now->dim & OP_DIM)) || order(k, me, r) == ORDERED) { slot = r; break; }
  }
  if (!slot) { cell->r[0] = cell->r[1]; cell->r[1] = cell->r[2]; slot = &cell->r[2]; }
  u16 mask = slot->epoch && slot->dim == now->dim && slot->cluster == now->cluster ? slot->mask : 0;
  *slot = *now; slot->mask |= mask;
}
void race_access(Ctx *c, Check *k, Cell *cell, const Agent *me, u32 mask, Acc a, const Where *at) {
  Order o;
  Rec now = {me->dim, me->epoch, me->line, (u16)mask, (u8)a, me->proxy, k->cluster};
  if (cell->w.epoch && conflicts(&cell->w, mask, a) && (o = order(k, me, &cell->w)) != ORDERED) report(c, k, me, &cell->w, a, o, at);
  if (a == ACC_READ) { remember_read(k, cell, me, &now); return; }
  for (u32 i = 0; i < 3; i++) {
    Rec *r = &cell->r[i];
    if (!r->epoch || !(r->mask & mask)) continue;
    if ((o = order(k, me, r)) != ORDERED) report(c, k, me, r, a, o, at);
    r->mask &= (u16)~mask;
    if (!r->mask) r->epoch = 0;
  }
  u16 keep = cell->w.epoch && cell->w.dim == now.dim && cell->w.epoch == now.epoch ? cell->w.mask : 0;
  cell->w = now; cell->w.mask |= keep;
}
