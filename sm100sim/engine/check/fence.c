/* Fences: what they add to the clocks of the lanes that execute them. */
#include "check/check.h"

/* A release fence lends its strength to later relaxed signals, an acquire fence to earlier relaxed waits and
 * reads, within its scope (PTX ISA, "Release and Acquire Patterns"). */
static void memory_fence(const Ctx *c, Check *check, u32 w, u32 scope, u32 order) {
  Ctx some = *c;
  for (u32 s = 0; s < scope && order & ORDER_ACQUIRE; s++) {
    some.mask = c->mask & check->pended[w][s];
    if (some.mask)
      lanes_acquire(&some, check, w, check->pending[w][s]);
  }
  if (!(order & ORDER_RELEASE))
    return;
  for (u32 s = 0; s < scope; s++) {
    if (!check->released[w][s])
      check->released[w][s] = clock_new(check);
    clock_join(check, check->released[w][s], lanes_view(check, w, c->mask));
    FOR_LANES (c->mask, l)
      check->fenced[w][s][l] = check->warps[w][w];
  }
  check->warps[w][w]++;
}

/* What the lanes know becomes visible to the asynchronous proxy, and what they did themselves. */
static void proxy_fence(const Ctx *c, Check *check, u32 w, u32 spaces) {
  FOR_CLOCKS (c, check, w, own)
    for (u32 space = 0; space < 2; space++) {
      u32 *proxy = proxy_clock(check, own, space);
      if (!(spaces & (space ? FENCE_SPACE_GLOBAL : FENCE_SPACE_SHARED)))
        continue;
      raise_to(proxy, own, check->first.mma);
      if (!check->strict_lanes)
        continue;
      raise_to(proxy_all(check, proxy), own + check->first.all_lanes, check->n_warps);
      raise_to(proxy_lane(check, proxy), own + check->first.lane, check->past->n_lane);
      lanes_mark(c, check, w, own[w], proxy_all(check, proxy), proxy_lane(check, proxy));
    }
  check->warps[w][w]++;
}

static void tensor_after(const Ctx *c, Check *check, u32 w) {
  if (!check->strict_fence)
    return;
  FOR_CLOCKS (c, check, w, own)
    memcpy(own + check->first.after_fence, own + check->first.tensor, check->first.bulk_read * sizeof(u32));
}

static void tensor_before(const Ctx *c, Check *check, u32 w) {
  if (check->strict_fence) {
    FOR_CLOCKS (c, check, w, own)
      publish(check, own, own, w);
  } else {
    const u32 *own = lanes_view(check, w, c->mask);
    if (!check->before_fence[w])
      check->before_fence[w] = clock_new(check);
    for (u32 d = 0; d < check->first.bulk_read; d++)
      check->before_fence[w][d] = tensor_known(check, own, d);
  }
  check->warps[w][w]++;
}

void see_fence(Ctx *c, u32 kind, u32 arg) {
  Check *check = c->m->check;
  if (!check)
    return;
  u32 w = warp_dim(check, c->cta, c->w->index);
  switch (kind) {
    case FENCE_PROXY_ASYNC:
      proxy_fence(c, check, w, arg);
      break;
    case FENCE_MBARRIER_INIT: {
      FOR_CLOCKS (c, check, w, own)
        own[check->first.init + w] = 1 + check->inits[w];
      break;
    }
    case FENCE_WAIT_ST:
      lanes_set(check, w, check->first.st + w, check->st_seq[w]);
      break;
    case FENCE_AFTER:
      tensor_after(c, check, w);
      break;
    case FENCE_BEFORE:
      tensor_before(c, check, w);
      break;
    case FENCE_WAIT_LD:
      loads_waited(check, c->w, w);
      break;
    case FENCE_MEMBAR:
      memory_fence(c, check, w, arg & ORDER_SCOPE, arg);
      break;
    default:
      break;
  }
}

void see_cp_wait(Ctx *c, u32 landed) {
  Check *check = c->m->check;
  if (!check)
    return;
  u32 w = warp_dim(check, c->cta, c->w->index);
  FOR_CLOCKS (c, check, w, own)
    own[check->first.cp + w] = most(own[check->first.cp + w], landed);
}
