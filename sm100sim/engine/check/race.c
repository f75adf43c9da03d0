/* The rule of the race checker: of two overlapping accesses, one of them a write, the earlier must
 * happen before the later; a generic write before an asynchronous access must also be fenced. */
#include "check/check.h"

/* Another cluster's access is ordered before those who learnt of it through a flag in global memory. */
static Order order_of_other(Ctx *c, const Check *check, const Agent *me, const Rec *r) {
  bool any = false;
  for (u32 f = 0; f < check->n_foreign; f++) {
    const Foreign *from = &check->foreign[f];
    u32 known = me->clock[check->first.foreign + f];
    if (from->cluster != r->cluster)
      continue;
    any = true;
    if (!known)
      continue;
    const u32 *at = from->at[known - 1];
    u32 dim = r->dim, epoch = r->epoch;
    if (dim & OP_DIM) {
      const OpDone *done = &check->past->ops[epoch];
      bool read = !(r->kind & KIND_WRITE) && done->epoch2 && at[done->dim2] >= done->epoch2;
      if (!read && (!done->epoch || at[done->dim] < done->epoch))
        continue;
    } else if (at[dim] < epoch)
      continue;
    else if (check->strict_lanes && dim < check->n_warps &&
             !lanes_known(check, dim, check->past->sets[r->lanes], epoch, at + check->first.all_lanes,
                          at + check->first.lane))
      continue;
    if (r->kind & KIND_FOLDED)
      c->m->lost = true; /* other clusters' accesses may not be ordered */
    return ORDERED;
  }
  return check->foreign_full && !any ? ORDERED : UNORDERED; /* no finding without proof; the run is incomplete */
}

/* Whether every lane's part in an access of a warp is known: to a lane of it, its own is. */
static bool lanes_ordered(const Check *check, const Agent *me, const Rec *r, const Rec *now, const Where *at) {
  u32 lanes = check->past->sets[r->lanes];
  if (me->dim == r->dim) { /* within a warp, global memory is not watched */
    u32 mine = check->past->sets[now->lanes];
    if (at->global)
      return true;
    if (!(mine & (mine - 1)))
      lanes &= ~mine;
  }
  return lanes_known(check, r->dim, lanes, r->epoch, me->clock + check->first.all_lanes, me->clock + check->first.lane);
}

static bool lanes_fenced(const Check *check, const Rec *r, u32 *proxy) {
  return lanes_known(check, r->dim, check->past->sets[r->lanes], r->epoch, proxy_all(check, proxy),
                     proxy_lane(check, proxy));
}

static Order order(Ctx *c, const Check *check, const Agent *me, const Rec *r, const Rec *now, const Where *at) {
  if (r->cluster != check->cluster)
    return order_of_other(c, check, me, r);
  u32 dim = r->dim, epoch = r->epoch;
  if (dim & OP_DIM) {
    const OpDone *done = &check->past->ops[epoch];
    if (!(r->kind & KIND_WRITE) && done->epoch2 && me->clock[done->dim2] >= done->epoch2)
      return ORDERED;
    return done->epoch && me->clock[done->dim] >= done->epoch ? ORDERED : UNORDERED;
  }
  if ((at->tensor ? tensor_ordered(check, me, dim) : me->clock[dim]) < epoch) {
    /* MMAs pipeline: one issued after another, in the same thread or after synchronisation, is executed after it. */
    bool pipe = me->mma && dim >= check->first.mma && dim < check->first.st;
    if (pipe && issued_before(check, me, dim - check->first.mma) >= epoch)
      return ORDERED;
    bool signalled = at->tensor && (tensor_known(check, me->clock, dim) >= epoch ||
                                    (pipe && tensor_known(check, me->clock, dim - check->first.mma) >= epoch));
    return signalled ? NO_TENSOR_FENCE : UNORDERED;
  }
  bool crosses = r->kind & KIND_WRITE && r->proxy == PROXY_GENERIC && me->proxy == PROXY_ASYNC;
  u32 *proxy = proxy_clock(check, me->clock, at->global);
  if (crosses && dim < check->first.mma && proxy[dim] < epoch)
    return UNFENCED;
  if (check->strict_lanes) {
    if (dim >= check->n_warps || at->tensor)
      return ORDERED;
    return lanes_ordered(check, me, r, now, at) && (!crosses || lanes_fenced(check, r, proxy)) ? ORDERED : LANES_APART;
  }
  if (r->lanes == 0 && crosses && !at->global && dim == me->warp && me->met < epoch)
    return LANES_APART;
  return ORDERED;
}

