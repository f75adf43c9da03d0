/* State of the observers: vector clocks, synchronisation objects, access history.
 *
 * A clock has one dimension per source of events whose completion others can learn of:
 *   warp        its own instructions (the epoch grows at every release)
 *   MMA         tcgen05.mma, cp, shift of one warp, in issue order; learnt through commit -> mbarrier
 *               wgmma of a warpgroup, by its first warp; learnt through wgmma.wait_group
 *   st          tcgen05.st of one warp; learnt through tcgen05.wait::st
 *   ld          tcgen05.ld of one warp; learnt through tcgen05.wait::ld or a use of the loaded registers
 *   cp          cp.async of one warp; learnt through its wait or an mbarrier
 *   bulk        copies of one warp in bulk async-groups; learnt through wait_group (two: sources read, all done)
 *   init        mbarrier.init of one warp made visible by fence.mbarrier_init; 1 = the warp has started
 *   foreign     what another cluster had done when it released a flag in global memory
 *   tcgen05     the first five again, as far as tcgen05.fence::before_thread_sync and a relaxed signal carry them:
 *               they order accesses to Tensor Memory and nothing else (PTX ISA, "Memory Consistency Model for tcgen05")
 *   execution   a warp's epochs as any signal carries them: what was executed before, whatever its effects
 *   all lanes   with CHECK_STRICT_LANES: a warp's epoch up to which the accesses of all its lanes are known
 *   mbarrier    phases of one barrier; a copy that completes its transaction in phase p is done for
 *               everyone who saw phase p end
 *   lane        the same of one lane, given out when a lane first signals without the others
 * Not joined: a warp's tcgen05 part at its last tcgen05.fence::after_thread_sync, for CHECK_STRICT_FENCE.
 * After them come two short clocks over the generic accesses (warps, cp.async, all lanes, lane): those visible to the
 * asynchronous proxy in shared and in global memory (they advance at fence.proxy.async; PTX ISA, "Causality order"). */
#ifndef SM100SIM_CHECK_H
#define SM100SIM_CHECK_H
#include "machine/core.h"

#define MAX_MBAR_DIMS 512u
#define MAX_FOREIGN 64u
#define MAX_LANE_DIMS 768u
#define MAX_LANE_SETS 1024u
#define OP_DIM 0x8000u /* Rec.dim of a copy whose completion is looked up by its id */
#define INLINE_RECS 3u
#define MAX_RECS 256u /* unordered accesses to one cell that are remembered: all warps of a pair, each word of it */
#define PAGE_CELLS 256u
#define SMEM_GRAIN 4u /* bytes of shared memory in a cell */
#define PUBLISHED 4u  /* generations of a named or cluster barrier that are remembered */

typedef u32 *Clock;

typedef struct {
  Clock acc, pub[PUBLISHED]; /* arrivals so far; what the waiters of the last phases learn (mbarrier: pub[0]) */
  Clock near, near_pub;      /* CHECK_STRICT_SCOPE: the same without the threads of other CTAs */
  u32 *generation, *waited, *wait_line; /* per warp: generation arrived in; epoch and line of its wait in this phase */
  u32 dim, flips, rank, offset, init_warp, init_epoch, init_count, init_line, last_line, tx_phase, commit_phase;
  bool is_mbar, fenced, told_init, told_phase, told_overrun, observed;
} SyncObject;

/* Rec.kind: bit 0 a write; bits 1-2 the scope of a strong access (0: weak); bit 3: accesses of other finished
 * clusters were folded into this one. */
enum { KIND_WRITE = 1, KIND_SCOPE = 6, KIND_SCOPE_SHIFT = 1, KIND_FOLDED = 8 };

typedef struct {
  u32 epoch;
  u16 dim, mask;
  u32 line : 22, lanes : 10, cluster : 24, kind : 4, proxy : 1, piece : 3;
} Rec; /* lanes: number of their set; piece: the mask holds several accesses of 1 << (piece - 1) bytes each */

/* A cache line; all records are in `more` once it exists.  folded, in global memory: to this cluster, of which no two
 * records of others are alike.  clean, in shared memory: Check.heard of the warp whose access was the last, if that
 * found all others in order. */
typedef struct {
  u16 n, cap;

  union {
    u32 folded, clean;
  };

  Rec *more;
  Rec in[INLINE_RECS];
} Cell;

/* Where the end of a copy can be learnt: all of it, its sources; 0 = nowhere yet. */
typedef struct {
  u32 dim, epoch, dim2, epoch2, warp;
} OpDone;

typedef struct {
  u64 page;
  Cell *cells;
} Page;

typedef struct {
  Clock at;
  u32 epoch, id, met;
} Issue; /* AsyncOp.clock_id: what its issuer knew; epoch in its queue */

typedef struct {
  u32 seq, lane, group;
  bool read, all;
} BulkRec;

typedef struct {
  BulkRec *open;
  u32 n, cap, seq;
} BulkLog;

