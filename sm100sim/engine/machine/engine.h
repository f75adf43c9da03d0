/* The contract between the engine's files: program, machine state and what an instruction handler may do.
 *
 * One handler is the meaning of one instruction form.  It runs for one *split* (the lanes of a warp
 * that share a program counter), reads and writes registers through the R32/R64/PRED accessors for
 * the lanes in `c->mask`, and answers with a Step:
 *   STEP_NEXT   done, go to the following instruction
 *   STEP_JUMP   done, the handler already placed the split(s)
 *   STEP_BLOCK  nothing was changed; execute again when the machine has moved (set c->sp->why first)
 *   STEP_EXIT   the lanes in c->mask have left the kernel
 *   STEP_FAULT  fault() was called; the run stops and the report names the instruction
 * A handler that may block must not change any state before it is sure to complete.
 * State lives here; semantics live in the family files; only sched.c decides who runs.
 */
#ifndef SM100SIM_ENGINE_H
#define SM100SIM_ENGINE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;

#define LANES 32
#define NONE32 0xFFFFFFFFu
#define SMEM_MAX 233472u    /* 228 KiB of shared memory per SM, PTX ISA / tuning guide */
#define SMEM_RESERVED 1024u /* system part at window offset 0; dynamic smem starts here */
#define TMEM_LANES 128
#define TMEM_COLS 512
#define MAX_CLUSTER 16
#define MAX_WARPS 32
#define MAX_NAMED 16
#define CP_RING 32u /* cp.async groups of a warp whose ends are remembered */

/* Generic address windows (the high 32 bits); anything else is a host = global address. */
#define WIN_SHARED 0x01000000u /* low 32 bits: rank << 24 | offset in the CTA's window */
#define WIN_PARAM 0x02000000u  /* low 32 bits: offset in the parameter buffer */
#define WIN_LOCAL 0x03000000u  /* low 32 bits: offset in the thread's local memory */

typedef enum { STEP_NEXT, STEP_JUMP, STEP_BLOCK, STEP_EXIT, STEP_FAULT } Step;
typedef struct Ctx Ctx;
typedef struct Ins Ins;
typedef struct Machine Machine;
typedef struct Cluster Cluster;
typedef struct Cta Cta;
typedef struct Warp Warp;
typedef Step (*Handler)(Ctx *c, const Ins *i);

/* ---- program ------------------------------------------------------------------------------ */
struct Ins {
  Handler fn;
  u32 op, line; /* opcode index; PTX line */
  u32 guard;
  u8 guard_neg;           /* predicate slot (byte offset) or NONE32 */
  u16 nd, ns, cost, unit; /* operand counts; modelled issue cycles; Unit for the timeline */
  const u32 *d, *s;       /* register slots: byte offsets into the warp's register block */
  i64 imm;                /* address offset or another immediate */
  u32 sub[4];             /* the form's modifiers, meaning private to the handler */
  u32 target, reconv;     /* branches: instruction indices */
};

typedef struct {
  u32 op, line, guard, guard_neg, nd, ns, cost, unit, opnd, target, reconv, sub[4];
  i64 imm;
} RawIns;

typedef enum { UNIT_ALU, UNIT_MUFU, UNIT_LSU, UNIT_SYNC, UNIT_TMEM, UNIT_MMA, UNIT_TMA } Unit;

typedef struct {
  u32 slot, kind;
} Special; /* register slot to fill at warp start, SpecialKind */

typedef enum {
  SP_TID_X,
  SP_TID_Y,
  SP_TID_Z,
  SP_NTID_X,
  SP_NTID_Y,
  SP_NTID_Z,
  SP_CTAID_X,
  SP_CTAID_Y,
  SP_CTAID_Z,
  SP_NCTAID_X,
  SP_NCTAID_Y,
  SP_NCTAID_Z,
  SP_LANEID,
  SP_WARPID,
  SP_NWARPID,
  SP_SMID,
  SP_NSMID,
  SP_CLUSTERID_X,
  SP_CLUSTERID_Y,
  SP_CLUSTERID_Z,
  SP_NCLUSTERID_X,
  SP_NCLUSTERID_Y,
  SP_NCLUSTERID_Z,
  SP_CLUSTER_CTAID_X,
  SP_CLUSTER_CTAID_Y,
  SP_CLUSTER_CTAID_Z,
  SP_CLUSTER_NCTAID_X,
  SP_CLUSTER_NCTAID_Y,
  SP_CLUSTER_NCTAID_Z,
  SP_CLUSTER_CTARANK,
  SP_CLUSTER_NCTARANK,
  SP_IS_EXPLICIT_CLUSTER,
  SP_LANEMASK_EQ,
  SP_LANEMASK_LE,
  SP_LANEMASK_LT,
  SP_LANEMASK_GE,
  SP_LANEMASK_GT,
  SP_GRIDID,
  SP_DYNAMIC_SMEM_SIZE,
  SP_TOTAL_SMEM_SIZE,
  SP_SMEM_BASE /* rank << 24, added to a shared symbol's offset */,
  SP_CONSTANT /* in reg_init already */,
  SP_COUNT
} SpecialKind;

