/* Lanes of one warp (CHECK_STRICT_LANES).  Program order is per thread (PTX ISA, "Program Order"): what one lane
 * releases covers its own accesses and those it has learnt of, and what one lane acquires only that lane knows, until
 * bar.warp.sync or another barrier brings the lanes together; shfl, vote and elect.sync order no memory.
 *
 * A warp's clock is what all its lanes know.  A lane that acquires alone has a clock of its own from then on.  Without
 * the check every instruction counts as one of all lanes, and nothing here has an effect. */
#include "check/check.h"

void lanes_start(Check *check) {
  u32 n = check->n_warps;
  check->solo = mem_new(check->machine, n, sizeof *check->solo);
  check->apart = mem_new(check->machine, n, sizeof(u32));
  check->view = clock_new(check);
  check->fenced = mem_new(check->machine, n, sizeof *check->fenced);
  check->pended = mem_new(check->machine, n, sizeof *check->pended);
  if (check->past->lane_dim)
    return; /* dimensions and sets hold for the whole launch */
  check->past->lane_dim = mem_new(check->machine, n * LANES, sizeof(u16));
  check->past->sets[0] = NONE32;
  check->past->n_sets = 1 + LANES;
  for (u32 l = 0; l < LANES; l++)
    check->past->sets[1 + l] = 1u << l;
}

static void rejoin(Check *check, u32 w, u32 lane) {
  mem_free(check->solo[w][lane]);
  check->solo[w][lane] = NULL;
  check->apart[w] &= ~(1u << lane);
}

void lanes_end(Check *check) {
  for (u32 w = 0; w < check->n_warps; w++)
    FOR_LANES (check->apart[w], l)
      rejoin(check, w, l);
  mem_free(check->solo);
  mem_free(check->apart);
  mem_free(check->view);
  mem_free(check->fenced);
  mem_free(check->pended);
}

/* Some lanes of the warp do not execute this. */
bool lanes_partial(const Ctx *c, const Check *check) {
  return check->strict_lanes && live_lanes(c->w) & ~c->mask;
}

/* ---- what lanes know ------------------------------------------------------------------------- */
/* To be read only: what a lane knows, or what any of several does. */
Clock lanes_view(Check *check, u32 w, u32 mask) {
  u32 apart = check->apart[w] & mask;
  if (!apart)
    return check->warps[w];
  if (!(mask & (mask - 1))) {
    Clock own = check->solo[w][first_lane(mask)];
    own[w] = check->warps[w][w];
    return own;
  }
  memcpy(check->view, check->warps[w], check->clock_words * sizeof(u32));
  FOR_LANES (apart, l)
    raise_to(check->view, check->solo[w][l], check->clock_words);
  check->view[w] = check->warps[w][w];
  return check->view;
}

/* The clocks to which what the lanes of c->mask learn has to be added. */
Clocks lanes_clocks(const Ctx *c, Check *check, u32 w) {
  check->heard[w] = ++check->hearings;
  if (!lanes_partial(c, check))
    return (Clocks){check, w, check->apart[w], true};
  FOR_LANES (c->mask & ~check->apart[w], l) {
    check->solo[w][l] = clock_new(check);
    memcpy(check->solo[w][l], check->warps[w], check->clock_words * sizeof(u32));
  }
  check->apart[w] |= c->mask;
  return (Clocks){check, w, c->mask, false};
}

Clock lanes_next(Clocks *it) {
  if (it->warp) {
    it->warp = false;
    return it->check->warps[it->w];
  }
  if (!it->left)
    return NULL;
  u32 lane = first_lane(it->left);
  it->left &= it->left - 1;
  return lanes_view(it->check, it->w, 1u << lane);
}

void lanes_set(Check *check, u32 w, u32 dim, u32 value) {
  check->heard[w] = ++check->hearings;
  check->warps[w][dim] = value;
  FOR_LANES (check->apart[w], l)
    check->solo[w][l][dim] = value;
}

static bool knows_no_more(const Check *check, u32 w, const u32 *solo) {
  const u32 *all = check->warps[w];
  for (u32 d = 0; d < check->clock_words; d++)
    if (solo[d] > all[d])
      return false;
  return true;
}