typedef struct {
  u32 seq, line;
  const u32 *slots;
  u32 n_slots;
} Load;

typedef struct {
  u32 *of;
  Load *open;
  u32 n, cap, seq;
} LoadLog; /* of[slot_index(slot)]: pending load that writes the register */

/* Of a register: fences before its last access, plus 1; the wgmma that uses it last, its PTX line, and as what. */
typedef struct {
  u32 touched, number, line, shape;
  bool result;
} WgmmaUse;

typedef struct {
  WgmmaUse *of; /* of[slot_index(slot)] */
  u32 fences;
} WgmmaLog;

/* What one flag tells of another cluster: the dimension holds how many of these states are known, each of which holds
 * all before it. */
typedef struct {
  u32 cluster, n, cap;
  Clock *at;
} Foreign;
typedef struct Flag Flag;

/* Flags by address, open addressing. */
typedef struct {
  Flag *flags;
  u32 n, cap;
} Flags;

/* What outlives a cluster: who touched global memory, what was released there, and the numbers in those records. */
struct Past {
  u16 *lane_dim; /* lane of a warp -> its dimension + 1 */
  u32 n_lane, clusters;
  u32 sets[MAX_LANE_SETS], n_sets; /* lanes of each set */
  OpDone *ops;
  u64 n_ops, cap_ops;
  Page *pages;
  u64 n_pages, cap_pages; /* open addressing over global memory */
  Page last;              /* of the last access */
  Flags global;
  Clock *kept;
  u32 n_kept, cap_kept; /* clocks of released flags */
};

/* Where each kind of dimension begins in a clock; see above. */
typedef struct {
  u32 cp, mma, st, ld, bulk_read, bulk_all, init, foreign, tensor, executed, all_lanes, mbar, lane, after_fence;
} Dims;

/* The observers of one cluster. */
struct Check {
  Machine *machine;
  Past *past;
  u32 n_warps, warps_per_cta, n_ctas;
  Dims first;
  u32 n_dims, n_mbar_dims, n_proxy_dims, clock_words;
  Clock *warps;
  Clock (*released)[3]; /* state at the last release fence, by scope */
  Clock (*pending)[3];  /* read but not fenced */
  Clock *before_fence;  /* tcgen05 part at the last fence::before_thread_sync */
  u32 *mma_epoch, *st_seq, *cp_seq, *inits, *met, (*touched)[MAX_CLUSTER];
  u32 *heard, hearings; /* per warp: the number of the last change of what it knows of others; of all such changes */
  Clock (*solo)[LANES], view;
  u32 *apart;                            /* clocks of lanes that know more than their warp, which these are */
  u32 (*fenced)[3][LANES], (*pended)[3]; /* per lane: epoch of its last release fence; lanes with a part in `pending` */
  BulkLog *bulk;
  LoadLog *loads;
  WgmmaLog *wgmma;
  bool has_wgmma; /* the program is one for Hopper: the second queue of a warp is that of its warpgroup's wgmma */
  SyncObject **objects;
  u32 n_objects, cap_objects;
  Cell **smem, **tmem;
  Flags shared;
  Foreign foreign[MAX_FOREIGN];
  u32 n_foreign;
  bool foreign_full; /* of further clusters it is not known what was learnt */
  u32 cluster;       /* its number in the records */
  bool races, protocol, strict_ld, strict_fence, strict_lanes, strict_scope;
  u32 landing; /* CTA in which an asynchronous operation accesses memory right now */
};

typedef struct {
  const char *space;
  u32 rank;
  u64 address;
  bool global, tensor;
} Where;

/* Who accesses, under which clock, and as what event; `warp` issues it, whose lanes last met at epoch `met`. */
typedef struct {
  Clock clock;
  u32 dim, epoch, warp, line;
  u8 proxy;
  bool mma;
  u32 met;
} Agent;

static inline Issue *issue_of(const AsyncOp *op) {
  return (Issue *)(uintptr_t)op->clock_id;
}

static inline u32 warp_dim(const Check *check, const Cta *cta, u32 warp) {
  return cta->rank * check->warps_per_cta + warp;
}

/* What a clock knows of a warp's instructions having been executed, and of a source of events of Tensor Memory. */
static inline u32 most(u32 a, u32 b) {
  return a > b ? a : b;
}

static inline u32 tensor_known(const Check *check, const u32 *at, u32 dim) {
  return most(at[dim], at[check->first.tensor + dim]);
}

static inline u32 executed(const Check *check, const u32 *at, u32 warp) {
  return most(tensor_known(check, at, warp), at[check->first.executed + warp]);
}

/* What a tcgen05 operation comes after.  To the letter (`strict_fence`), tcgen05.fence::before_thread_sync orders
 * earlier asynchronous operations with a signal, and ::after_thread_sync a wait with later ones; alloc and dealloc,
 * events of the warp itself, are synchronous and need none on their side. */
