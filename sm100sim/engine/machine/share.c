/* What clusters in different threads touch, and the bytes that were there before (share.h). */
#include "machine/share.h"
#include "check/check.h"
#include <pthread.h>

#define PAGE_BYTES 4096u
#define WORDS (PAGE_BYTES / 64)

#define NEAR_PAGES 64u
#define MOST_PAGES 8192u /* of which a machine remembers that they were put aside */

/* Bytes of a page that were read and written.  Of the launch's pages: what they held before the first write.  Of a
 * machine's: whether its cluster uses the page, and whether the former bytes have been put aside. */
typedef struct Touch {
  u64 page;
  u8 *before;
  struct Touch *next;
  bool used, kept;
  u64 read[WORDS], write[WORDS];
} Touch;

/* Pages by number, open addressing. */
struct Touched {
  Touch **of;
  u64 n, cap;                     /* a power of two */
  Touch *near[NEAR_PAGES], *used; /* pages of the last accesses, by number; those that the cluster uses */
};

struct Share {
  pthread_mutex_t lock;
  Touched all; /* by clusters that have ended */
  u64 next, total, instructions, most;
  u32 lanes, sets; /* numbers that the observers of all machines gave out */
  Machine *machines;
  volatile bool broken;
};

/* ---- pages ----------------------------------------------------------------------------------- */
static u64 slot_of(const Touched *in, u64 page) {
  u64 h = page * 0x9E3779B97F4A7C15ull >> 32 & (in->cap - 1);
  while (in->of[h] && in->of[h]->page != page)
    h = (h + 1) & (in->cap - 1);
  return h;
}

static bool grow(Touched *in) {
  Touched more = *in;
  more.cap = in->cap ? 2 * in->cap : 1024;
  more.of = calloc(more.cap, sizeof(Touch *));
  if (!more.of)
    return false;
  for (u64 i = 0; i < in->cap; i++)
    if (in->of[i])
      more.of[slot_of(&more, in->of[i]->page)] = in->of[i];
  free(in->of);
  *in = more;
  return true;
}

/* NULL when there is no memory for it. */
static Touch *page_at(Touched *in, u64 page) {
  Touch **near = &in->near[page % NEAR_PAGES];
  if (*near && (*near)->page == page)
    return *near;
  if (in->n * 2 >= in->cap && !grow(in))
    return NULL;
  u64 h = slot_of(in, page);
  if (!in->of[h]) {
    if (!(in->of[h] = calloc(1, sizeof(Touch))))
      return NULL;
    in->of[h]->page = page;
    in->n++;
  }
  return *near = in->of[h];
}

static void pages_free(Touched *in) {
  for (u64 i = 0; i < in->cap; i++)
    if (in->of[i]) {
      free(in->of[i]->before);
      free(in->of[i]);
    }
  free(in->of);
  *in = (Touched){0};
}

static void mark(u64 *bits, u32 lo, u32 hi) {
  for (u32 w = lo / 64; w <= (hi - 1) / 64; w++) {
    u32 from = w == lo / 64 ? lo % 64 : 0, to = w == (hi - 1) / 64 ? (hi - 1) % 64 : 63;
    bits[w] |= ~0ull >> (63 - to) & ~0ull << from;
  }
}

/* ---- a machine's side ------------------------------------------------------------------------ */
static void give_up(Share *s) {
  s->broken = true;
  for (Machine *m = s->machines; m; m = m->peer)
    m->stop = 1;
}

/* Before anybody writes to a page of the launch its bytes are put aside. */
static bool keep(Share *s, Touch *mine) {
  pthread_mutex_lock(&s->lock);
  Touch *t = page_at(&s->all, mine->page);
  if (t && !t->before && (t->before = malloc(PAGE_BYTES)))
    memcpy(t->before, (const void *)(uintptr_t)(t->page * PAGE_BYTES), PAGE_BYTES);
  mine->kept = t && t->before;
  pthread_mutex_unlock(&s->lock);
  return mine->kept;
}

void share_note(Machine *m, u64 address, u64 len, bool write) {
  for (u64 end = address + len; address < end;) {
    u64 page = address / PAGE_BYTES, next = (page + 1) * PAGE_BYTES;
    Touch *t = page_at(m->touched, page);
    if (!t || (write && !t->kept && !keep(m->share, t))) {
      give_up(m->share); /* no memory: nothing more is written */
      longjmp(m->out_of_memory, 1);
    }
    if (!t->used) {
      t->used = true;
      t->next = m->touched->used;
      m->touched->used = t;
    }
    mark(write ? t->write : t->read, (u32)(address % PAGE_BYTES), (u32)((next < end ? next : end) - page * PAGE_BYTES));
    address = next;
  }
}

