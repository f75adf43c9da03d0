/* The clocked machine: SMs that replay what warps executed, cycle by cycle.
 *
 * It knows no values. What an instruction takes is in `ClockOp` and `ClockEvent`; here is who waits for whom.
 * Times are cycles, in doubles: servers may take fractions of a cycle, issue happens at whole ones. */
#ifndef SM100SIM_CLOCK_STATE_H
#define SM100SIM_CLOCK_STATE_H
#include "contract/clock.h"
#include "contract/codes.h"
#include <math.h>

#define CLOCK_SUBS 4u
#define CLOCK_SCOREBOARDS 6u
#define CLOCK_NAMED 16u /* named barriers of a CTA */
#define CLOCK_RECENT_GROUPS 8u
#define CLOCK_NEVER HUGE_VAL

/* One thing at a time: free from `free_at` on, `busy` cycles in all. */
typedef struct {
  double free_at, busy;
} Server;

/* When the entries of a queue leave it, in order of entry; CLOCK_NEVER: not known yet. */
typedef struct {
  double leaves[CLOCK_QUEUE_RING];
  u32 first, used;
} Queue;

/* The MMAs of a warp group: how many of its warps issued each, and when its result is there. */
typedef struct {
  double done[CLOCK_WGMMA_RING];
  u32 entry[CLOCK_WGMMA_RING]; /* of the SM's queue */
  u32 by[CLOCK_WGMMA_RING];    /* the execution that completed it */
  u8 joined[CLOCK_WGMMA_RING];
  u64 created, executed;
  u32 members;
} WarpGroup;

typedef struct {
  const ClockWarp *info;
  u32 id, sm, sub, copy, at; /* at: place in the stream */
  bool over;
  double issued_at, fixed_at, branch_at, blocked_until, fetched_at, unit_at;
  ClockReason blocked_by, unit_by;
  u32 blocked_cause;                /* an execution, as all that are called a cause */
  double result[CLOCK_SCOREBOARDS]; /* when the scoreboard is free */
  ClockReason result_of[CLOCK_SCOREBOARDS];
  u32 result_cause[CLOCK_SCOREBOARDS];
  u64 wgmmas, groups, group_ends[CLOCK_RECENT_GROUPS]; /* ends: how many MMAs there were */
  u64 awaited;                                         /* MMAs of its group that it waits for; 0: does not wait */
  double tmem_stored;
  double initialised; /* when the mbarriers that it initialised are */
  double accessed;    /* when all is done that it asked of global memory */
  double store_done, bulk_done[CLOCK_BULK_GROUPS];
  u32 tmem_cause, store_cause, bulk_cause[CLOCK_BULK_GROUPS];
  u64 bulk_groups, cluster_phases;
} WarpState;

typedef struct {
  Server unit[CLOCK_UNIT_COUNT];
  Queue requests, mmas;
  double even_free, odd_free; /* when the banks of registers have read what was asked for */
  double slot_free, next;     /* next: no warp can issue before */
  u64 issued;
  WarpState **warps;
  WarpState *last;
  u32 n_warps;
} Sub;

/* A line of the instruction cache. */
typedef struct {
  u32 line;
  double used, ready;
} CacheLine;

/* A line of global memory: when its pieces were in the L1, and its place among the lines that are there. */
typedef struct {
  double ready[CLOCK_PIECES]; /* CLOCK_NEVER: nobody asked for it */
  u64 used;
  u32 place;
  bool here;
} KeptLine;

/* What the L1 says to an access: pieces that it lacks, lines that it was asked for, and when what it has is there. */
typedef struct {
  u32 missing, lines;
  double there;
} L1Answer;

/* What an instruction takes: of its event, if the execution had one. */
typedef struct {
  WarpState *w;
  const ClockOp *op;
  const ClockEvent *event; /* NULL: none */
  u32 index, step;         /* of the instruction, of the execution */
  double at;               /* when the unit of the instruction has taken it */
} Execution;

/* A wgmma that all warps of its group issued; `rest`: from its end to its result. */
typedef struct {
  WarpGroup *group;
  Execution issued;
  u32 slot; /* in the rings of its group */
  double service, passes, rest, registers;
} Product;

typedef struct {
  Sub sub[CLOCK_SUBS];
  Server shared[CLOCK_SHARED_COUNT];
  Queue wgmmas, copies;
  double operands_until, operand_share; /* until then MMAs take this share of the port */
  Product products[CLOCK_QUEUE_RING];   /* the first one runs */
  u32 first_product, n_products;
  double product_start, product_end;
  double next_copy; /* no box is begun before */
  CacheLine *cache;
  u32 *kept, n_kept, drawn; /* lines that the L1 has; the last number drawn */
  u64 uses;
} Sm;

/* A warp that waits for a phase of an mbarrier. */
typedef struct {
  u32 warp, phase, scoreboard; /* scoreboard: NONE32 where the warp itself stands */
  double earliest;
} Waiter;

typedef struct {
  u32 count, pending, phases, rank, n_waiters, room;
  i64 bytes;
  Waiter *waiters;
} Mbarrier;