typedef struct {
  Ins *code;
  u32 n_code;
  u32 *operands;
  u32 reg_bytes;
  u8 *reg_init; /* register block size; template with the constants in place */
  Special *specials;
  u32 n_specials;
  u32 static_smem; /* bytes of static shared variables (placed before dynamic smem) */
  u32 entry_regs;  /* registers per thread at entry, for setmaxnreg accounting; 0 = unknown */
  u32 local_bytes; /* per-thread local memory */
} Program;

/* ---- warps -------------------------------------------------------------------------------- */
typedef enum {
  WAIT_NOTHING,
  WAIT_MBARRIER,
  WAIT_NAMED,
  WAIT_CLUSTER,
  WAIT_WARP,
  WAIT_ALLOC,
  WAIT_SETMAXNREG,
  WAIT_BULK_GROUP,
  WAIT_CP_ASYNC,
  WAIT_OTHER
} WaitKind;

typedef struct {
  WaitKind kind;
  u32 rank, addr;
  u64 want;
} Why; /* for deadlock reports */

typedef struct {
  u32 pc, expect, arrived;
  i32 parent;
  u64 t;
  bool used;
} Join;

typedef struct {
  u32 mask, pc;
  i32 join;                      /* active lanes; next instruction; index into Warp.joins or -1 */
  u64 t;                         /* modelled time, cycles */
  bool live, blocked, timed_out; /* timed_out: a suspended try_wait must now answer false */
  u64 seen_progress;             /* Cluster.progress when it blocked */
  Why why;
} Split;

struct Warp {
  Cta *cta;
  u32 index;         /* warp index in the CTA */
  u32 lanes, exited; /* lanes that exist; lanes that have left */
  u8 *regs;
  u32 *valid; /* register block; validity lane masks per 8-byte slot (or NULL) */
  u8 *local;  /* LANES x local_bytes */
  Split splits[LANES];
  Join joins[2 * LANES];
  u32 n_live;                   /* live splits */
  u32 maxnreg;                  /* current per-thread register budget */
  u32 bulk_groups[LANES];       /* bulk async-groups that each thread has committed */
  u64 bulk_t_read, bulk_t_done; /* modelled ends of its last bulk store: sources read, all done */
  u32 cp_issued, cp_groups,
      cp_group_end[CP_RING];   /* cp.async: copies issued, groups committed, copies before each commit */
  u32 st_pending;              /* tcgen05.st not landed */
  u32 loads_open;              /* tcgen05.ld whose registers nobody has waited for, when observed */
  u32 cluster_in, cluster_out; /* lanes that arrived at the open cluster barrier; released and not yet waited */
  u32 reg_moves, reg_line;     /* setmaxnreg executed, and the PTX line of the last one */
  u64 instructions;
};

/* ---- barriers ----------------------------------------------------------------------------- */
typedef struct {
  u32 offset, expected;
  i64 pending, tx;
  u64 phase;
  bool live;
  u64 t, t_phase;
  u32 init_line, init_warp;
  u64 arrivals;
  void *check;
} Mbar;

typedef struct {
  u32 count, arrived;
  u64 generation;
  u64 t, t_done;
  u32 warps_in[2]; /* waiting, released */
  u32 votes, votes_done, kind;
  void *check;
} NamedBar; /* reduction of the open and of the last generation */

struct Cta {
  Cluster *cl;
  u32 rank;
  u32 ctaid[3];
  u32 cluster_ctaid[3];
  u8 *smem;
  u32 smem_bytes; /* window size: reserved + static + dynamic */
  u8 *smem_valid; /* byte validity (or NULL) */
  Mbar *mbars;
  u32 n_mbars, cap_mbars;
  u16 *mbar_at; /* mbar_at[offset / 8] = index + 1, 0 = none */
  NamedBar named[MAX_NAMED];
  u32 *tmem;
  u8 *tmem_valid;                 /* [lane][column]; validity (or NULL) */
  u16 tmem_owner[TMEM_COLS / 32]; /* 0 free, else allocation id */
  u32 tmem_allocs;
  bool tmem_relinquished;
  u32 tmem_last_cols;
  u32 cta_group; /* 0 until the first tcgen05 */