bool share_claim(Machine *m, u64 *index) {
  Share *s = m->share;
  pthread_mutex_lock(&s->lock);
  bool more = !s->broken && s->next < s->total;
  if (more)
    *index = s->next++;
  pthread_mutex_unlock(&s->lock);
  m->clusters_done += more;
  return more;
}

static bool meets(const Touch *all, const Touch *t) {
  u64 both = 0;
  for (u32 w = 0; w < WORDS; w++)
    both |= (t->write[w] & (all->read[w] | all->write[w])) | (t->read[w] & all->write[w]);
  return both;
}

static void add(Share *s, Touch *t) {
  Touch *all = page_at(&s->all, t->page);
  if (!all || meets(all, t))
    give_up(s);
  for (u32 w = 0; all && w < WORDS; w++) {
    all->read[w] |= t->read[w];
    all->write[w] |= t->write[w];
  }
  memset(t->read, 0, sizeof t->read);
  memset(t->write, 0, sizeof t->write);
  t->used = false;
}

void share_look(Machine *m) {
  Share *s = m->share;
  pthread_mutex_lock(&s->lock);
  for (const Touch *t = m->touched->used; t && s->all.cap; t = t->next) {
    const Touch *all = s->all.of[slot_of(&s->all, t->page)];
    if (all && meets(all, t))
      give_up(s);
  }
  pthread_mutex_unlock(&s->lock);
}

void share_end_cluster(Machine *m) {
  Share *s = m->share;
  pthread_mutex_lock(&s->lock);
  for (Touch *t = m->touched->used; t; t = t->next)
    add(s, t);
  s->instructions += m->instructions - m->told;
  m->told = m->instructions;
  if (m->faulted || m->lost || m->n_output || (s->most && s->instructions > s->most))
    give_up(s);
  pthread_mutex_unlock(&s->lock);
  m->touched->used = NULL;
  if (m->touched->n > MOST_PAGES)
    pages_free(m->touched);
  check_forget(m);
}

/* One thread would have given out no more numbers than all machines together. */
void share_end(Machine *m) {
  Share *s = m->share;
  share_end_cluster(m);
  if (!m->past)
    return;
  pthread_mutex_lock(&s->lock);
  s->lanes += m->past->n_lane;
  s->sets += m->past->n_sets;
  if (s->lanes > MAX_LANE_DIMS || s->sets > MAX_LANE_SETS)
    give_up(s);
  pthread_mutex_unlock(&s->lock);
}

void share_leave(Machine *m) {
  if (m->touched)
    pages_free(m->touched);
  free(m->touched);
}

/* ---- the functions that Python calls --------------------------------------------------------- */
/* NULL when there is no memory for it. */
Share *sm100_share_new(const Options *options) {
  Share *s = calloc(1, sizeof(Share));
  if (!s || pthread_mutex_init(&s->lock, NULL)) {
    free(s);
    return NULL;
  }
  s->total = clusters_of(options);
  s->most = options->max_instructions;
  return s;
}

/* Whether there was memory for it. */
bool sm100_machine_share(Machine *m, Share *share) {
  m->touched = calloc(1, sizeof(Touched));
  if (!m->touched)
    return false;
  m->share = share;
  m->peer = share->machines;
  share->machines = m;
  return true;
}

/* Whether what ran in several threads is what one thread would have made. */
bool sm100_share_holds(Share *share) {
  return !share->broken && share->next == share->total;
}

/* Memory as it was before the launch. */
void sm100_share_undo(Share *share) {
  for (u64 i = 0; i < share->all.cap; i++) {
    const Touch *t = share->all.of[i];
    u8 *now = t ? (u8 *)(uintptr_t)(t->page * PAGE_BYTES) : NULL;
    for (u32 b = 0; t && t->before && b < PAGE_BYTES; b++)
      if (t->write[b / 64] >> b % 64 & 1)
        now[b] = t->before[b];
  }
}

void sm100_share_free(Share *share) {
  pages_free(&share->all);
  pthread_mutex_destroy(&share->lock);
  free(share);
}