static inline u32 tensor_ordered(const Check *check, const Agent *me, u32 dim) {
  if (!check->strict_fence || dim < check->n_warps || dim % check->n_warps == me->warp)
    return tensor_known(check, me->clock, dim);
  return me->clock[(me->dim < check->n_warps ? check->first.tensor : check->first.after_fence) + dim];
}

/* What an MMA is issued after, in the same sense. */
static inline u32 issued_before(const Check *check, const Agent *me, u32 warp) {
  return check->strict_fence && warp != me->warp ? me->clock[check->first.after_fence + warp]
                                                 : tensor_known(check, me->clock, warp);
}

static inline u32 cta_of(const Check *check, u32 warp) {
  return warp / check->warps_per_cta;
}

/* clock.c */
Clock clock_new(const Check *check);
void clock_join(const Check *check, Clock into, const u32 *from);
void clock_copy(const Check *check, Clock into, const u32 *from);
void clock_meet(const Check *check, Clock into, const u32 *from);
void raise_to(u32 *into, const u32 *from, u32 n);

static inline u32 *proxy_clock(const Check *check, Clock c, bool global) {
  return c + check->n_dims + (global ? check->n_proxy_dims : 0);
}

/* Where a proxy clock has its dimensions "all lanes" and "lane". */
static inline u32 *proxy_all(const Check *check, u32 *proxy) {
  return proxy + 2 * check->n_warps;
}

static inline u32 *proxy_lane(const Check *check, u32 *proxy) {
  return proxy + 3 * check->n_warps;
}

/* lanes.c */
typedef struct {
  Check *check;
  u32 w, left;
  bool warp;
} Clocks;

void lanes_start(Check *check);
void lanes_end(Check *check);
bool lanes_partial(const Ctx *c, const Check *check);
Clock lanes_view(Check *check, u32 w, u32 mask);
Clocks lanes_clocks(const Ctx *c, Check *check, u32 w);
Clock lanes_next(Clocks *it);
#define FOR_CLOCKS(c, check, w, own) \
  Clock own;                         \
  for (Clocks it_ = lanes_clocks(c, check, w); (own = lanes_next(&it_));)
void lanes_set(Check *check, u32 w, u32 dim, u32 value);
void lanes_acquire(const Ctx *c, Check *check, u32 w, const u32 *from);
void lanes_release(const Ctx *c, Check *check, u32 w, Clock into);
void lanes_mark(const Ctx *c, Check *check, u32 w, u32 epoch, u32 *all, u32 *lane);
void lanes_mark_fenced(const Ctx *c, Check *check, u32 w, u32 level, Clock into);
void lanes_meet(Check *check, u32 w);
u32 lane_set(const Ctx *c, Check *check, u32 mask);
bool lanes_known(const Check *check, u32 w, u32 lanes, u32 epoch, const u32 *all, const u32 *lane);
/* race.c */
void race_access(Ctx *c, Check *check, Cell *cell, const Agent *me, const Rec *now, const Where *at);

/* The common case, one more of the same, which needs no look at the rule: it stands alone, or its warp has heard of
 * nothing since. */
static inline bool race_repeat(const Check *check, Cell *cell, const Agent *me, const Rec *now, bool global) {
  Rec *r = cell->in;
  if (!global && cell->clean == check->heard[me->warp])
    r = (cell->more ? cell->more : cell->in) + cell->n - 1;
  else if (cell->n != 1 || cell->more)
    return false;
  if (r->dim != now->dim || r->mask != now->mask || r->kind != now->kind || r->proxy != now->proxy ||
      r->cluster != now->cluster || (r->lanes != now->lanes && check->strict_lanes) || now->dim & OP_DIM ||
      me->clock[now->dim] < r->epoch)
    return false;
  *r = *now;
  return true;
}

void cell_clear(Cell *cell);

/* report.c */
typedef enum { ORDERED, UNORDERED, UNFENCED, NO_TENSOR_FENCE, LANES_APART, INCOHERENT } Order;

void race_report(Ctx *c, const Check *check, const Agent *me, const Rec *r, u32 kind, Order o, const Where *at);
/* sync.c */
SyncObject *object_of(Check *check, const Cluster *cl, void **object);
Clock pending(const Ctx *c, Check *check, u32 w, u32 level);
void publish(const Check *check, u32 *into, const u32 *from, u32 w);
/* mbar.c */
void mbar_use(const Ctx *c, const AsyncOp *op, const Check *check, SyncObject *o, const u32 *at);
void mbar_arrival(Ctx *c, const Check *check, SyncObject *o, const u32 *at);
void mbar_phase_end(Cluster *cl, const Check *check, SyncObject *o);
/* group.c */
void loads_waited(Check *check, Warp *warp, u32 w);
/* exit.c */
void see_remote(Ctx *c, const AsyncOp *op, const Cta *owner, const Agent *me);
/* flag.c */
void flags_end_cluster(Check *check);
void flags_free(Flags *in);
#endif