  struct {
    u32 cols, dst, warp, base;
    bool waiting, granted;
  } pair_alloc; /* tcgen05.alloc.cta_group::2 under way */

  u32 mma_lanes[MAX_WARPS], mma_open[MAX_WARPS]; /* lanes that ever issued an MMA, cp or shift; not committed yet */
  Warp *warps;
  u32 n_warps, warps_exited;
  bool exited;
};

struct Cluster {
  Machine *m;
  u32 id[3];
  u32 n_ctas;
  Cta ctas[MAX_CLUSTER];
  u32 bar_arrived, bar_expected;
  u64 bar_generation, bar_t, bar_t_done;
  void *bar_check;
  struct AsyncOp *async_head, *async_tail;
  u32 n_async;
  u64 async_seq;
  u64 mma_free_at[MAX_CLUSTER]; /* modelled time at which the tensor pipe of a CTA (pair leader) is free */
  u64 mma_done_at[MAX_CLUSTER]; /* modelled time at which its last operation has written its result */
  u64 tma_free_at[MAX_CLUSTER];
  u64 progress; /* bumped by note_progress(): stores, arrivals, landings, exits */
};

/* each: to the observers, bytes that every lane of `mask` touches, one lane after the other; 0: all touch all. */
struct Ctx {
  Machine *m;
  Cluster *cl;
  Cta *cta;
  Warp *w;
  Split *sp;
  const Ins *ins;
  u8 *r;
  u32 mask, each;
};

/* ---- asynchronous work (async.c) ----------------------------------------------------------- */
typedef enum { FIFO_NONE, FIFO_MMA, FIFO_TMEM_ST, FIFO_CP_ASYNC } Fifo; /* in-order families */

typedef struct AsyncOp {
  struct AsyncOp *prev, *next;
  Fifo fifo;
  u32 fifo_key; /* ops of one (fifo, key) land in issue order; FIFO_NONE: any order */
  u64 seq, t_issue, t_done;
  Cta *cta;
  Warp *warp;
  u32 lane, line;
  const Ins *ins;
  void (*land)(Machine *m, struct AsyncOp *op); /* perform the effect; may call fault_async() */
  u64 clock_id;                                 /* for the race checker */
  u32 group;
  bool grouped, sources_read; /* bulk async-group of the lane, see bulk.c */
  bool again;                 /* set by land(): the operation has a second part, which lands later */
  _Alignas(16) u8 payload[];  /* handler-private */
} AsyncOp;

AsyncOp *async_new(Ctx *c, Fifo fifo, u32 key, void (*land)(Machine *, AsyncOp *), size_t payload_bytes);
void async_submit(Cluster *cl, AsyncOp *op);       /* fast mode lands at once */
void async_drain(Cluster *cl, Fifo fifo, u32 key); /* land all of one in-order family now */
bool async_pending(const Cluster *cl, Fifo fifo, u32 key);
bool async_land_one(Cluster *cl); /* land one eligible op; false if none */

/* ---- machine ------------------------------------------------------------------------------ */
typedef enum { MODE_FAST, MODE_RANDOM, MODE_LATE } Mode; /* when asynchronous work lands */

typedef struct {
  u64 lo, hi;
  u32 writable;
} Region; /* known global allocation */

typedef struct {
  u32 kind, rank, warp, lane, line;
  u64 t0, t1, a, b;
} Event; /* timeline, see trace.c */

typedef struct {
  u32 code, line, line2, rank, warp, lane;
  u32 ctaid[3];
  char text[512];
} Finding;

typedef struct {
  u32 grid[3], block[3], cluster[3], dynamic_smem, n_params_bytes;
  u32 mode, poison, check, trace_cluster, max_findings; /* check: bit set CHECK_* */
  u64 seed, max_idle_instructions;
} Options;

enum {
  CHECK_REGS = 1,
  CHECK_SMEM = 2,
  CHECK_TMEM = 4,
  CHECK_RACE = 8,
  CHECK_PROTOCOL = 16,
  CHECK_STRICT_LD = 32,
  CHECK_STRICT_EXIT = 64,
  CHECK_STRICT_FENCE = 128,
  CHECK_MMA_EXACT = 256,
  CHECK_STRICT_LANES = 512,
  CHECK_STRICT_SCOPE = 1024
};

