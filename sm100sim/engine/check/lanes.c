/* Lanes of one warp (CHECK_STRICT_LANES).  Program order is per thread (PTX ISA, "Program Order"): what one lane
 * releases covers its own accesses and those it has learnt of, and what one lane acquires only that lane knows, until
 * bar.warp.sync or another barrier brings the lanes together; shfl, vote and elect.sync order no memory.
 *
 * A warp's clock is what all its lanes know.  A lane that acquires alone has a clock of its own from then on.  Without
 * the check every instruction counts as one of all lanes, and nothing here has an effect. */
#include "check/check.h"

void lanes_start(Check *k) {
  u32 n = k->n_warps;
  k->solo = calloc(n, sizeof *k->solo);
  k->apart = calloc(n, sizeof(u32));
  k->view = clock_new(k);
  k->fenced = calloc(n, sizeof *k->fenced);
  k->pended = calloc(n, sizeof *k->pended);
  if (k->lane_dim)
    return; /* dimensions and sets hold for the whole launch */
  k->lane_dim = calloc(n * LANES, sizeof(u16));
  k->sets[0] = NONE32;
  k->n_sets = 1 + LANES;
  for (u32 l = 0; l < LANES; l++)
    k->sets[1 + l] = 1u << l;
}

static void rejoin(Check *k, u32 w, u32 lane) {
  free(k->solo[w][lane]);
  k->solo[w][lane] = NULL;
  k->apart[w] &= ~(1u << lane);
}

void lanes_end(Check *k) {
  for (u32 w = 0; w < k->n_warps; w++)
    FOR_LANES (k->apart[w], l)
      rejoin(k, w, l);
  free(k->solo);
  free(k->apart);
  free(k->view);
  free(k->fenced);
  free(k->pended);
}

/* Some lanes of the warp do not execute this. */
bool lanes_partial(const Ctx *c, const Check *k) {
  return k->strict_lanes && live_lanes(c->w) & ~c->mask;
}

/* ---- what lanes know ------------------------------------------------------------------------- */
/* To be read only: what a lane knows, or what any of several does. */
Clock lanes_view(Check *k, u32 w, u32 mask) {
  u32 apart = k->apart[w] & mask;
  if (!apart)
    return k->warps[w];
  if (!(mask & (mask - 1))) {
    Clock own = k->solo[w][first_lane(mask)];
    own[w] = k->warps[w][w];
    return own;
  }
  memcpy(k->view, k->warps[w], k->words * sizeof(u32));
  FOR_LANES (apart, l)
    raise_to(k->view, k->solo[w][l], k->words);
  k->view[w] = k->warps[w][w];
  return k->view;
}

/* The clocks to which what the lanes of c->mask learn has to be added. */
Clocks lanes_clocks(const Ctx *c, Check *k, u32 w) {
  if (!lanes_partial(c, k))
    return (Clocks){k, w, k->apart[w], true};
  FOR_LANES (c->mask & ~k->apart[w], l) {
    k->solo[w][l] = clock_new(k);
    memcpy(k->solo[w][l], k->warps[w], k->words * sizeof(u32));
  }
  k->apart[w] |= c->mask;
  return (Clocks){k, w, c->mask, false};
}

Clock lanes_next(Clocks *it) {
  if (it->warp) {
    it->warp = false;
    return it->k->warps[it->w];
  }
  if (!it->left)
    return NULL;
  u32 lane = first_lane(it->left);
  it->left &= it->left - 1;
  return lanes_view(it->k, it->w, 1u << lane);
}

void lanes_set(Check *k, u32 w, u32 dim, u32 value) {
  k->warps[w][dim] = value;
  FOR_LANES (k->apart[w], l)
    k->solo[w][l][dim] = value;
}

static bool knows_no_more(const Check *k, u32 w, const u32 *solo) {
  const u32 *all = k->warps[w];
  for (u32 d = 0; d < k->words; d++)
    if (solo[d] > all[d])
      return false;
  return true;
}