typedef struct {
  u32 arrived, waiting; /* warps; waiting: one more than the first of a list in `next_waiting` */
  bool all;             /* of all warps of the CTA that have not ended */
} NamedBarrier;

typedef struct {
  u32 arrived, warps; /* of the running phase; warps that have not ended */
  u64 phases;
  double taken, released; /* when the last arrival was, and when who waits goes on */
  u32 cause;
} ClusterBarrier;

/* An mbarrier hears of arrivals or bytes. */
typedef struct {
  double time;
  u64 order;
  u32 mbarrier, arrivals, cause;
  i64 bytes;
} Message;

typedef struct {
  const ClockInput *in;
  const ClockChip *chip;
  ClockTotals *totals;
  ClockWarpTimes *warp_times;
  ClockOpTimes *op_times;
  ClockRecord *records;
  ClockStand *stands;
  double *issued;
  Sm *sms;
  WarpState *warps;
  WarpState **lists;
  WarpGroup *groups;
  Mbarrier *mbarriers;
  NamedBarrier *named;
  ClusterBarrier *clusters;
  u32 *next_waiting;
  u32 *living;      /* per CTA: warps that have not ended */
  double *mma_done; /* per CTA: when the MMAs that it issued are done */
  u32 *mma_cause;
  CacheLine *lines;
  KeptLine *kept; /* per copy, SM and line; NULL: there is no L1 */
  u32 *kept_places;
  Message *heap;
  u32 n_heap, heap_room, n_warps, n_steps, live; /* n_steps: of one copy */
  u64 messages, begun;                           /* clusters that have begun */
  bool no_memory;
  double now;
} Clock;

/* servers.c */
double serve(Server *s, double at, double cycles);
bool queue_full(const Queue *q, double depth, double now, double *until);
void queue_enter(Queue *q, double now, double leaves);
double pass_shared(Clock *c, Sm *sm, double at, double passes, bool comes_back);

/* barriers.c */
void send_message(Clock *c, Message m);
void deliver_messages(Clock *c);
void init_mbarriers(Clock *c, const Execution *x);
void arrive_mbarriers(Clock *c, const Execution *x);
void wait_mbarrier(Clock *c, const Execution *x);
void named_barrier(Clock *c, const Execution *x, bool waits);
void cluster_arrive(Clock *c, const Execution *x);
void cluster_wait(Clock *c, const Execution *x);
void cluster_leave(Clock *c, const WarpState *w);
void named_leave(Clock *c, const WarpState *w);

/* wgmma.c */
bool wgmma_refused(Clock *c, WarpState *w, double *until);
void end_products(Clock *c, Sm *sm);
void note_writes(Clock *c, const Execution *x);
void issue_wgmma(Clock *c, const Execution *x);
void wait_wgmma(Clock *c, const Execution *x);

/* tensor.c */
void read_operands(Sm *sm, double end, double service, double passes);
void issue_mma(Clock *c, const Execution *x);
void commit_mma(Clock *c, const Execution *x);

/* l1.c */
L1Answer ask_l1(Clock *c, const Execution *x);
void fill_l1(Clock *c, const Execution *x, double at);
void drop_lines(Clock *c, const Execution *x);
void forget_lines(Clock *c, Sm *sm);
void leave_lines(Clock *c, u32 copy);

/* memory.c */
void access_shared(Clock *c, const Execution *x);
void access_global(Clock *c, const Execution *x);
void copy_lanes(Clock *c, const Execution *x);
void access_tmem(Clock *c, const Execution *x, bool store);
void copy_load(Clock *c, const Execution *x);
void copy_store(Clock *c, const Execution *x);
void bulk_commit(Clock *c, const Execution *x);
void bulk_wait(Clock *c, const Execution *x);

/* execute.c */
void execute(Clock *c, const Execution *x);
void set_result(const Execution *x, double at);
void set_read(const Execution *x, double at);
void block(const Execution *x, double until, ClockReason why, u32 cause);
void wake(Clock *c, WarpState *w, double at);
void record_span(Clock *c, const Execution *x, u32 what, double start, double end);

/* issue.c */
void issue_cycle(Clock *c, Sub *sub);
void fetch(Clock *c, WarpState *w, u32 from);
Execution next_execution(const Clock *c, WarpState *w);

/* build.c */
bool build_clock(Clock *c);
void next_cluster(Clock *c, u32 copy);
void free_clock(Clock *c);

/* The execution that a warp comes to, or at its end its last one. */
static inline u32 step_of(const Clock *c, const WarpState *w) {
  u32 at = w->at < w->info->length ? w->at : w->info->length - 1;
  return w->copy * c->n_steps + (u32)w->info->first + at;
}

static inline u32 cta_of(const Clock *c, const WarpState *w) {
  return w->copy * c->in->ranks + w->info->rank;
}

static inline double service_of(const Execution *x) {
  return x->event ? x->event->service : x->op->service;
}

static inline double latency_of(const Execution *x) {
  return x->event ? x->event->latency : x->op->latency;
}

static inline double passes_of(const Execution *x) {
  return x->event ? x->event->passes : x->op->passes;
}

static inline u32 action_of(const Execution *x) {
  return x->event ? x->event->action : x->op->action;
}
#endif
