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

static Flag *flag_at(Check *k, u64 key, bool create) {
  if (create && k->n_flags * 2 >= k->cap_flags) {
    u32 old = k->cap_flags;
    Flag *was = k->flags;
    k->cap_flags = old ? 2 * old : 256;
    k->flags = calloc(k->cap_flags, sizeof(Flag));
    for (u32 i = 0; i < old; i++)
      if (was[i].key) {
        u64 h = was[i].key * 0x9E3779B97F4A7C15ull % k->cap_flags;
        while (k->flags[h].key)
          h = (h + 1) % k->cap_flags;
        k->flags[h] = was[i];
      }
    free(was);
  }
  if (!k->cap_flags)
    return NULL;
  u64 h = key * 0x9E3779B97F4A7C15ull % k->cap_flags;
  while (k->flags[h].key && k->flags[h].key != key)
    h = (h + 1) % k->cap_flags;
  if (k->flags[h].key)
    return &k->flags[h];
  if (!create)
    return NULL;
  k->flags[h].key = key;
  k->n_flags++;
  return &k->flags[h];
}

static Clock kept_clock(Check *k) {
  k->kept = grow(k->kept, k->n_kept, &k->cap_kept, sizeof *k->kept);
  return k->kept[k->n_kept++] = clock_new(k);
}

static Released *released_by(Flag *f, u32 cluster, u32 rank) {
  for (u32 i = 0; i < f->n; i++)
    if (f->by[i].cluster == cluster && f->by[i].rank == rank)
      return &f->by[i];
  f->by = grow(f->by, f->n, &f->cap, sizeof *f->by);
  f->by[f->n] = (Released){cluster, rank, {NULL}};
  return &f->by[f->n++];
}

/* What this warp learnt of finished clusters goes on with its release. */
static void pass_on(const Check *k, Flag *f, const u32 *from) {
  for (u32 i = 0; i < k->n_foreign; i++) {
    const Foreign *known = &k->foreign[i];
    bool have = false;
    if (!from[k->foreign0 + i])
      continue;
    for (u32 j = 0; j < f->n; j++)
      have |= f->by[j].cluster == known->cluster && f->by[j].at[2] == known->at;
    if (have)
      continue;
    f->by = grow(f->by, f->n, &f->cap, sizeof *f->by);
    f->by[f->n++] = (Released){known->cluster, NONE32, {NULL, NULL, known->at}};
  }
}

static void release(const Ctx *c, Check *k, Flag *f, u32 w, u32 order) {
  Released *r = released_by(f, k->cluster, cta_of(k, w));
  u32 slot = (u32)(r - f->by);
  for (u32 s = 0; s < (order & ORDER_SCOPE); s++) {
    const u32 *from = order & ORDER_RELEASE ? lanes_view(k, w, c->mask) : k->rel[w][s];
    if (!from)
      continue;
    r = &f->by[slot];
    if (!r->at[s])
      r->at[s] = kept_clock(k);
    clock_join(k, r->at[s], from);
    if (order & ORDER_RELEASE)
      lanes_mark(c, k, w, from[w], r->at[s] + k->all0, r->at[s] + k->lane0);
    else
      lanes_mark_fenced(c, k, w, s, r->at[s]);
    if (s == 2)
      pass_on(k, f, from);
  }
  if (order & ORDER_RELEASE)
    k->warps[w][w]++;
}

/* The dimension that tells of it, or 0. */
static u32 finished_dim(const Ctx *c, Check *k, const Released *r) {
  for (u32 i = 0; i < k->n_foreign; i++)
    if (k->foreign[i].at == r->at[2])
      return k->foreign0 + i;
  if (k->n_foreign == MAX_FOREIGN) {
    c->m->lost = true;
    return 0;
  }
  k->foreign[k->n_foreign] = (Foreign){r->cluster, r->at[2]};
  return k->foreign0 + k->n_foreign++;
}

static void acquire(Ctx *c, Check *k, const Flag *f, u32 w, u32 order) {
  for (u32 i = 0; i < f->n; i++) {
    const Released *r = &f->by[i];
    u32 distance = r->cluster != k->cluster ? 2 : r->rank != cta_of(k, w) ? 1 : 0;
    if (distance >= (order & ORDER_SCOPE) || !r->at[distance])
      continue;
    u32 finished = distance == 2 ? finished_dim(c, k, r) : 0;
    if (distance == 2 && !finished)
      continue;
    if (!(order & ORDER_ACQUIRE)) {
      Clock into = pending(c, k, w, distance);
      if (finished)
        into[finished] = 1;
      else
        clock_join(k, into, r->at[distance]);
    } else if (!finished)
      lanes_acquire(c, k, w, r->at[distance]);
    else {
      FOR_CLOCKS(c, k, w, own) own[finished] = 1;
    }
  }
}

/* An access of `len` bytes at `address` (an offset in `owner`'s window, or global memory) with ORDER_* bits. */
void see_flag(Ctx *c, const Cta *owner, u64 address, u32 len, u32 order) {
  Check *k = c->m->check;
  if (!k || !k->races || (!(order & ORDER_SCOPE) && (!k->n_flags || order & ORDER_READ)))
    return;
  u32 w = warp_dim(k, c->cta, c->w->index);
  for (u64 word = address & ~3ull; word < address + len; word += 4) {
    Flag *f = flag_at(k, owner ? SHARED_KEY | (u64)(owner->rank + 1) << 32 | word : word,
                      (order & ORDER_SCOPE) && !(order & ORDER_READ));
    if (!f)
      continue;
    c->m->flags_used = true;
    if (order & (ORDER_READ | ORDER_UPDATE) && order & ORDER_SCOPE)
      acquire(c, k, f, w, order);
    if (order & ORDER_READ)
      continue;
    if (!(order & ORDER_UPDATE))
      f->n = 0;
    if (order & ORDER_SCOPE)
      release(c, k, f, w, order);
  }
}

void flags_end_cluster(Check *k) {
  for (u32 i = 0; i < k->cap_flags; i++)
    if (k->flags[i].key & SHARED_KEY)
      k->flags[i].n = 0;
}

void flags_free(Check *k) {
  for (u32 i = 0; i < k->cap_flags; i++)
    free(k->flags[i].by);
  for (u32 i = 0; i < k->n_kept; i++)
    free(k->kept[i]);
  free(k->flags);
  free(k->kept);
}
