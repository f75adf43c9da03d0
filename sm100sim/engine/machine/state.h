/* The machine's state: program, warps, CTAs, clusters, asynchronous work.
 *
 * What launch, program, findings and events look like to Python is in contract/records.h. */
#ifndef SM100SIM_STATE_H
#define SM100SIM_STATE_H
#include "contract/codes.h"
#include "contract/forms.h"
#include "contract/records.h"

#include <setjmp.h>

#define TMEM_LANES 128
#define TMEM_COLS 512
#define MAX_NAMED 16
#define CP_RING 32u    /* cp.async groups of a warp whose ends are remembered */
#define WGMMA_RING 64u /* the same of wgmma */
#define MAX_WARPGROUPS (MAX_WARPS / WARPGROUP_WARPS)

/* ---- program ------------------------------------------------------------------------------ */
struct Ins {
  Handler fn;
  u32 op, line; /* opcode index; PTX line */
  u32 guard;    /* predicate slot (byte offset) or NONE32 */
  u8 guard_neg;
  u16 nd, ns, cost, unit; /* operand counts; modelled issue cycles; Unit for the timeline */
  const u32 *d, *s;       /* register slots: byte offsets into the warp's register block */
  i64 imm;                /* address offset or another immediate */
  Form form;              /* the modifiers, as the form that the handler's family has */
  u32 target, reconv;     /* branches: instruction indices */
};

typedef struct {
  Ins *code;
  u32 n_code;
  u32 *operands;
  u32 reg_bytes; /* register block size */
  u8 *reg_init;  /* register block with the constants in place */
  Special *specials;
  u32 n_specials, smem_lent; /* smem_lent: bytes of the system that this program may use */
  u32 static_smem;           /* bytes of static shared variables (placed before dynamic smem) */
  u32 entry_regs;            /* registers per thread at entry, for setmaxnreg accounting; 0 = unknown */
  u32 local_bytes;           /* per-thread local memory */
  u32 frame;                 /* slot with the start of each lane's frame in it, or NONE32 */
  RawFunction *functions;
  u32 n_functions;
  SlotWidth *slots; /* their registers */
  u32 *tables;      /* targets of indirect branches */
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
  WAIT_WGMMA,
  WAIT_OTHER
} WaitKind;

typedef struct {
  WaitKind kind;
  u32 rank, addr;
  u64 want;
} Why; /* for deadlock reports */

/* Where lanes meet: at an instruction, or when they return from a function that they called together. */
typedef struct {
  u32 pc, at, expect, arrived; /* where they go on; the pc that arrives, NONE32 when a return does */
  i32 parent, next_free;       /* index into Warp.joins or -1 */
  u32 room;                    /* of a call: where its frame lies after the caller's */
  u32 function;                /* and its number */
  u8 *saved;                   /* and the registers of a function that calls itself, or NULL */
  u64 t;
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
  u32 index;              /* warp index in the CTA */
  u32 lanes, exited;      /* lanes that exist; lanes that have left */
  u32 came, came_to;      /* lanes that are at a named barrier in several splits; its number */
  u8 *regs, *regs_memory; /* register block, in the allocation that holds it */
  u32 *valid;             /* lane masks of what was written, per SLOT_GRAIN bytes of the block (or NULL) */
  u8 *local;              /* LANES x local_bytes */
  Split splits[LANES];
  Join *joins;
  u32 n_joins, cap_joins;
  i32 free_join;                /* first of those to be used again, or -1 */
  u32 n_live;                   /* live splits */
  u32 maxnreg;                  /* current per-thread register budget */
  u32 bulk_groups[LANES];       /* bulk async-groups that each thread has committed */
  u64 bulk_t_read, bulk_t_done; /* modelled ends of its last bulk store: sources read, all done */
  u32 cp_issued, cp_groups,
      cp_group_end[CP_RING]; /* cp.async: copies issued, groups committed, copies before each commit */
  u32 wgmma_issued, wgmma_groups, wgmma_waited,
      wgmma_group_end
          [WGMMA_RING];        /* wgmma: issued, groups committed, known to be complete; issued before each commit */
  bool wgmma_watched;          /* see_wgmma_registers hears of every instruction */
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
  u32 n_mbars, cap_mbars, dead_mbars; /* dead: invalidated, to be used again */
  u16 *mbar_at;                       /* mbar_at[offset / 8] = index + 1, 0 = none */
  NamedBar named[MAX_NAMED];
  u32 *tmem;                      /* NULL before the first use */
  u8 *tmem_valid;                 /* [lane][column]; validity (or NULL), likewise */
  u16 tmem_owner[TMEM_COLS / 32]; /* 0 free, else allocation id */
  u32 tmem_freed;                 /* slices that were freed, and not given out since */
  u32 tmem_allocs;
  bool tmem_relinquished;
  u32 tmem_last_cols;
  u32 cta_group; /* 0 until the first tcgen05 */
  u32 told;      /* set of Told: findings about habits of a whole kernel, one for each CTA */

  struct {
    u32 cols, dst, warp, base;
    bool waiting, granted;
  } pair_alloc; /* tcgen05.alloc.cta_group::2 under way */

  struct {
    AsyncOp **ahead; /* wgmma that some of the four warps have issued */
    u32 n, cap, started, landed;
    u64 t_done;
  } wgmma[MAX_WARPGROUPS];

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
  u64 progress;         /* bumped by note_progress(): stores, arrivals, landings, exits */
  u64 horizon;          /* of mode "timed": the modelled time up to which everything has happened */
  u64 index, rng, idle; /* idle: warp instructions since the last progress of its last turn */
  u64 taken;            /* rounds of the chip in which it has asked for another cluster (take_over) */
  bool polled;          /* since then somebody asked for what others may change, and it had not changed */
  Check *check;
};

