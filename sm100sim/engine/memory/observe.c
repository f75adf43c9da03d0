/* What the observers hear of an access: the bytes of its lanes, those that follow one another together. */
#include "memory/address.h"

static bool is_private(const Ctx *c, const u8 *p) {
  u64 local = (u64)c->m->prog.local_bytes * LANES;
  if (c->w->local && p >= c->w->local && p < c->w->local + local)
    return true;
  return p >= c->m->params && p < c->m->params + c->m->opt.n_params_bytes;
}

static u32 lanes_with(const Places *p, u32 lane, u32 mask) {
  u32 same = 0;
  FOR_LANES (mask, l)
    same |= (u32)(p->p[l] == p->p[lane]) << l;
  return same;
}

static void observe_flags(Ctx *c, const Places *p, Acc acc, u32 order) {
  order |= acc == ACC_READ ? ORDER_READ : acc == ACC_ATOMIC ? ORDER_UPDATE : 0;
  Ctx d = *c; /* lanes at one address do it together */
  for (u32 left = c->mask; left; left &= ~d.mask) {
    u32 l = first_lane(left);
    const Cta *owner = owner_at(c, p, l);
    d.mask = order & ORDER_SCOPE ? lanes_with(p, l, left) : 1u << l;
    if (owner)
      see_flag(&d, owner, smem_offset(owner, p->p[l]), p->len, order);
    else if (!is_private(c, p->p[l]))
      see_flag(&d, NULL, (u64)(uintptr_t)p->p[l], p->len, order);
  }
}

/* `len` bytes from those of a lane on. */
static void observe_bytes(Ctx *c, const Places *p, u32 lane, u32 len, Acc acc, Proxy proxy) {
  Cta *owner = owner_at(c, p, lane);
  if (owner)
    see_smem(c, NULL, owner, smem_offset(owner, p->p[lane]), len, acc, proxy);
  else if (!is_private(c, p->p[lane]))
    see_gmem(c, NULL, c->m, (u64)(uintptr_t)p->p[lane], len, acc, proxy);
}

void observe_by(Ctx *c, const Places *p, Acc acc, u32 order, Proxy proxy) {
  if (!observed(c->m))
    return;
  u32 left = p->row ? 0 : c->mask;
  Acc seen = acc | ACC_SCOPE * (order & ORDER_SCOPE);
  Ctx d = *c, *who = c->m->opt.check & CHECK_STRICT_LANES ? &d : c;
  if (p->row) {
    d.each = p->len;
    observe_bytes(who, p, 0, LANES * p->len, seen, proxy);
  }
  while (left) {
    u32 l = first_lane(left), last = l;
    d.mask = 1u << l;
    d.each = p->len;
    if (left & (left - 1) && p->p[first_lane(left & (left - 1))] == p->p[l]) {
      d.mask = lanes_with(p, l, left);
      d.each = 0;
    }
    left &= ~d.mask;
    while (d.each && last + 1 < LANES && left >> (last + 1) & 1 && p->p[last + 1] == p->p[last] + p->len &&
           owner_at(c, p, last + 1) == owner_at(c, p, l)) {
      last++;
      left &= ~(1u << last);
      d.mask |= 1u << last;
    }
    observe_bytes(who, p, l, (last - l + 1) * p->len, seen, proxy);
  }
  if (order & ORDER_SCOPE || (c->m->flags_used && acc != ACC_READ))
    observe_flags(c, p, acc, order);
}