/* Strong accesses whose scopes include one another do not race (PTX ISA, "Morally strong operations"). */
static bool morally_strong(const Check *check, const Agent *me, const Rec *r, u32 kind) {
  u32 a = (kind & KIND_SCOPE) >> KIND_SCOPE_SHIFT, b = (r->kind & KIND_SCOPE) >> KIND_SCOPE_SHIFT;
  if (!a || !b)
    return false;
  if (r->cluster != check->cluster)
    return a == SCOPE_DEVICE && b == SCOPE_DEVICE;
  u32 warp = r->dim & OP_DIM ? check->past->ops[r->epoch].warp : r->dim % check->n_warps;
  return cta_of(check, warp) == cta_of(check, me->warp) || (a >= SCOPE_CLUSTER && b >= SCOPE_CLUSTER);
}

static inline Rec *records(Cell *cell) {
  return cell->more ? cell->more : cell->in;
}

void cell_clear(Cell *cell) {
  mem_free(cell->more);
  *cell = (Cell){0};
}

static void drop(Cell *cell, u32 i) {
  Rec *r = records(cell);
  r[i] = r[--cell->n];
}

/* Rec.piece of an aligned access of 1, 2, 4, 8 bytes; 0 for others. */
static u32 piece_of(u32 mask) {
  u32 bytes = (u32)__builtin_popcount(mask), at = (u32)__builtin_ctz(mask);
  bool block = mask >> at == (1u << bytes) - 1 && !(bytes & (bytes - 1)) && !(at & (bytes - 1)) && bytes < 16;
  return block ? 1 + (u32)__builtin_ctz(bytes) : 0;
}

/* One bit for each piece of a mask, its lowest. */
static u32 pieces(u32 mask, u32 piece) {
  static const u16 lowest[] = {0, 0xFFFF, 0x5555, 0x1111, 0x0101};
  for (u32 k = 1; k < piece; k++)
    mask |= mask >> (1u << (k - 1));
  return mask & lowest[piece];
}

static u32 bytes_of(u32 lowest, u32 piece) {
  return lowest * ((1u << (1u << (piece - 1))) - 1);
}

/* Bytes of the accesses that two records have in common: those with the same bytes each. */
static u32 common(const Rec *a, const Rec *b) {
  u32 piece = a->piece ? a->piece : piece_of(a->mask);
  if (!piece || piece != (b->piece ? b->piece : piece_of(b->mask)))
    return a->mask == b->mask ? a->mask : 0;
  return bytes_of(pieces(a->mask & b->mask, piece), piece);
}

/* One record stands for those that other clusters left with the same bytes and kind. */
static void fold(const Check *check, Cell *cell) {
  Rec *r = records(cell);
  if (cell->folded == check->cluster)
    return;
  cell->folded = check->cluster;
  for (u32 i = 0; i + 1 < cell->n; i++)
    for (u32 j = i + 1; j < cell->n; j++) {
      if (r[i].cluster == check->cluster || r[j].cluster == check->cluster || (r[i].kind ^ r[j].kind) & ~KIND_FOLDED)
        continue;
      u32 same = common(&r[i], &r[j]);
      if (!same)
        continue;
      r[j].kind |= KIND_FOLDED;
      r[i].mask &= (u16)~same;
      if (!r[i].mask) {
        drop(cell, i--);
        break;
      }
    }
}

