/* The clusters of a launch in one thread.
 *
 * A cluster starts when those before it have ended, or when they only poll: then it may be another cluster that they
 * wait for.  Clusters that have started take turns; no more of them are alive than fit on the chip. */
#include "machine/core.h"
#include "machine/share.h"

#define PATIENCE 20000u /* warp instructions without progress before another cluster has its turn */
#define SM_THREADS 2048u
#define MAX_SM_CTAS 8u /* 32 exist; each costs host memory */
#define MAX_PAUSE 64u

static bool gone(const RawRecording *r, u64 index) {
  return r->clusters[index] == CLUSTER_LEFT_OUT || (r->out_taken && r->out_taken[index]);
}

bool claim_cluster(Machine *m, u64 *index) {
  if (m->share)
    return share_claim(m, index);
  const RawRecording *r = m->recording;
  while (r && m->clusters_done < m->clusters_total && gone(r, m->clusters_done))
    m->clusters_done++;
  if (m->clusters_done >= m->clusters_total)
    return false;
  *index = m->clusters_done++;
  return true;
}

u64 clusters_of(const Options *o) {
  u64 n = 1;
  for (int k = 0; k < 3; k++)
    n *= o->grid[k] / o->cluster[k];
  return n;
}

void cluster_id(const Options *o, u64 index, u32 id[3]) {
  for (int d = 0; d < 3; d++) {
    u32 n = o->grid[d] / o->cluster[d];
    id[d] = (u32)(index % n);
    index /= n;
  }
}

u64 rng_next(Cluster *cl) {
  u64 z = (cl->rng += 0x9E3779B97F4A7C15ull);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

static u32 smaller(u32 a, u32 b) {
  return a < b ? a : b;
}

/* Clusters that are on the chip at the same time. */
static u32 resident(const Machine *m) {
  const Options *o = &m->opt;
  u32 threads = o->block[0] * o->block[1] * o->block[2], shared = SMEM_RESERVED + m->prog.static_smem + o->dynamic_smem;
  u32 ctas = smaller(smaller(SM_THREADS / threads, (SMEM_MAX + SMEM_RESERVED) / shared), MAX_SM_CTAS);
  u32 n = SM_COUNT * (ctas ? ctas : 1) / (o->cluster[0] * o->cluster[1] * o->cluster[2]);
  return n ? n : 1;
}

/* The cluster that another one takes over.  Clusters run one after the other here, so the first would take over all.
 * Where that is not to be, all places of the chip are taken to be at work, and who has taken the first of a round, the
 * longest in most orders, takes the last of the next. */
bool take_over(Machine *m, Cluster *cl, u64 *index) {
  const RawRecording *r = m->recording;
  if (!r || !r->out_taken)
    return claim_cluster(m, index);
  u64 places = resident(m), place = cl->index % places;
  if (cl->index / places & 1)
    place = places - 1 - place;
  for (;;) {
    u64 round = cl->index / places + ++cl->taken;
    u64 next = round * places + (round & 1 ? places - 1 - place : place);
    if (next >= m->clusters_total)
      return false;
    if (next < m->clusters_done || gone(r, next))
      continue;
    r->out_taken[next] = true;
    *index = next;
    return true;
  }
}

/* Clusters that have started and not ended, the oldest first. */
typedef struct {
  Cluster **of;
  u32 n, room, at;
  u64 idle;         /* warp instructions of all since one of them made progress */
  bool computed;    /* since then one of them had a turn without progress in which it did not poll */
  u32 pause, ended; /* clusters that end between two looks at those that wait, and have ended since the last */
} Live;

static bool start(Machine *m, Live *live) {
  u64 index;
  if (live->n >= live->room || !claim_cluster(m, &index))
    return false;
  live->of[live->n++] = cluster_new(m, index);
  return true;
}

static void end(Machine *m, Live *live) {
  Cluster *cl = live->of[live->at];
  check_cluster_end(m, cl);
  cluster_free(cl);
  live->n--;
  if (m->share)
    share_end_cluster(m);
  memmove(live->of + live->at, live->of + live->at + 1, (live->n - live->at) * sizeof *live->of);
  m->progress->clusters = m->clusters_done - live->n;
  m->progress->instructions = m->instructions;
}

static void enter(Machine *m, Cluster *cl) {
  m->check = cl->check;
  m->tracing = m->opt.trace_cluster == cl->index;
  m->records = m->recording && m->recording->clusters[cl->index] == CLUSTER_RECORDED;
}

/* Those that wait are looked at again when a cluster has ended, less and less often while that is in vain. */
static void after_end(Live *live) {
  if (++live->ended < live->pause) {
    live->at = live->n;
    return;
  }
  live->ended = 0;
  live->pause = live->pause < MAX_PAUSE ? 2 * live->pause : MAX_PAUSE;
  live->at = 0;
}

static void give_turn(Machine *m, Live *live) {
  Cluster *cl = live->of[live->at];
  u64 progress = cl->progress;
  enter(m, cl);
  Turn turn = cluster_run(m, cl, m->opt.talks ? PATIENCE : m->opt.max_idle_instructions);
  if (cl->progress != progress) {
    live->idle = cl->idle;
    live->computed = false;
    live->pause = live->at + 1 < live->n ? 1 : live->pause;
  } else
    live->idle += cl->idle;
  live->computed |= turn == CLUSTER_IDLE && !cl->polled;
  if (turn == CLUSTER_ENDED) {
    live->idle = 0;
    live->computed = false;
    end(m, live);
    after_end(live);
    return;
  }
  live->at++;
  if (!m->opt.talks || live->idle > m->opt.max_idle_instructions * (live->computed ? COMPUTING : 1)) {
    enter(m, live->of[0]);
    report_livelock(m, live->of[0], live->idle);
  }
}

static void run_all(Machine *m, Live *live) {
  while (!m->faulted && !m->stop) {
    if (live->at >= live->n && !start(m, live)) {
      if (!live->n)
        return;
      live->at = 0;
    }
    give_turn(m, live);
  }
}

void run_clusters(Machine *m, void *none) {
  Live live = {.room = m->opt.talks ? resident(m) : 1, .pause = 1};
  (void)none;
  live.of = mem_new(m, live.room, sizeof *live.of);
  run_all(m, &live);
  for (live.at = 0; live.n;)
    end(m, &live);
  mem_free(live.of);
}
