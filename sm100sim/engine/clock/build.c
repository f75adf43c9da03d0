/* The state of a run: from the input's tables to SMs, warps and barriers. */
#include "clock/state.h"

static u32 copies_of(const Clock *c, u32 per_cluster) {
  u32 n = per_cluster * c->in->copies;
  return n ? n : 1;
}

static bool get(void **p, size_t count, size_t item) {
  return (*p = calloc(count ? count : 1, item)) != NULL;
}

#define GET(p, count) get((void **)&(p), count, sizeof *(p))

static bool get_memory(Clock *c) {
  u32 lines = (u32)c->chip->icache_lines;
  return GET(c->sms, c->in->ranks) && GET(c->warps, c->n_warps) &&
         GET(c->lists, (size_t)c->n_warps * CLOCK_SUBS * c->in->ranks) &&
         GET(c->groups, copies_of(c, c->in->n_groups)) && GET(c->mbarriers, copies_of(c, c->in->n_mbarriers)) &&
         GET(c->named, copies_of(c, c->in->ranks) * 16) && GET(c->clusters, c->in->copies) &&
         GET(c->next_waiting, c->n_warps) && GET(c->mma_done, copies_of(c, c->in->ranks)) &&
         GET(c->mma_cause, copies_of(c, c->in->ranks)) && GET(c->lines, (size_t)lines * c->in->ranks);
}

static void place_warp(Clock *c, u32 copy, u32 k) {
  WarpState *w = &c->warps[copy * c->in->n_warps + k];
  const ClockWarp *info = &c->in->warps[k];
  double start = copy * c->in->stagger;
  Sub *sub = &c->sms[info->rank].sub[info->warp % CLOCK_SUBS];
  *w = (WarpState){.info = info, .id = copy * c->in->n_warps + k, .sm = info->rank, .copy = copy};
  w->sub = info->warp % CLOCK_SUBS;
  w->issued_at = start - 1;
  w->fixed_at = start;
  c->groups[copy * c->in->n_groups + info->group].members++;
  c->clusters[copy].warps++;
  if (!info->length) {
    w->over = true;
    c->clusters[copy].warps--;
    return;
  }
  sub->warps[sub->n_warps++] = w;
  c->live++;
  fetch(c, w, NONE32);
}

bool build_clock(Clock *c) {
  u32 lines = (u32)c->chip->icache_lines;
  c->n_warps = copies_of(c, c->in->n_warps);
  for (u32 k = 0; k < c->in->n_warps; k++)
    c->n_steps += c->in->warps[k].length;
  if (!get_memory(c))
    return false;
  for (u32 k = 0; k < c->in->ranks; k++) {
    c->sms[k].cache = &c->lines[(size_t)k * lines];
    for (u32 s = 0; s < CLOCK_SUBS; s++)
      c->sms[k].sub[s].warps = &c->lists[(size_t)(k * CLOCK_SUBS + s) * c->n_warps];
  }
  for (size_t k = 0; k < (size_t)lines * c->in->ranks; k++)
    c->lines[k] = (CacheLine){NONE32, -1, 0};
  for (u32 copy = 0; copy < c->in->copies; copy++) {
    for (u32 k = 0; k < c->in->n_mbarriers; k++)
      c->mbarriers[copy * c->in->n_mbarriers + k].rank = c->in->mbarrier_ranks[k];
    for (u32 k = 0; k < c->in->n_warps; k++)
      place_warp(c, copy, k);
  }
  return true;
}

void free_clock(Clock *c) {
  for (u32 k = 0; c->mbarriers && k < copies_of(c, c->in->n_mbarriers); k++)
    free(c->mbarriers[k].waiters);
  free(c->sms);
  free(c->warps);
  free(c->lists);
  free(c->groups);
  free(c->mbarriers);
  free(c->named);
  free(c->clusters);
  free(c->next_waiting);
  free(c->mma_done);
  free(c->mma_cause);
  free(c->lines);
  free(c->heap);
}