/* Weak reads that differ in their bytes only, as a loop over the elements of a row makes, are one record. */
static bool joined(Cell *cell, const Rec *now) {
  u32 piece = now->kind ? 0 : piece_of(now->mask);
  Rec *r = records(cell);
  for (u32 i = 0; piece && i < cell->n; i++, r++)
    if (r->epoch == now->epoch && r->dim == now->dim && r->line == now->line && r->lanes == now->lanes &&
        r->cluster == now->cluster && r->kind == now->kind && r->proxy == now->proxy &&
        piece == (r->piece ? r->piece : piece_of(r->mask))) {
      r->mask |= now->mask;
      r->piece = piece & 7;
      return true;
    }
  return false;
}

static void add(Ctx *c, const Check *check, Cell *cell, const Rec *now, bool global) {
  if (global && check->cluster > 1)
    fold(check, cell);
  if (global && joined(cell, now))
    return;
  if (cell->n == MAX_RECS) {
    c->m->lost = true;
    drop(cell, 0);
  }
  u32 room = cell->more ? cell->cap : INLINE_RECS;
  if (cell->n == room) {
    Rec *wide = mem_new(c->m, 2 * room, sizeof(Rec));
    memcpy(wide, records(cell), cell->n * sizeof(Rec));
    mem_free(cell->more);
    cell->more = wide;
    cell->cap = (u16)(2 * room);
  }
  records(cell)[cell->n++] = *now;
}

/* Lanes that touch the same bytes in one instruction are not each other's earlier access. */
static bool one_instruction(const Check *check, const Rec *r, const Rec *now) {
  return check->strict_lanes && r->dim == now->dim && r->dim < check->n_warps && r->cluster == now->cluster &&
         r->epoch == now->epoch && r->line == now->line;
}

/* Whoever learns of the end of `now` learns of the end of `r`: both are of one queue, and `now` is the later. */
static bool same_queue(const Check *check, const Rec *r, const Rec *now) {
  if (r->cluster != now->cluster)
    return false;
  if (!(now->dim & OP_DIM))
    return r->dim == now->dim && (!check->strict_lanes || r->lanes == now->lanes || now->dim >= check->n_warps);
  if (!(r->dim & OP_DIM))
    return false;
  const OpDone *a = &check->past->ops[r->epoch], *b = &check->past->ops[now->epoch];
  return b->epoch && a->dim == b->dim && a->epoch && a->epoch <= b->epoch && a->dim2 == b->dim2 &&
         a->epoch2 <= b->epoch2;
}

void race_access(Ctx *c, Check *check, Cell *cell, const Agent *me, const Rec *now, const Where *at) {
  u32 mask = now->mask, kind = now->kind;
  bool write = kind & KIND_WRITE, clean = !check->strict_lanes && !at->tensor && me->dim == me->warp;
  for (u32 i = 0; i < cell->n; i++) {
    Rec *r = &records(cell)[i];
    if (!(r->mask & mask))
      continue;
    clean &= !(r->dim & OP_DIM); /* the end of a copy is no warp's to hear of */
    bool conflict = write || r->kind & KIND_WRITE, strong = conflict && morally_strong(check, me, r, kind), settled;
    if (strong || !conflict) {
      /* Its place is taken by this access when that comes later and conflicts with no less. */
      if (r->cluster != check->cluster || (r->kind != kind && (conflict || kind & KIND_SCOPE)))
        continue;
      settled = same_queue(check, r, now) || order(c, check, me, r, now, at) == ORDERED;
    } else {
      /* No fence makes what a launch wrote visible to its texture and surface reads. */
      Order o = me->proxy == PROXY_TEXTURE && !write ? INCOHERENT
                : one_instruction(check, r, now)     ? ORDERED
                                                     : order(c, check, me, r, now, at);
      for (u32 n = o == ORDERED ? 0 : r->piece ? (u32)__builtin_popcount(pieces(r->mask & mask, r->piece)) : 1; n; n--)
        race_report(c, check, me, r, kind, o, at);
      settled = write;
      clean &= o == ORDERED;
    }
    if (!settled)
      continue;
    if (r->cluster != check->cluster)
      cell->folded = 0; /* with other bytes it may be like another one */
    r->mask &= (u16)~mask;
    if (!r->mask)
      drop(cell, i--);
  }
  add(c, check, cell, now, at->global);
  if (!at->global)
    cell->clean = clean ? check->heard[me->warp] : 0;
}
