/* The rule of the race checker: of two overlapping accesses, one of them a write, the earlier must
 * happen before the later; a generic write before an asynchronous access must also be fenced. */
#include "check.h"

/* A finished cluster's access is ordered before those who learnt of it through a flag in global memory. */
static Order order_of_finished(Ctx *c, const Check *k, const Agent *me, const Rec *r) {
  for (u32 f = 0; f < k->n_foreign; f++) {
    const Foreign *from = &k->foreign[f];
    if (from->cluster != r->cluster || !me->clock[k->foreign0 + f]) continue;
    u32 dim = r->dim, epoch = r->epoch;
    if (dim & OP_DIM) {
      const OpDone *done = &k->ops[epoch];
      bool read = !(r->kind & KIND_WRITE) && done->epoch2 && from->at[done->dim2] >= done->epoch2;
      if (!read && (!done->epoch || from->at[done->dim] < done->epoch)) continue;
    } else if (from->at[dim] < epoch) continue;
    if (r->kind & KIND_FOLDED) c->m->lost = true;       /* other clusters' accesses may not be ordered */
    return ORDERED;
  }
  return UNORDERED;
}
static Order order(Ctx *c, const Check *k, const Agent *me, const Rec *r, const Where *at) {
  if (r->cluster != k->cluster) return order_of_finished(c, k, me, r);
  u32 dim = r->dim, epoch = r->epoch;
  if (dim & OP_DIM) {
    const OpDone *done = &k->ops[epoch];
    if (!(r->kind & KIND_WRITE) && done->epoch2 && me->clock[done->dim2] >= done->epoch2) return ORDERED;
    return done->epoch && me->clock[done->dim] >= done->epoch ? ORDERED : UNORDERED;
  }
  if ((at->tensor ? tensor_ordered(k, me, dim) : me->clock[dim]) < epoch) {
    /* MMAs pipeline: one issued after another, in the same thread or after synchronisation, is executed after it. */
    bool pipe = me->mma && dim >= k->mma0 && dim < k->st0;
    if (pipe && issued_before(k, me, dim - k->mma0) >= epoch) return ORDERED;
    bool signalled = at->tensor && (tensor_known(k, me->clock, dim) >= epoch || (pipe && tensor_known(k, me->clock, dim - k->mma0) >= epoch));
    return signalled ? NO_TENSOR_FENCE : UNORDERED;
  }
  if (r->kind & KIND_WRITE && r->proxy == PROXY_GENERIC && me->proxy == PROXY_ASYNC && dim < k->n_proxy && proxy_clock(k, me->clock, at->global)[dim] < epoch) return UNFENCED;
  if (r->wide && r->kind & KIND_WRITE && r->proxy == PROXY_GENERIC && me->proxy == PROXY_ASYNC && dim == me->warp && me->met < epoch) return LANES_APART;
  return ORDERED;
}
/* Strong accesses whose scopes include one another do not race (PTX ISA, "Morally strong operations"). */
static bool morally_strong(const Check *k, const Agent *me, const Rec *r, u32 kind) {
  u32 a = kind >> 1 & 3, b = r->kind >> 1 & 3;
  if (!a || !b) return false;
  if (r->cluster != k->cluster) return a == 3 && b == 3;
  u32 warp = r->dim & OP_DIM ? k->ops[r->epoch].warp : r->dim % k->n_warps;
  return cta_of(k, warp) == cta_of(k, me->warp) || (a >= 2 && b >= 2);
}
static inline Rec *records(Cell *cell) { return cell->more ? cell->more : cell->in; }

void cell_clear(Cell *cell) { free(cell->more); *cell = (Cell){0}; }

static void drop(Cell *cell, u32 i) { Rec *r = records(cell); r[i] = r[--cell->n]; }

/* One record stands for those that finished clusters left with the same bytes and kind. */
static void fold(const Check *k, Cell *cell) {
  Rec *r = records(cell);
  for (u32 i = 0; i + 1 < cell->n; i++)
    for (u32 j = i + 1; j < cell->n; j++)
      if (r[i].cluster != k->cluster && r[j].cluster != k->cluster && !((r[i].kind ^ r[j].kind) & ~KIND_FOLDED) && r[i].mask == r[j].mask) {
        r[j].kind |= KIND_FOLDED; drop(cell, i--);
        break;
      }
}
static void add(Ctx *c, const Check *k, Cell *cell, const Rec *now, bool global) {
  if (global && k->cluster > 1) fold(k, cell);
  if (cell->n == MAX_RECS) { c->m->lost = true; drop(cell, 0); }
  u32 room = cell->more ? cell->cap : INLINE_RECS;
  if (cell->n == room) {
    Rec *wide = malloc(2 * room * sizeof(Rec));
    memcpy(wide, records(cell), cell->n * sizeof(Rec));
    free(cell->more); cell->more = wide; cell->cap = (u16)(2 * room);
  }
  records(cell)[cell->n++] = *now;
}
/* Whoever learns of the end of `now` learns of the end of `r`: both are of one queue, and `now` is the later. */
static bool same_queue(const Check *k, const Rec *r, const Rec *now) {
  if (r->cluster != now->cluster) return false;
  if (!(now->dim & OP_DIM)) return r->dim == now->dim;
  if (!(r->dim & OP_DIM)) return false;
  const OpDone *a = &k->ops[r->epoch], *b = &k->ops[now->epoch];
  return b->epoch && a->dim == b->dim && a->epoch && a->epoch <= b->epoch && a->dim2 == b->dim2 && a->epoch2 <= b->epoch2;
}
void race_access(Ctx *c, Check *k, Cell *cell, const Agent *me, const Rec *now, const Where *at) {
  u32 mask = now->mask, kind = now->kind; bool write = kind & KIND_WRITE;
  for (u32 i = 0; i < cell->n; i++) {
    Rec *r = &records(cell)[i];
    if (!(r->mask & mask)) continue;
    bool conflict = write || r->kind & KIND_WRITE, strong = conflict && morally_strong(k, me, r, kind), settled;
    if (strong || !conflict) {
      /* Its place is taken by this access when that comes later and conflicts with no less. */
      if (r->cluster != k->cluster || (r->kind != kind && (conflict || kind & KIND_SCOPE))) continue;
      settled = same_queue(k, r, now) || order(c, k, me, r, at) == ORDERED;
    } else {
      Order o = order(c, k, me, r, at);
      if (o != ORDERED) race_report(c, k, me, r, kind, o, at);
      settled = write;
    }
    if (!settled) continue;
    r->mask &= (u16)~mask;
    if (!r->mask) drop(cell, i--);
  }
  add(c, k, cell, now, at->global);
}
