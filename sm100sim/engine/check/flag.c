/* Flags in memory: strong accesses (volatile, relaxed, acquire, release, atomics) synchronise through the word they
 * touch (PTX ISA, "Release and Acquire Patterns", "Morally strong operations").
 *
 * A word keeps what its writers released, per CTA and per scope: [0] to the own CTA, [1] to the cluster, [2] to the
 * device.  A plain store forgets it, an atomic update adds to it (a release sequence).  Clusters run one after the
 * other; what a finished cluster released is kept as a whole clock, which an acquire makes known by one bit. */
#include "check/check.h"

typedef struct {
  u32 cluster, rank;
  Clock at[3];
} Released;

struct Flag {
  u64 key;
  Released *by;
  u32 n, cap;
};

#define SHARED_KEY (1ull << 63)

static Flag *flag_at(Check *check, u64 key, bool create) {
  if (create && check->n_flags * 2 >= check->cap_flags) {
    u32 old = check->cap_flags;
    Flag *was = check->flags;
    check->cap_flags = old ? 2 * old : 256;
    check->flags = mem_new(check->machine, check->cap_flags, sizeof(Flag));
    for (u32 i = 0; i < old; i++)
      if (was[i].key) {
        u64 h = was[i].key * 0x9E3779B97F4A7C15ull % check->cap_flags;
        while (check->flags[h].key)
          h = (h + 1) % check->cap_flags;
        check->flags[h] = was[i];
      }
    mem_free(was);
  }
  if (!check->cap_flags)
    return NULL;
  u64 h = key * 0x9E3779B97F4A7C15ull % check->cap_flags;
  while (check->flags[h].key && check->flags[h].key != key)
    h = (h + 1) % check->cap_flags;
  if (check->flags[h].key)
    return &check->flags[h];
  if (!create)
    return NULL;
  check->flags[h].key = key;
  check->n_flags++;
  return &check->flags[h];
}

static Clock kept_clock(Check *check) {
  check->kept = mem_grow(check->machine, check->kept, check->n_kept, &check->cap_kept, sizeof *check->kept);
  return check->kept[check->n_kept++] = clock_new(check);
}

static Released *released_by(Check *check, Flag *f, u32 cluster, u32 rank) {
  for (u32 i = 0; i < f->n; i++)
    if (f->by[i].cluster == cluster && f->by[i].rank == rank)
      return &f->by[i];
  f->by = mem_grow(check->machine, f->by, f->n, &f->cap, sizeof *f->by);
  f->by[f->n] = (Released){cluster, rank, {NULL}};
  return &f->by[f->n++];
}

/* What this warp learnt of finished clusters goes on with its release. */
static void pass_on(const Check *check, Flag *f, const u32 *from) {
  for (u32 i = 0; i < check->n_foreign; i++) {
    const Foreign *known = &check->foreign[i];
    bool have = false;
    if (!from[check->foreign0 + i])
      continue;
    for (u32 j = 0; j < f->n; j++)
      have |= f->by[j].cluster == known->cluster && f->by[j].at[2] == known->at;
    if (have)
      continue;
    f->by = mem_grow(check->machine, f->by, f->n, &f->cap, sizeof *f->by);
    f->by[f->n++] = (Released){known->cluster, NONE32, {NULL, NULL, known->at}};
  }
}

static void release(const Ctx *c, Check *check, Flag *f, u32 w, u32 order) {
  Released *r = released_by(check, f, check->cluster, cta_of(check, w));
  u32 slot = (u32)(r - f->by);
  for (u32 s = 0; s < (order & ORDER_SCOPE); s++) {
    const u32 *from = order & ORDER_RELEASE ? lanes_view(check, w, c->mask) : check->rel[w][s];
    if (!from)
      continue;
    r = &f->by[slot];
    if (!r->at[s])
      r->at[s] = kept_clock(check);
    clock_join(check, r->at[s], from);
    if (order & ORDER_RELEASE)
      lanes_mark(c, check, w, from[w], r->at[s] + check->all0, r->at[s] + check->lane0);
    else
      lanes_mark_fenced(c, check, w, s, r->at[s]);
    if (s == 2)
      pass_on(check, f, from);
  }
  if (order & ORDER_RELEASE)
    check->warps[w][w]++;
}

/* The dimension that tells of it, or 0. */
static u32 finished_dim(const Ctx *c, Check *check, const Released *r) {
  for (u32 i = 0; i < check->n_foreign; i++)
    if (check->foreign[i].at == r->at[2])
      return check->foreign0 + i;
  if (check->n_foreign == MAX_FOREIGN) {
    c->m->lost = true;
    return 0;
  }
  check->foreign[check->n_foreign] = (Foreign){r->cluster, r->at[2]};
  return check->foreign0 + check->n_foreign++;
}

static void acquire(Ctx *c, Check *check, const Flag *f, u32 w, u32 order) {
  for (u32 i = 0; i < f->n; i++) {
    const Released *r = &f->by[i];
    u32 distance = r->cluster != check->cluster ? 2 : r->rank != cta_of(check, w) ? 1 : 0;
    if (distance >= (order & ORDER_SCOPE) || !r->at[distance])
      continue;
    u32 finished = distance == 2 ? finished_dim(c, check, r) : 0;
    if (distance == 2 && !finished)
      continue;
    if (!(order & ORDER_ACQUIRE)) {
      Clock into = pending(c, check, w, distance);
      if (finished)
        into[finished] = 1;
      else
        clock_join(check, into, r->at[distance]);
    } else if (!finished)
      lanes_acquire(c, check, w, r->at[distance]);
    else {
      FOR_CLOCKS (c, check, w, own)
        own[finished] = 1;
    }
  }
}

/* An access of `len` bytes at `address` (an offset in `owner`'s window, or global memory) with ORDER_* bits. */
void see_flag(Ctx *c, const Cta *owner, u64 address, u32 len, u32 order) {
  Check *check = c->m->check;
  if (!check || !check->races || (!(order & ORDER_SCOPE) && (!check->n_flags || order & ORDER_READ)))
    return;
  u32 w = warp_dim(check, c->cta, c->w->index);
  for (u64 word = address & ~3ull; word < address + len; word += 4) {
    Flag *f = flag_at(check, owner ? SHARED_KEY | (u64)(owner->rank + 1) << 32 | word : word,
                      (order & ORDER_SCOPE) && !(order & ORDER_READ));
    if (!f)
      continue;
    c->m->flags_used = true;
    if (order & (ORDER_READ | ORDER_UPDATE) && order & ORDER_SCOPE)
      acquire(c, check, f, w, order);
    if (order & ORDER_READ)
      continue;
    if (!(order & ORDER_UPDATE))
      f->n = 0;
    if (order & ORDER_SCOPE)
      release(c, check, f, w, order);
  }
}

void flags_end_cluster(Check *check) {
  for (u32 i = 0; i < check->cap_flags; i++)
    if (check->flags[i].key & SHARED_KEY)
      check->flags[i].n = 0;
}
