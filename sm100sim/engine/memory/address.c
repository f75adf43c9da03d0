/* State spaces and addresses (PTX ISA, "State Spaces" and "Generic Addressing").
 * Every access is checked before a byte is touched: known allocation, window, alignment, live mbarriers. */
#include "memory/address.h"
#include "machine/share.h"

/* In words, how far [off, off + len) reaches past a CTA's shared memory; good until the thread asks again. */
static const char *past_the_end(u32 off, u32 len, u32 end) {
  static _Thread_local char text[96];
  const char *what = "the end of the CTA's shared memory";
  u32 size = end - SMEM_RESERVED;
  if (off == end)
    snprintf(text, sizeof text, "it starts at %s (%u bytes)", what, size);
  else if (off > end)
    snprintf(text, sizeof text, "it starts %u bytes past %s (%u bytes)", off - end, what, size);
  else
    snprintf(text, sizeof text, "its last %u bytes are past %s (%u bytes)", off + len - end, what, size);
  return text;
}

u8 *smem_inside(Cta *cta, u32 off, u32 len, const char **err) {
  if (off < SMEM_RESERVED && off + len > cta->cl->m->prog.smem_lent) {
    *err = "the first 1024 bytes of the window belong to the system";
    return NULL;
  }
  if (len > cta->smem_bytes || off > cta->smem_bytes - len) {
    *err = past_the_end(off, len, cta->smem_bytes);
    return NULL;
  }
  return cta->smem + off;
}

u8 *smem_at(Cluster *cl, Cta *own, u32 addr, u32 len, bool own_only, Cta **owner, const char **err) {
  u32 rank = window_rank(addr);
  if (rank >= cl->n_ctas) {
    *err = "the address names a CTA rank beyond the cluster";
    return NULL;
  }
  Cta *cta = &cl->ctas[rank];
  *owner = cta;
  if (own_only && cta != own) {
    *err = "a .shared::cta address that lies in another CTA of the cluster";
    return NULL;
  }
  if (cta->exited) {
    *err = "the CTA that owns this shared memory has exited";
    return NULL;
  }
  return smem_inside(cta, window_offset(addr), len, err);
}

static const Region *region_of(const Machine *m, u64 addr, u64 len) {
  for (u32 k = 0; k < m->n_regions; k++) {
    const Region *r = &m->regions[k];
    if (addr >= r->lo && len <= r->hi - r->lo && addr <= r->hi - len)
      return r;
  }
  return NULL;
}

bool gmem_ok(Machine *m, u64 addr, u64 len, bool write) {
  const Region *r = region_of(m, addr, len);
  return r && (r->kind || !write);
}

#define NEAR (1ull << 24)

const char *gmem_nearest(const Machine *m, u64 addr, u64 len, char out[NEAREST_BYTES]) {
  const Region *nearest = NULL;
  u64 best = NEAR;
  for (u32 k = 0; k < m->n_regions; k++) {
    const Region *r = &m->regions[k];
    u64 away = addr >= r->hi ? addr - r->hi : addr < r->lo ? r->lo - addr : 0;
    if (away < best || (away == best && !nearest)) {
      best = away;
      nearest = r;
    }
  }
  out[0] = 0;
  if (!nearest)
    return out;
  u64 lo = nearest->lo, hi = nearest->hi;
  int n = 0;
  if (addr == hi)
    n = snprintf(out, NEAREST_BYTES, "; it starts at the end of");
  else if (addr > hi)
    n = snprintf(out, NEAREST_BYTES, "; it starts %llu bytes past the end of", (unsigned long long)(addr - hi));
  else if (addr < lo && addr + len <= lo)
    n = snprintf(out, NEAREST_BYTES, "; it starts %llu bytes before", (unsigned long long)(lo - addr));
  else if (addr < lo)
    n = snprintf(out, NEAREST_BYTES, "; its first %llu bytes lie before", (unsigned long long)(lo - addr));
  else
    n = snprintf(out, NEAREST_BYTES, "; its last %llu bytes are past the end of",
                 (unsigned long long)(addr + len - hi));
  snprintf(out + n, NEAREST_BYTES - (size_t)n, " the %llu bytes at 0x%llx", (unsigned long long)(hi - lo),
           (unsigned long long)lo);
  return out;
}