struct Machine {
  Program prog;
  Options opt;
  const u8 *params;
  Region *regions;
  u32 n_regions;
  u64 rng;
  u64 instructions, thread_instructions, clusters_done, clusters_total;
  u64 *op_count;   /* executed warp instructions per opcode */
  u64 *line_count; /* executed warp instructions per instruction index */
  bool faulted;
  Finding *findings;
  u32 n_findings;
  bool lost;       /* findings or access history had to be dropped: the run proves nothing */
  bool flags_used; /* see_flag must hear of plain stores, too */
  Event *events;
  u64 n_events, cap_events;
  bool tracing;
  u64 bytes_tma_load, bytes_tma_store, mma_count, mma_flops, t_end;
  volatile u64 *progress_out; /* [done, total, instructions], read by the host while we run */
  volatile int stop;
  void *check; /* checker state */
};

/* ---- registers ---------------------------------------------------------------------------- */
#define R32(c, off) ((u32 *)((c)->r + (off))) /* 32 lanes of 32 bit (also b8, b16, f32) */
#define RI32(c, off) ((i32 *)((c)->r + (off)))
#define RF32(c, off) ((float *)((c)->r + (off)))
#define R64(c, off) ((u64 *)((c)->r + (off))) /* 32 lanes of 64 bit */
#define RI64(c, off) ((i64 *)((c)->r + (off)))
#define RF64(c, off) ((double *)((c)->r + (off)))
#define R128LO(c, off) ((u64 *)((c)->r + (off))) /* b128: 32 low halves, then 32 high halves */
#define R128HI(c, off) ((u64 *)((c)->r + (off)) + LANES)
#define PRED(c, off) (*(u32 *)((c)->r + (off))) /* predicate: one lane mask */
#define FOR_LANES(m, l) for (u32 m_ = (m), l; m_ && (l = (u32)__builtin_ctz(m_), 1); m_ &= m_ - 1)

static inline u32 first_lane(u32 mask) {
  return (u32)__builtin_ctz(mask);
}

static inline void set_pred(Ctx *c, u32 off, u32 bits) {
  PRED(c, off) = (PRED(c, off) & ~c->mask) | (bits & c->mask);
}

/* ---- faults and findings (core.c) ---------------------------------------------------------- */
Step fault(Ctx *c, const char *code, const char *fmt, ...); /* at the current instruction */
void fault_async(Machine *m, const AsyncOp *op, const char *code, const char *fmt, ...);
void finding(Ctx *c, u32 line2, const char *code, const char *fmt, ...); /* reported, the run goes on */

static inline void note_progress(Cluster *cl) {
  cl->progress++;
}

u64 rng_next(Machine *m);

static inline Step block(Ctx *c, WaitKind k, u32 rank, u32 addr, u64 want) {
  c->sp->why = (Why){k, rank, addr, want};
  return STEP_BLOCK;
}

/* ---- memory (memory.c) --------------------------------------------------------------------- */
typedef enum {
  ACC_READ = 0,
  ACC_WRITE = 1,
  ACC_ATOMIC = 2,
  ACC_SCOPE = 4
} Acc; /* observers: | ACC_SCOPE * scope of a strong access */

typedef enum { PROXY_GENERIC = 0, PROXY_ASYNC = 1 } Proxy;

/* Pointer to `len` bytes at a shared-window address (rank << 24 | offset), or NULL with the reason in *err.
 * `own_only`: the access is .shared::cta, so the address must lie in the executing CTA. */
u8 *smem_at(Cluster *cl, Cta *own, u32 addr, u32 len, bool own_only, Cta **owner, const char **err);
bool gmem_ok(Machine *m, u64 addr, u64 len, bool write); /* inside a known allocation */
const u8 *param_at(Machine *m, u32 offset, u32 len);     /* NULL when outside */

/* ---- observers (check.c): called by every handler that touches memory or synchronises ------- */
/* Accesses. `op` is NULL for the executing warp's own (generic) access, else the asynchronous operation. */
void see_smem(Ctx *c, AsyncOp *op, Cta *owner, u32 offset, u32 len, Acc a, Proxy p);
void see_gmem(Ctx *c, AsyncOp *op, Machine *m, u64 addr, u64 len, Acc a, Proxy p);
void see_tmem(Ctx *c, AsyncOp *op, Cta *owner, u32 lane, u32 n_lanes, u32 col, u32 n_cols, Acc a);
/* Happens-before edges. Objects are mbarriers, named barriers, the cluster barrier. */
void see_release(Ctx *c, AsyncOp *op, void **object); /* arrive, complete_tx, commit landing */
void see_warp_sync(Ctx *c, u32 members);
void see_remote_commit(const AsyncOp *op, void **object); /* a commit is about to arrive in another CTA */
void see_acquire(Ctx *c, void **object);                  /* a wait that succeeded */
/* order: a scope, and ORDER_RELEASE or ORDER_ACQUIRE; without these it orders only with a fence before or after it. */
void see_arrive(Ctx *c, void **object, u32 order);
void see_wait(Ctx *c, void **object, u32 order);
void see_complete_tx(Ctx *c, AsyncOp *op,
                     void **object);       /* bytes of a copy; or the instruction, which orders nothing */
