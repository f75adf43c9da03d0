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

static bool get_lines(Clock *c) {
  if (c->chip->l1_lines < 1 || !c->in->n_lines)
    return true;
  return GET(c->kept, (size_t)c->in->copies * c->in->ranks * c->in->n_lines) &&
         GET(c->kept_places, (size_t)c->in->ranks * (u32)c->chip->l1_lines);
}

static bool get_memory(Clock *c) {
  u32 lines = (u32)c->chip->icache_lines;
  return GET(c->sms, c->in->ranks) && GET(c->warps, c->n_warps) &&
         GET(c->lists, (size_t)c->n_warps * CLOCK_SUBS * c->in->ranks) &&
         GET(c->groups, copies_of(c, c->in->n_groups)) && GET(c->mbarriers, copies_of(c, c->in->n_mbarriers)) &&
         GET(c->named, copies_of(c, c->in->ranks) * CLOCK_NAMED) && GET(c->clusters, c->in->copies) &&
         GET(c->living, copies_of(c, c->in->ranks)) && GET(c->next_waiting, c->n_warps) &&
         GET(c->mma_done, copies_of(c, c->in->ranks)) && GET(c->mma_cause, copies_of(c, c->in->ranks)) &&
         GET(c->lines, (size_t)lines * c->in->ranks) && get_lines(c);
}

/* The sub-partition of a warp. An H200's CTAs take places for their warps one behind the other, whatever their size
 * (sharing/h200_places.json). Tensor Memory's lanes are those of the warp's number. */
static u32 sub_of(const Clock *c, u32 copy, const ClockWarp *info) {
  u32 warps = c->in->n_warps / c->in->ranks;
  return ((c->in->in_turn ? copy * warps : 0) + info->warp) % CLOCK_SUBS;
}

static void place_warp(Clock *c, u32 copy, u32 k, double start) {
  WarpState *w = &c->warps[copy * c->in->n_warps + k];
  const ClockWarp *info = &c->in->warps[k];
  u32 own = sub_of(c, copy, info);
  Sub *sub = &c->sms[info->rank].sub[own];
  *w = (WarpState){.info = info, .id = copy * c->in->n_warps + k, .sm = info->rank, .copy = copy};
  w->sub = own;
  w->issued_at = start - 1;
  w->fixed_at = start;
  c->groups[copy * c->in->n_groups + info->group].members++;
  c->clusters[copy].warps++;
  c->living[cta_of(c, w)]++;
  if (!info->length) {
    w->over = true;
    c->clusters[copy].warps--;
    c->living[cta_of(c, w)]--;
    return;
  }
  sub->warps[sub->n_warps++] = w;
  sub->next = fmin(sub->next, start);
  c->live++;
  fetch(c, w, NONE32);
}

/* A place takes its next cluster, if any is left. What the last one sent that has not arrived is of no barrier. */
void next_cluster(Clock *c, u32 copy) {
  const ClockInput *in = c->in;
  if (c->begun == in->clusters)
    return;
  c->begun++;
  for (u32 k = 0; k < c->n_heap; k++)
    if (in->n_mbarriers && c->heap[k].mbarrier / in->n_mbarriers == copy) {
      c->heap[k].arrivals = 0;
      c->heap[k].bytes = 0;
    }
  for (u32 k = copy * in->n_mbarriers; k < (copy + 1) * in->n_mbarriers; k++)
    c->mbarriers[k].count = c->mbarriers[k].n_waiters = 0;
  for (u32 k = copy * in->n_groups; k < (copy + 1) * in->n_groups; k++)
    c->groups[k] = (WarpGroup){0};
  for (u32 k = copy * in->ranks; k < (copy + 1) * in->ranks; k++)
    c->mma_done[k] = c->living[k] = 0;
  for (u32 k = copy * in->ranks * CLOCK_NAMED; k < (copy + 1) * in->ranks * CLOCK_NAMED; k++)
    c->named[k] = (NamedBarrier){0};
  c->clusters[copy] = (ClusterBarrier){0};
  leave_lines(c, copy);
  for (u32 k = 0; k < in->n_warps; k++)
    place_warp(c, copy, k, c->now + 1 + in->gap);
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
    c->sms[k].kept = c->kept_places ? &c->kept_places[(size_t)k * (u32)c->chip->l1_lines] : NULL;
    for (u32 s = 0; s < CLOCK_SUBS; s++)
      c->sms[k].sub[s].warps = &c->lists[(size_t)(k * CLOCK_SUBS + s) * c->n_warps];
  }
  for (size_t k = 0; k < (size_t)lines * c->in->ranks; k++)
    c->lines[k] = (CacheLine){NONE32, -1, 0};
  c->begun = c->in->copies;
  for (u32 copy = 0; copy < c->in->copies; copy++) {
    for (u32 k = 0; k < c->in->n_mbarriers; k++)
      c->mbarriers[copy * c->in->n_mbarriers + k].rank = c->in->mbarrier_ranks[k];
    for (u32 k = 0; k < c->in->n_warps; k++)
      place_warp(c, copy, k, 0);
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
  free(c->living);
  free(c->next_waiting);
  free(c->mma_done);
  free(c->mma_cause);
  free(c->lines);
  free(c->kept);
  free(c->kept_places);
  free(c->heap);
}