static const u8 *param_at(Machine *m, u64 offset, u32 len) {
  u32 n = m->opt.n_params_bytes;
  return len <= n && offset <= n - len ? m->params + offset : NULL;
}

u64 lane_address(const Ctx *c, u32 slot, u32 bits, i64 off, u32 lane) {
  return bits == 64 ? R64(c, slot)[lane] + (u64)off : (u32)(R32(c, slot)[lane] + (u32)off);
}

static Space window_of(u64 addr) {
  switch (addr >> 32) {
    case WINDOW_SHARED:
      return SPACE_SHARED_CLUSTER;
    case WINDOW_PARAM:
      return SPACE_PARAM;
    case WINDOW_LOCAL:
      return SPACE_LOCAL;
    default:
      return SPACE_GLOBAL;
  }
}

static const char *const VERB[] = {"read", "write", "atomic"};

static Step shared_lane(Ctx *c, const Access *a, u64 addr, bool own_only, u8 **p, Cta **owner) {
  const char *err = "a shared address has 32 significant bits";
  *p = addr >> 32 ? NULL : smem_at(c->cl, c->cta, (u32)addr, a->len, own_only, owner, &err);
  if (!*p)
    return fault(c, "shared-address", "%s of %u bytes at shared address 0x%llx: %s", VERB[a->acc], a->len,
                 (unsigned long long)addr, err);
  u32 at = mbar_inside(*owner, smem_offset(*owner, *p), a->len);
  if (at != NONE32)
    return fault(c, "mbarrier-access",
                 "%s of %u bytes at CTA %u + 0x%x touches the live mbarrier at 0x%x; only mbarrier operations may",
                 VERB[a->acc], a->len, (*owner)->rank, smem_offset(*owner, *p), at);
  return STEP_NEXT;
}

static Step global_lane(Ctx *c, const Access *a, u64 addr, u8 **p) {
  const Region *r = region_of(c->m, addr, a->len);
  char where[NEAREST_BYTES];
  if (!r)
    return fault(c, "global-address", "%s of %u bytes at 0x%llx is outside of every known allocation%s", VERB[a->acc],
                 a->len, (unsigned long long)addr, gmem_nearest(c->m, addr, a->len, where));
  if (a->acc != ACC_READ && !r->kind)
    return fault(c, "global-address", "%s of %u bytes at 0x%llx: the allocation is read-only", VERB[a->acc], a->len,
                 (unsigned long long)addr);
  *p = (u8 *)(uintptr_t)addr;
  share_touch(c->m, *p, a->len, a->acc != ACC_READ);
  return STEP_NEXT;
}

static Step private_lane(Ctx *c, const Access *a, Space space, u64 off, u32 lane, u8 **p) {
  if (space == SPACE_PARAM) {
    if (a->acc != ACC_READ)
      return fault(c, "param-address", "kernel parameters cannot be written");
    *p = (u8 *)(uintptr_t)param_at(c->m, off, a->len);
    if (!*p)
      return fault(c, "param-address", "read of %u bytes at parameter offset %llu is outside of the %u parameter bytes",
                   a->len, (unsigned long long)off, c->m->opt.n_params_bytes);
    return STEP_NEXT;
  }
  u32 n = c->m->prog.local_bytes;
  if (a->len > n || off > n - a->len)
    return fault(c, "local-address", "%s of %u bytes at local offset %llu is outside of the thread's %u bytes",
                 VERB[a->acc], a->len, (unsigned long long)off, n);
  *p = c->w->local + (size_t)lane * n + off;
  return STEP_NEXT;
}

