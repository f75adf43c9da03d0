/* Flags in memory: strong accesses (volatile, relaxed, acquire, release, atomics) synchronise through the word they
 * touch (PTX ISA, "Release and Acquire Patterns", "Morally strong operations").
 *
 * A word keeps what its writers released, per CTA and per scope: [0] to the own CTA, [1] to the cluster, [2] to the
 * device.  A plain store forgets it, an atomic update adds to it (a release sequence).  What a
 * cluster released to the device is kept as a whole clock, which an acquire by another makes known by one number. */
#include "check/check.h"

#define FEW 8u /* entries of a flag that are searched one by one */

typedef struct {
  u32 cluster, rank;
  Clock at[3];
  u32 next;  /* the next entry of the same cluster, or NONE32 */
  bool lent; /* another cluster refers to at[2] */
} Released;

/* A counter of a whole grid has an entry for every cluster.  `first`: the first entry of each, plus 1, by open
 * addressing in `places`, a power of two; NULL while there are few entries. */
struct Flag {
  u64 key;
  Released *by;
  u32 n, cap, *first, places;
};

static u64 place_of(const Flags *in, u64 key) {
  u64 h = key * 0x9E3779B97F4A7C15ull % in->cap;
  while (in->flags[h].key && in->flags[h].key != key)
    h = (h + 1) % in->cap;
  return h;
}

/* `key` is not 0, which marks a free place. */
static Flag *flag_at(Machine *m, Flags *in, u64 key, bool create) {
  if (create && in->n * 2 >= in->cap) {
    Flags more = {NULL, in->n, in->cap ? 2 * in->cap : 256};
    more.flags = mem_new(m, more.cap, sizeof(Flag));
    for (u32 i = 0; i < in->cap; i++)
      if (in->flags[i].key)
        more.flags[place_of(&more, in->flags[i].key)] = in->flags[i];
    mem_free(in->flags);
    *in = more;
  }
  if (!in->cap)
    return NULL;
  Flag *at = &in->flags[place_of(in, key)];
  if (at->key)
    return at;
  if (!create)
    return NULL;
  at->key = key;
  in->n++;
  return at;
}

static Clock kept_clock(Check *check) {
  check->past->kept = mem_grow(check->machine, check->past->kept, check->past->n_kept, &check->past->cap_kept,
                               sizeof *check->past->kept);
  return check->past->kept[check->past->n_kept++] = clock_new(check);
}

static u32 *place_in(const Flag *f, u32 cluster) {
  u32 h = cluster * 0x9E3779B1u & (f->places - 1);
  while (f->first[h] && f->by[f->first[h] - 1].cluster != cluster)
    h = (h + 1) & (f->places - 1);
  return &f->first[h];
}

/* Entries of a cluster in their order: for (u32 i = entry_of(f, cluster); i < f->n; i = entry_after(f, i)). */
static u32 entry_among(const Flag *f, u32 cluster, u32 from) {
  while (from < f->n && f->by[from].cluster != cluster)
    from++;
  return from;
}

static u32 entry_of(const Flag *f, u32 cluster) {
  return f->places ? *place_in(f, cluster) - 1u : entry_among(f, cluster, 0);
}

static u32 entry_after(const Flag *f, u32 i) {
  return f->places ? f->by[i].next : entry_among(f, f->by[i].cluster, i + 1);
}

static void index_entries(Flag *f) {
  for (u32 i = f->n; i-- > 0;) {
    u32 *place = place_in(f, f->by[i].cluster);
    f->by[i].next = *place - 1;
    *place = i + 1;
  }
}

static void index_last(Flag *f) {
  u32 last = f->n - 1, *place = place_in(f, f->by[last].cluster);
  f->by[last].next = NONE32;
  if (!*place) {
    *place = last + 1;
    return;
  }
  u32 i = *place - 1;
  while (f->by[i].next != NONE32)
    i = f->by[i].next;
  f->by[i].next = last;
}