void see_fence(Ctx *c, u32 kind, u32 arg); /* FENCE_* below; arg: spaces of a proxy fence, ORDER_* of a membar */

enum {
  FENCE_PROXY_ASYNC,
  FENCE_MBARRIER_INIT,
  FENCE_WAIT_LD,
  FENCE_WAIT_ST,
  FENCE_BEFORE,
  FENCE_AFTER,
  FENCE_MEMBAR = 8
};

/* Strength of an access or fence: scope (0 weak, 1 CTA, 2 cluster, 3 device or system), what it does. */
enum {
  SCOPE_CTA = 1,
  SCOPE_CLUSTER = 2,
  ORDER_SCOPE = 3,
  ORDER_ACQUIRE = 4,
  ORDER_RELEASE = 8,
  ORDER_READ = 16,
  ORDER_UPDATE = 32
};

void see_flag(Ctx *c, const Cta *owner, u64 address, u32 len, u32 order);
void see_exit(Ctx *c);
void see_flip(Cluster *cl, void **object); /* a phase of a barrier ended */
void see_mbar_init(Ctx *c, void **object);
void see_mbar_use(Ctx *c, void **object); /* issue of work that will signal it */
void see_mbar_inval(Ctx *c, void **object);
void see_bulk_join(Ctx *c, AsyncOp *op);                 /* a copy becomes part of its lane's open bulk group */
void see_bulk_wait(Ctx *c, u32 pending, bool read_only); /* cp.async.bulk.wait_group */
void see_cp_wait(Ctx *c, u32 landed);                    /* cp.async: copies known to have landed */
void see_load(Ctx *c, const u32 *slots, u32 n);          /* tcgen05.ld into registers */
void see_registers(Ctx *c, const Ins *i);                /* operands of an instruction while loads are open */
void see_tmem_ld(Ctx *c, u32 lane, u32 n_lanes, u32 col, u32 n_cols);
void see_tmem_alloc(Ctx *c, Cta *owner, u32 col, u32 n_cols, bool pair);

/* ---- mbarriers as seen by other files (mbarrier.c) ------------------------------------------ */
Mbar *mbar_at(Cta *cta, u32 offset); /* NULL when no live object is there */
/* Apply an arrival and/or transaction bytes; answers NULL or the rule that was broken. `t`: modelled time. */
const char *mbar_arrive(Cluster *cl, Mbar *b, u32 count, u64 t);
const char *mbar_expect_tx(Mbar *b, i64 bytes);
const char *mbar_complete_tx(Cluster *cl, Mbar *b, i64 bytes, u64 t);

/* ---- warp helpers (control.c) ---------------------------------------------------------------- */
/* Bring the lanes of `members` together at this instruction; STEP_NEXT when c->mask covers them. */
Step warp_converge(Ctx *c, u32 members);
/* An instruction whose lanes act one after the other, each seen by itself. */
Step lane_by_lane(Ctx *c, const Ins *i, Step (*act)(Ctx *c, const Ins *i, u32 lane));

static inline u32 live_lanes(const Warp *w) {
  return w->lanes & ~w->exited;
}

/* ---- timeline (trace.c) ----------------------------------------------------------------------- */
typedef enum {
  EV_BUSY,
  EV_WAIT,
  EV_MMA,
  EV_TMA_LOAD,
  EV_TMA_STORE,
  EV_ARRIVE,
  EV_MARK,
  EV_ACCESS /* a warp's own access, under the race checker */,
  EV_FINDING /* a: its number */
} EventKind;

void trace_event(Machine *m, EventKind k, Cta *cta, u32 warp, u32 line, u64 t0, u64 t1, u64 a, u64 b);

/* ---- handler tables: each family file defines one ------------------------------------------- */
typedef struct {
  const char *name;
  Handler fn;
} OpDef;

#define OP_TABLE(family) const OpDef ops_##family[]
#endif