static Step resolve_address(Ctx *c, const Access *a, u64 addr, u32 lane, u8 **p, Cta **owner) {
  Space space = a->space == SPACE_GENERIC ? window_of(addr) : a->space;
  if (a->space == SPACE_GENERIC && space != SPACE_GLOBAL)
    addr &= 0xFFFFFFFFu;
  *owner = NULL;
  if (addr & (a->align - 1))
    return fault(c, "misaligned", "%s of %u bytes at 0x%llx (lane %u) needs an alignment of %u", VERB[a->acc], a->len,
                 (unsigned long long)addr, lane, a->align);
  switch (space) {
    case SPACE_SHARED_CTA:
    case SPACE_SHARED_CLUSTER:
      return shared_lane(c, a, addr, space == SPACE_SHARED_CTA, p, owner);
    case SPACE_GLOBAL:
      return global_lane(c, a, addr, p);
    default:
      return private_lane(c, a, space, addr, lane, p);
  }
}

Step resolve_lane(Ctx *c, const Access *a, u32 lane, u8 **p, Cta **owner) {
  return resolve_address(c, a, lane_address(c, a->slot, a->bits, a->off, lane), lane, p, owner);
}

const u8 *generic_bytes(Ctx *c, u64 addr, u32 len, u32 lane) {
  Access a = {.space = SPACE_GENERIC, .len = len, .align = 1, .acc = ACC_READ};
  Cta *owner;
  u8 *p;
  return resolve_address(c, &a, addr, lane, &p, &owner) == STEP_NEXT ? p : NULL;
}

Step window_address(Ctx *c, const Access *a, u32 lane, u32 *addr) {
  u64 v = lane_address(c, a->slot, a->bits, a->off, lane);
  if (a->space == SPACE_GENERIC) {
    if (v >> 32 != WINDOW_SHARED)
      return fault(c, "shared-address", "generic address 0x%llx is not in shared memory", (unsigned long long)v);
  } else if (v >> 32)
    return fault(c, "shared-address", "shared address 0x%llx has more than 32 bits", (unsigned long long)v);
  *addr = (u32)v;
  return STEP_NEXT;
}

/* ---- all lanes at once: the common cases; false sends the access through resolve_lane ------------------------- */
static bool resolve_own(Ctx *c, const Access *a, Places *out) {
  Cta *cta = c->cta;
  u32 base = window_at(cta->rank, 0), limit = cta->smem_bytes - a->len - SMEM_RESERVED, bad = 0, off[LANES];
  u32 gaps = ~c->mask | (a->len & (a->len - 1)), len = a->len, shift = (u32)__builtin_ctz(len);
  if (a->len + SMEM_RESERVED > cta->smem_bytes)
    return false;
  if (a->bits == 32) {
    const u32 *v = R32(c, a->slot);
    for (u32 l = 0; l < LANES; l++)
      off[l] = v[l] + (u32)a->off - base;
  } else {
    const u64 *v = R64(c, a->slot);
    for (u32 l = 0; l < LANES; l++) {
      u64 x = v[l] + (u64)a->off - base;
      off[l] = x >> 32 ? 0 : (u32)x;
    }
  }
  LANE_LOOP(bad |= (off[l] - SMEM_RESERVED > limit) | (off[l] & (a->align - 1)))
  if (bad)
    return false;
  for (u32 l = 0; l < LANES; l++) {
    gaps |= off[l] - off[0] - (l << shift);
    out->p[l] = cta->smem + off[l];
  }
  out->row = !gaps;
  out->own = true;
  if (cta->n_mbars && out->row)
    return mbar_inside(cta, off[0], LANES * len) == NONE32;
  if (cta->n_mbars)
    FOR_LANES (c->mask, l)
      if (mbar_inside(cta, off[l], len) != NONE32)
        return false;
  return true;
}