void lanes_acquire(const Ctx *c, Check *check, u32 w, const u32 *from) {
  FOR_CLOCKS (c, check, w, own)
    clock_join(check, own, from);
  if (!lanes_partial(c, check))
    FOR_LANES (check->apart[w], l)
      if (knows_no_more(check, w, check->solo[w][l]))
        rejoin(check, w, l);
}

/* The lanes have met: each knows what any of them knew, and what all of them did. */
void lanes_meet(Check *check, u32 w) {
  u32 now = check->warps[w][w];
  check->heard[w] = ++check->hearings;
  FOR_LANES (check->apart[w], l) {
    raise_to(check->warps[w], check->solo[w][l], check->clock_words);
    rejoin(check, w, l);
  }
  if (check->strict_lanes)
    check->warps[w][check->first.all_lanes + w] = now;
  check->met[w] = now;
}

/* ---- what lanes publish ---------------------------------------------------------------------- */
static u32 *dimension(const Ctx *c, Check *check, u32 w, u32 lane, u32 *all, u32 *lanes) {
  u16 *d = &check->past->lane_dim[w * LANES + lane];
  if (!*d && check->past->n_lane < MAX_LANE_DIMS)
    *d = (u16)++check->past->n_lane;
  if (*d)
    return &lanes[*d - 1];
  c->m->lost = true; /* no more dimensions: taken as a signal of all lanes */
  return &all[w];
}

/* The accesses of the lanes of c->mask up to `epoch` become known. */
void lanes_mark(const Ctx *c, Check *check, u32 w, u32 epoch, u32 *all, u32 *lane) {
  if (!check->strict_lanes)
    return;
  if (!lanes_partial(c, check)) {
    all[w] = most(all[w], epoch);
    return;
  }
  FOR_LANES (c->mask, l) {
    u32 *at = dimension(c, check, w, l, all, lane);
    *at = most(*at, epoch);
  }
}

/* The same as far as the last release fence of each lane. */
void lanes_mark_fenced(const Ctx *c, Check *check, u32 w, u32 level, Clock into) {
  if (!check->strict_lanes)
    return;
  const u32 *at = check->fenced[w][level];
  u32 least = NONE32;
  Ctx one = *c;
  FOR_LANES (c->mask, l)
    least = at[l] < least ? at[l] : least;
  if (!lanes_partial(c, check))
    into[check->first.all_lanes + w] = most(into[check->first.all_lanes + w], least);
  FOR_LANES (c->mask, l)
    if (at[l] > into[check->first.all_lanes + w]) {
      one.mask = 1u << l;
      lanes_mark(&one, check, w, at[l], into + check->first.all_lanes, into + check->first.lane);
    }
}

void lanes_release(const Ctx *c, Check *check, u32 w, Clock into) {
  clock_join(check, into, check->warps[w]);
  FOR_LANES (check->apart[w] & c->mask, l)
    clock_join(check, into, check->solo[w][l]);
  lanes_mark(c, check, w, check->warps[w][w], into + check->first.all_lanes, into + check->first.lane);
}

/* ---- lanes of a record ----------------------------------------------------------------------- */
u32 lane_set(const Ctx *c, Check *check, u32 mask) {
  if (!(mask & (mask - 1)))
    return mask ? 1 + first_lane(mask) : 0;
  if (mask == NONE32 || !check->strict_lanes)
    return 0;
  for (u32 s = check->past->n_sets - 1; s > LANES; s--)
    if (check->past->sets[s] == mask)
      return s;
  if (check->past->n_sets == MAX_LANE_SETS) {
    c->m->lost = true;
    return 1 + first_lane(mask);
  }
  check->past->sets[check->past->n_sets] = mask;
  return check->past->n_sets++;
}

/* Whether accesses of `lanes` up to `epoch` are known to a clock with these dimensions. */
bool lanes_known(const Check *check, u32 w, u32 lanes, u32 epoch, const u32 *all, const u32 *lane) {
  if (all[w] >= epoch)
    return true;
  FOR_LANES (lanes, l) {
    u32 d = check->past->lane_dim[w * LANES + l];
    if (!d || lane[d - 1] < epoch)
      return false;
  }
  return true;
}