static Released *add_entry(Check *check, Flag *f, Released entry) {
  f->by = mem_grow(check->machine, f->by, f->n, &f->cap, sizeof *f->by);
  f->by[f->n++] = entry;
  if (f->n > FEW && f->n * 2 > f->places) {
    mem_free(f->first);
    f->places = f->places ? 2 * f->places : 4 * FEW;
    f->first = mem_new(check->machine, f->places, sizeof *f->first);
    index_entries(f);
  } else if (f->places)
    index_last(f);
  return &f->by[f->n - 1];
}

static void forget_entries(Flag *f) {
  mem_free(f->first);
  f->first = NULL;
  f->n = f->places = 0;
}

static Released *released_by(Check *check, Flag *f, u32 cluster, u32 rank) {
  for (u32 i = entry_of(f, cluster); i < f->n; i = entry_after(f, i))
    if (f->by[i].rank == rank)
      return &f->by[i];
  return add_entry(check, f, (Released){.cluster = cluster, .rank = rank});
}

/* What this warp learnt of other clusters goes on with its release. */
static void pass_on(const Check *check, Flag *f, const u32 *from) {
  for (u32 i = 0; i < check->n_foreign; i++) {
    const Foreign *other = &check->foreign[i];
    u32 known = from[check->first.foreign + i];
    bool have = false;
    if (!known)
      continue;
    for (u32 j = entry_of(f, other->cluster); j < f->n; j = entry_after(f, j))
      have |= f->by[j].at[2] == other->at[known - 1];
    if (!have)
      add_entry(check, f, (Released){other->cluster, NONE32, {NULL, NULL, other->at[known - 1]}, NONE32, true});
  }
}

/* The clock of a flag for one scope, to which a release adds.  Once another cluster has it, it is changed no more. */
static Clock open_clock(Check *check, Released *r, u32 scope) {
  if (r->at[scope] && !(scope == 2 && r->lent))
    return r->at[scope];
  const u32 *before = r->at[scope];
  Clock now = kept_clock(check);
  if (before)
    memcpy(now, before, check->clock_words * sizeof(u32));
  if (scope == 2)
    r->lent = false;
  return r->at[scope] = now;
}

static void release(const Ctx *c, Check *check, Flag *f, u32 w, u32 order) {
  for (u32 s = 0; s < (order & ORDER_SCOPE); s++) {
    const u32 *from = order & ORDER_RELEASE ? lanes_view(check, w, c->mask) : check->released[w][s];
    if (!from)
      continue; /* a relaxed update after no fence leaves nothing */
    Released *r = released_by(check, f, check->cluster, cta_of(check, w));
    clock_join(check, open_clock(check, r, s), from);
    if (order & ORDER_RELEASE)
      lanes_mark(c, check, w, from[w], r->at[s] + check->first.all_lanes, r->at[s] + check->first.lane);
    else
      lanes_mark_fenced(c, check, w, s, r->at[s]);
    if (s == 2)
      pass_on(check, f, from);
  }
  if (order & ORDER_RELEASE)
    check->warps[w][w]++;
}

static bool holds(const Check *check, const u32 *later, const u32 *earlier) {
  for (u32 d = 0; d < check->clock_words; d++)
    if (later[d] < earlier[d])
      return false;
  return true;
}

/* What is learnt of another cluster: a dimension and its value; false when there are no more dimensions. */
static bool learn(const Ctx *c, Check *check, Released *r, u32 *dim, u32 *value) {
  r->lent = true;
  for (u32 i = 0; i < check->n_foreign; i++) {
    Foreign *f = &check->foreign[i];
    if (f->cluster != r->cluster)
      continue;
    for (u32 k = f->n; k-- > 0;)
      if (f->at[k] == r->at[2]) {
        *dim = check->first.foreign + i;
        *value = k + 1;
        return true;
      }
    if (!holds(check, r->at[2], f->at[f->n - 1]))
      continue;
    f->at = mem_grow(check->machine, f->at, f->n, &f->cap, sizeof *f->at);
    f->at[f->n++] = r->at[2];
    *dim = check->first.foreign + i;
    *value = f->n;
    return true;
  }
  if (check->n_foreign == MAX_FOREIGN) {
    c->m->lost = true;
    check->foreign_full = true;
    return false;
  }
  Foreign *f = &check->foreign[check->n_foreign];
  *f = (Foreign){.cluster = r->cluster};
  f->at = mem_grow(check->machine, NULL, 0, &f->cap, sizeof *f->at);
  f->at[f->n++] = r->at[2];
  *dim = check->first.foreign + check->n_foreign++;
  *value = 1;
  return true;
}