/* Lanes whose bytes are the same, or follow one another, are told of together. */
static void share_lanes(const Ctx *c, const Access *a, const Places *at) {
  u64 start = 0, end = 0;
  FOR_LANES (c->mask, l) {
    u64 x = (u64)(uintptr_t)at->p[l];
    if (x >= start && x + a->len <= end)
      continue;
    if (x != end && end)
      share_note(c->m, start, end - start, a->acc != ACC_READ);
    if (x != end)
      start = x;
    end = x + a->len;
  }
  share_note(c->m, start, end - start, a->acc != ACC_READ);
}

/* Lanes in the allocation of the first.  No allocation of the host's lies in a window of generic addresses. */
static bool resolve_global(Ctx *c, const Access *a, Places *out) {
  const u64 *v = R64(c, a->slot);
  u64 off = (u64)a->off, len = a->len, first = v[first_lane(c->mask)] + off;
  const Region *r = region_of(c->m, first, len);
  if (!r || (a->acc != ACC_READ && !r->kind) || (a->space == SPACE_GENERIC && r->hi >> 32 >= WINDOW_SHARED))
    return false;
  u64 lo = r->lo, room = r->hi - lo - len, low = a->align - 1, bad = 0, gaps = ~c->mask | (len & (len - 1));
  u32 shift = (u32)__builtin_ctz(a->len);
  LANE_LOOP(u64 x = v[l] + off; bad |= (u64)(x - lo > room) | (x & low); gaps |= x - first - ((u64)l << shift);
            out->p[l] = (u8 *)(uintptr_t)x)
  if (bad)
    return false;
  out->row = !gaps;
  out->outside = true;
  if (c->m->share && out->row)
    share_note(c->m, first, LANES * len, a->acc != ACC_READ);
  else if (c->m->share)
    share_lanes(c, a, out);
  return true;
}

/* A parameter that all lanes read, or bytes of each lane's own memory. */
static bool resolve_private(Ctx *c, const Access *a, Places *out) {
  u64 first = lane_address(c, a->slot, a->bits, a->off, first_lane(c->mask)), low = a->align - 1, bad = 0;
  u32 n = c->m->prog.local_bytes, len = a->len;
  out->outside = true;
  if (a->space == SPACE_PARAM) {
    u8 *p = (u8 *)(uintptr_t)param_at(c->m, first, len);
    if (!p || a->acc != ACC_READ)
      return false;
    LANE_LOOP(bad |= lane_address(c, a->slot, a->bits, a->off, l) ^ first; out->p[l] = p)
    return !bad && !(first & low);
  }
  if (len > n)
    return false;
  u64 local = (u64)(uintptr_t)c->w->local;
  LANE_LOOP(u64 x = lane_address(c, a->slot, a->bits, a->off, l); bad |= (u64)(x > n - len) | (x & low);
            out->p[l] = (u8 *)(uintptr_t)(local + (u64)l * n + x))
  return !bad;
}

static bool resolve_lanes(Ctx *c, const Access *a, Places *out) {
  switch (a->space) {
    case SPACE_SHARED_CTA:
    case SPACE_SHARED_CLUSTER:
      return resolve_own(c, a, out);
    case SPACE_GLOBAL:
    case SPACE_GENERIC:
      return a->bits == 64 && resolve_global(c, a, out);
    default:
      return resolve_private(c, a, out);
  }
}

Step resolve(Ctx *c, const Access *a, Places *out) {
  out->own = out->outside = out->row = false;
  out->len = a->len;
  if (resolve_lanes(c, a, out))
    return STEP_NEXT;
  out->own = out->outside = out->row = false;
  FOR_LANES (c->mask, l) {
    Step s = resolve_lane(c, a, l, &out->p[l], &out->owner[l]);
    if (s != STEP_NEXT)
      return s;
  }
  return STEP_NEXT;
}