void lanes_acquire(const Ctx *c, Check *k, u32 w, const u32 *from) {
  FOR_CLOCKS(c, k, w, own) clock_join(k, own, from);
  if (!lanes_partial(c, k))
    FOR_LANES (k->apart[w], l)
      if (knows_no_more(k, w, k->solo[w][l]))
        rejoin(k, w, l);
}

/* The lanes have met: each knows what any of them knew, and what all of them did. */
void lanes_meet(Check *k, u32 w) {
  u32 now = k->warps[w][w];
  FOR_LANES (k->apart[w], l) {
    raise_to(k->warps[w], k->solo[w][l], k->words);
    rejoin(k, w, l);
  }
  if (k->strict_lanes)
    k->warps[w][k->all0 + w] = now;
  k->met[w] = now;
}

/* ---- what lanes publish ---------------------------------------------------------------------- */
static u32 *dimension(const Ctx *c, Check *k, u32 w, u32 lane, u32 *all, u32 *lanes) {
  u16 *d = &k->lane_dim[w * LANES + lane];
  if (!*d && k->n_lane < MAX_LANE_DIMS)
    *d = (u16)++k->n_lane;
  if (*d)
    return &lanes[*d - 1];
  c->m->lost = true; /* no more dimensions: taken as a signal of all lanes */
  return &all[w];
}

/* The accesses of the lanes of c->mask up to `epoch` become known. */
void lanes_mark(const Ctx *c, Check *k, u32 w, u32 epoch, u32 *all, u32 *lane) {
  if (!k->strict_lanes)
    return;
  if (!lanes_partial(c, k)) {
    all[w] = most(all[w], epoch);
    return;
  }
  FOR_LANES (c->mask, l) {
    u32 *at = dimension(c, k, w, l, all, lane);
    *at = most(*at, epoch);
  }
}

/* The same as far as the last release fence of each lane. */
void lanes_mark_fenced(const Ctx *c, Check *k, u32 w, u32 level, Clock into) {
  if (!k->strict_lanes)
    return;
  const u32 *at = k->fenced[w][level];
  u32 least = NONE32;
  Ctx one = *c;
  FOR_LANES (c->mask, l)
    least = at[l] < least ? at[l] : least;
  if (!lanes_partial(c, k))
    into[k->all0 + w] = most(into[k->all0 + w], least);
  FOR_LANES (c->mask, l)
    if (at[l] > into[k->all0 + w]) {
      one.mask = 1u << l;
      lanes_mark(&one, k, w, at[l], into + k->all0, into + k->lane0);
    }
}

void lanes_release(const Ctx *c, Check *k, u32 w, Clock into) {
  clock_join(k, into, k->warps[w]);
  FOR_LANES (k->apart[w] & c->mask, l)
    clock_join(k, into, k->solo[w][l]);
  lanes_mark(c, k, w, k->warps[w][w], into + k->all0, into + k->lane0);
}

/* ---- lanes of a record ----------------------------------------------------------------------- */
u32 lane_set(const Ctx *c, Check *k, u32 mask) {
  if (!(mask & (mask - 1)))
    return mask ? 1 + first_lane(mask) : 0;
  if (mask == NONE32 || !k->strict_lanes)
    return 0;
  for (u32 s = k->n_sets - 1; s > LANES; s--)
    if (k->sets[s] == mask)
      return s;
  if (k->n_sets == MAX_LANE_SETS) {
    c->m->lost = true;
    return 1 + first_lane(mask);
  }
  k->sets[k->n_sets] = mask;
  return k->n_sets++;
}

/* Whether accesses of `lanes` up to `epoch` are known to a clock with these dimensions. */
bool lanes_known(const Check *k, u32 w, u32 lanes, u32 epoch, const u32 *all, const u32 *lane) {
  if (all[w] >= epoch)
    return true;
  FOR_LANES (lanes, l) {
    u32 d = k->lane_dim[w * LANES + l];
    if (!d || lane[d - 1] < epoch)
      return false;
  }
  return true;
}