static void acquire_entry(Ctx *c, Check *check, Released *r, u32 w, u32 order) {
  u32 distance = r->cluster != check->cluster ? 2 : r->rank != cta_of(check, w) ? 1 : 0;
  if (distance >= (order & ORDER_SCOPE) || !r->at[distance])
    return;
  u32 other = 0, known = 0;
  if (distance == 2 && !learn(c, check, r, &other, &known))
    return;
  if (!(order & ORDER_ACQUIRE)) {
    Clock into = pending(c, check, w, distance);
    if (other)
      into[other] = most(into[other], known);
    else
      clock_join(check, into, r->at[distance]);
  } else if (!other)
    lanes_acquire(c, check, w, r->at[distance]);
  else {
    FOR_CLOCKS (c, check, w, own)
      own[other] = most(own[other], known);
  }
}

static void acquire_from(Ctx *c, Check *check, Flag *f, u32 w, u32 order, u32 cluster, u32 start) {
  for (u32 i = entry_of(f, cluster); i < f->n; i = entry_after(f, i))
    if (i >= start)
      acquire_entry(c, check, &f->by[i], w, order);
}

/* Once no more clusters can be learnt of, only the entries of those that are known count, and the own ones. */
static void acquire(Ctx *c, Check *check, Flag *f, u32 w, u32 order) {
  u32 i = 0;
  while (i < f->n && !check->foreign_full)
    acquire_entry(c, check, &f->by[i++], w, order);
  if (i == f->n)
    return;
  acquire_from(c, check, f, w, order, check->cluster, i);
  for (u32 k = 0; k < check->n_foreign; k++)
    acquire_from(c, check, f, w, order, check->foreign[k].cluster, i);
}

/* An access of `len` bytes at `address` (an offset in `owner`'s window, or global memory) with ORDER_* bits. */
void see_flag(Ctx *c, const Cta *owner, u64 address, u32 len, u32 order) {
  Check *check = c->m->check;
  if (!check || !check->races)
    return;
  Flags *in = owner ? &check->shared : &check->past->global;
  if (!(order & ORDER_SCOPE) && (!in->n || order & ORDER_READ))
    return;
  u32 w = warp_dim(check, c->cta, c->w->index);
  for (u64 word = address & ~3ull; word < address + len; word += 4) {
    Flag *f = flag_at(c->m, in, owner ? (u64)(owner->rank + 1) << 32 | word : word,
                      (order & ORDER_SCOPE) && !(order & ORDER_READ));
    if (!f)
      continue;
    c->m->flags_used = true;
    if (order & (ORDER_READ | ORDER_UPDATE) && order & ORDER_SCOPE)
      acquire(c, check, f, w, order);
    if (order & ORDER_READ)
      continue;
    if (!(order & ORDER_UPDATE))
      forget_entries(f);
    if (order & ORDER_SCOPE)
      release(c, check, f, w, order);
  }
}

void flags_free(Flags *in) {
  for (u32 i = 0; i < in->cap; i++) {
    mem_free(in->flags[i].by);
    mem_free(in->flags[i].first);
  }
  mem_free(in->flags);
  *in = (Flags){0};
}

void flags_end_cluster(Check *check) {
  flags_free(&check->shared);
  for (u32 f = 0; f < check->n_foreign; f++)
    mem_free(check->foreign[f].at);
}