/* each: to the observers, bytes that every lane of `mask` touches, one lane after the other; 0: all touch all.
 * notes: to whoever records: the phase that a wait found; of a tensor copy bytes, place and reach in global memory. */
struct Ctx {
  Machine *m;
  Cluster *cl;
  Cta *cta;
  Warp *w;
  Split *sp;
  const Ins *ins;
  u8 *r;
  u32 mask, each;
  u64 notes[3];
};

/* ---- asynchronous work --------------------------------------------------------------------- */
typedef enum { FIFO_NONE, FIFO_MMA, FIFO_TMEM_ST, FIFO_CP_ASYNC, FIFO_WGMMA } Fifo; /* in-order families */

struct AsyncOp {
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
};

/* ---- machine ------------------------------------------------------------------------------ */
/* The links of an allocation (alloc.c), which lie before it. */
typedef struct Block {
  struct Block *prev, *next;
} Block;

struct Machine {
  Program prog;
  Options opt;
  const u8 *params;
  Region *regions;
  u32 n_regions, cap_regions, n_given; /* those that the launch was given come first, then the kernel's own heap */
  u64 heap_used;
  Heap *heap; /* one that outlives the launch, or NULL; its blocks are the last regions, in the same order */
  u64 heap_end;
  u64 instructions, thread_instructions, clusters_done, clusters_total;
  u64 *op_count;   /* executed warp instructions per opcode */
  u64 *line_count; /* executed warp instructions per instruction index */
  bool faulted;
  RawFinding *findings;
  u32 n_findings;
  bool lost;       /* findings or access history had to be dropped: the run proves nothing */
  bool flags_used; /* see_flag must hear of plain stores, too */
  RawEvent *events;
  u64 n_events, cap_events;
  const RawRecording *recording; /* or NULL */
  RawStep *steps;
  u64 *values;
  u64 n_steps, cap_steps, n_values, cap_values;
  bool records; /* the executing cluster */
  u8 *output;   /* what the kernel printed */
  u64 n_output, cap_output;
  bool tracing;
  u64 bytes_tma_load, bytes_tma_store, mma_count, mma_flops;
  volatile Progress *progress; /* read by the host while we run */
  volatile int stop;
  Check *check;          /* the observers of the executing cluster, or NULL */
  Past *past;            /* what they know of all clusters */
  Share *share;          /* with the machines of other threads, or NULL (share.h) */
  Touched *touched;      /* what the executing cluster has touched, when shared */
  Machine *peer;         /* the next of these machines */
  u64 told;              /* instructions that `share` knows of */
  Block blocks;          /* everything that mem_new gave out, in a ring */
  jmp_buf out_of_memory; /* where mem_guard waits */
};
#endif
