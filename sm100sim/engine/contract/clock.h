/* Written by `python -m sm100sim.contract.header`; do not edit. */
/* clang-format off */
#ifndef SM100SIM_CONTRACT_CLOCK_H
#define SM100SIM_CONTRACT_CLOCK_H
#include "machine/types.h"

#define CLOCK_WGMMA_RING 1024u
#define CLOCK_QUEUE_RING 64u
#define CLOCK_BULK_GROUPS 64u
#define CLOCK_PIECES 4u
#define CLOCK_FINISHED 0u
#define CLOCK_NO_MEMORY 1u
#define CLOCK_STUCK 2u
#define CLOCK_NO_STEP 4294967295u

typedef enum { CLOCK_UNIT_ALU, CLOCK_UNIT_FMA_HEAVY, CLOCK_UNIT_FMA_LITE, CLOCK_UNIT_FP64, CLOCK_UNIT_MUFU,
    CLOCK_UNIT_UNIFORM, CLOCK_UNIT_COLLECTOR, CLOCK_UNIT_TMEM, CLOCK_UNIT_WRITE, CLOCK_UNIT_NONE, CLOCK_UNIT_COUNT }
    ClockUnit;

typedef enum { CLOCK_SHARED_REQUEST, CLOCK_SHARED_PORT, CLOCK_SHARED_TENSOR, CLOCK_SHARED_COPY, CLOCK_SHARED_STORE,
    CLOCK_SHARED_MEMORY, CLOCK_SHARED_BARRIER, CLOCK_SHARED_COUNT } ClockShared;

typedef enum { CLOCK_ACT_NONE, CLOCK_ACT_MBARRIER_INIT, CLOCK_ACT_MBARRIER_ARRIVE, CLOCK_ACT_MBARRIER_WAIT,
    CLOCK_ACT_WGMMA, CLOCK_ACT_WGMMA_WAIT, CLOCK_ACT_MMA, CLOCK_ACT_MMA_COMMIT, CLOCK_ACT_COPY_LOAD,
    CLOCK_ACT_COPY_STORE, CLOCK_ACT_BULK_COMMIT, CLOCK_ACT_BULK_WAIT, CLOCK_ACT_TMEM_LOAD, CLOCK_ACT_TMEM_STORE,
    CLOCK_ACT_TMEM_FENCE, CLOCK_ACT_SHARED, CLOCK_ACT_GLOBAL, CLOCK_ACT_NAMED_SYNC, CLOCK_ACT_NAMED_ARRIVE,
    CLOCK_ACT_CLUSTER_ARRIVE, CLOCK_ACT_CLUSTER_WAIT, CLOCK_ACT_BLOCK, CLOCK_ACT_LANE_COPY, CLOCK_ACT_MEMORY_FENCE,
    CLOCK_ACT_COUNT } ClockAction;

typedef enum { CLOCK_L1_PAST, CLOCK_L1_LOAD, CLOCK_L1_DROP, CLOCK_L1_FORGET, CLOCK_L1_COUNT } ClockL1;

typedef enum { CLOCK_WHY_ISSUED, CLOCK_WHY_STALL, CLOCK_WHY_BRANCH, CLOCK_WHY_FETCH, CLOCK_WHY_MBARRIER,
    CLOCK_WHY_NAMED_BARRIER, CLOCK_WHY_CLUSTER_BARRIER, CLOCK_WHY_TENSOR, CLOCK_WHY_TMEM, CLOCK_WHY_SHARED,
    CLOCK_WHY_GLOBAL, CLOCK_WHY_MUFU, CLOCK_WHY_COPY, CLOCK_WHY_OTHER_RESULT, CLOCK_WHY_BLOCKED, CLOCK_WHY_PIPE,
    CLOCK_WHY_QUEUE, CLOCK_WHY_NOT_SELECTED, CLOCK_WHY_COUNT } ClockReason;

/* One instruction: its control code and what it takes.
 *
 * `unit`, `also`: its servers (`also` may be `none`), taken for `service` cycles; `latency`: from
 * there to its result; `passes` of the shared memory. `action`: what it does, with or without an
 * event; `group_end`: it ends a group of wgmmas; `keep`: of a wait, groups that may be left;
 * `reason`: what a wait for its result counts as; `line`: of 128 bytes of code; `writes`:
 * registers that a wgmma writes; of others, thirds of a cycle at the registers' write ports;
 * `even`, `odd`: registers of either bank that it reads; `l1`: of `L1_USES`. */
typedef struct {
  u32 unit, also, action, reason, stall, yields, write_barrier, read_barrier, wait_mask, group_end, keep, line, writes,
    even, odd, l1;
  double service, latency, passes, read_latency;
} ClockOp;
_Static_assert(sizeof(ClockOp) == 96 && offsetof(ClockOp, unit) == 0 && offsetof(ClockOp, also) == 4 &&
    offsetof(ClockOp, action) == 8 && offsetof(ClockOp, reason) == 12 && offsetof(ClockOp, stall) == 16 &&
    offsetof(ClockOp, yields) == 20 && offsetof(ClockOp, write_barrier) == 24 &&
    offsetof(ClockOp, read_barrier) == 28 && offsetof(ClockOp, wait_mask) == 32 && offsetof(ClockOp, group_end) == 36 &&
    offsetof(ClockOp, keep) == 40 && offsetof(ClockOp, line) == 44 && offsetof(ClockOp, writes) == 48 &&
    offsetof(ClockOp, even) == 52 && offsetof(ClockOp, odd) == 56 && offsetof(ClockOp, l1) == 60 &&
    offsetof(ClockOp, service) == 64 && offsetof(ClockOp, latency) == 72 && offsetof(ClockOp, passes) == 80 &&
    offsetof(ClockOp, read_latency) == 88, "ClockOp");

/* What one execution did; it replaces what the instruction says of `action` and times.
 *
 * `first_object`, `objects`: in the table of objects. `phase`: phases that must have ended;
 * `count`: arrivals, threads of a barrier (0: all), or groups that may be left; `size`: bytes that
 * are expected or delivered; `memory`: cycles of the SM's share of the L2; `pair`: both SMs work.
 * `first_piece`, `pieces`: in the table of pieces of global memory. */
typedef struct {
  u32 action, first_object, objects, phase, count, pair, first_piece, pieces;
  u64 size;
  double service, latency, passes, memory;
} ClockEvent;
_Static_assert(sizeof(ClockEvent) == 72 && offsetof(ClockEvent, action) == 0 &&
    offsetof(ClockEvent, first_object) == 4 && offsetof(ClockEvent, objects) == 8 &&
    offsetof(ClockEvent, phase) == 12 && offsetof(ClockEvent, count) == 16 && offsetof(ClockEvent, pair) == 20 &&
    offsetof(ClockEvent, first_piece) == 24 && offsetof(ClockEvent, pieces) == 28 && offsetof(ClockEvent, size) == 32 &&
    offsetof(ClockEvent, service) == 40 && offsetof(ClockEvent, latency) == 48 && offsetof(ClockEvent, passes) == 56 &&
    offsetof(ClockEvent, memory) == 64, "ClockEvent");

/* A warp: its place, and its part of the streams; `group`: of four warps, for wgmma. */
typedef struct {
  u32 rank, warp, group, length;
  u64 first;
} ClockWarp;
_Static_assert(sizeof(ClockWarp) == 24 && offsetof(ClockWarp, rank) == 0 && offsetof(ClockWarp, warp) == 4 &&
    offsetof(ClockWarp, group) == 8 && offsetof(ClockWarp, length) == 12 && offsetof(ClockWarp, first) == 16,
    "ClockWarp");

/* Parameters of the machine; `queue`: entries of the units' queues, 0 for any number.
 *
 * `product_writes`: share of the cycles in which a wgmma has the registers' write ports.
 * `bank_ahead`: cycles for which a bank of registers may have reads before an instruction's.
 * `copy_issue_cycles`: from one box that the copy engine begins to the next; `copy_queue`: boxes
 * that it has taken and not copied, before a warp that asks for another stands; 0: any number.
 * `init_latency`: from an initialisation of an mbarrier until a fence may end.
 * `lane_share_least`, `lane_share_most`: of shared memory's port beside products; 0: no limit.
 * `l1_lines`: that the L1 of an SM holds, 0: none; `l1_latency`, `l1_copy_latency`: until it
 * answers a load, and a copy to shared memory. */
typedef struct {
  double queue[10], request_queue, wgmma_queue, mma_queue, greedy, yield_cycles, branch_cycles, request_cycles,
    arrive_latency, remote_latency, wait_latency, wake_latency, named_warp, named_latency, cluster_latency,
    icache_lines, icache_ways, icache_next, icache_jump, commit_latency, product_writes, bank_ahead, copy_issue_cycles,
    copy_queue, init_latency, lane_share_least, lane_share_most, l1_lines, l1_latency, l1_copy_latency;
} ClockChip;
_Static_assert(sizeof(ClockChip) == 312 && offsetof(ClockChip, queue) == 0 &&
    offsetof(ClockChip, request_queue) == 80 && offsetof(ClockChip, wgmma_queue) == 88 &&
    offsetof(ClockChip, mma_queue) == 96 && offsetof(ClockChip, greedy) == 104 &&
    offsetof(ClockChip, yield_cycles) == 112 && offsetof(ClockChip, branch_cycles) == 120 &&
    offsetof(ClockChip, request_cycles) == 128 && offsetof(ClockChip, arrive_latency) == 136 &&
    offsetof(ClockChip, remote_latency) == 144 && offsetof(ClockChip, wait_latency) == 152 &&
    offsetof(ClockChip, wake_latency) == 160 && offsetof(ClockChip, named_warp) == 168 &&
    offsetof(ClockChip, named_latency) == 176 && offsetof(ClockChip, cluster_latency) == 184 &&
    offsetof(ClockChip, icache_lines) == 192 && offsetof(ClockChip, icache_ways) == 200 &&
    offsetof(ClockChip, icache_next) == 208 && offsetof(ClockChip, icache_jump) == 216 &&
    offsetof(ClockChip, commit_latency) == 224 && offsetof(ClockChip, product_writes) == 232 &&
    offsetof(ClockChip, bank_ahead) == 240 && offsetof(ClockChip, copy_issue_cycles) == 248 &&
    offsetof(ClockChip, copy_queue) == 256 && offsetof(ClockChip, init_latency) == 264 &&
    offsetof(ClockChip, lane_share_least) == 272 && offsetof(ClockChip, lane_share_most) == 280 &&
    offsetof(ClockChip, l1_lines) == 288 && offsetof(ClockChip, l1_latency) == 296 &&
    offsetof(ClockChip, l1_copy_latency) == 304, "ClockChip");

/* A cluster whose CTAs lie on one SM each, `copies` of it at once, `clusters` in all.
 *
 * Where one ends the next begins `gap` cycles later, while the others go on.
 * `objects`: numbers of mbarriers (`mbarrier_ranks` says where each lies, `mbarrier_counts` how
 * many arrivals end a phase) or, of named barriers, rank times 16 plus number. `pieces`: of
 * `n_lines` lines of global memory: PIECES times the line plus the number of the piece. Of the
 * first `n_common` all clusters ask for the same, of the others each for its own. `in_turn`:
 * CTAs of an SM have places for their warps one behind the other. */
typedef struct {
  u32 n_ops, n_events, n_objects, n_warps, n_mbarriers, n_groups, ranks, copies, n_pieces, n_lines, n_common, in_turn;
  double gap;
  u64 clusters;
  const ClockOp *ops;
  const ClockEvent *events;
  const u32 *objects;
  const u32 *pieces;
  const u32 *mbarrier_ranks;
  const u32 *mbarrier_counts;
  const ClockWarp *warps;
  const i32 *order;
  const i32 *event;
  ClockChip chip;
  u64 room, stand_room;
} ClockInput;
_Static_assert(sizeof(ClockInput) == 464 && offsetof(ClockInput, n_ops) == 0 && offsetof(ClockInput, n_events) == 4 &&
    offsetof(ClockInput, n_objects) == 8 && offsetof(ClockInput, n_warps) == 12 &&
    offsetof(ClockInput, n_mbarriers) == 16 && offsetof(ClockInput, n_groups) == 20 &&
    offsetof(ClockInput, ranks) == 24 && offsetof(ClockInput, copies) == 28 && offsetof(ClockInput, n_pieces) == 32 &&
    offsetof(ClockInput, n_lines) == 36 && offsetof(ClockInput, n_common) == 40 &&
    offsetof(ClockInput, in_turn) == 44 && offsetof(ClockInput, gap) == 48 && offsetof(ClockInput, clusters) == 56 &&
    offsetof(ClockInput, ops) == 64 && offsetof(ClockInput, events) == 72 && offsetof(ClockInput, objects) == 80 &&
    offsetof(ClockInput, pieces) == 88 && offsetof(ClockInput, mbarrier_ranks) == 96 &&
    offsetof(ClockInput, mbarrier_counts) == 104 && offsetof(ClockInput, warps) == 112 &&
    offsetof(ClockInput, order) == 120 && offsetof(ClockInput, event) == 128 && offsetof(ClockInput, chip) == 136 &&
    offsetof(ClockInput, room) == 448 && offsetof(ClockInput, stand_room) == 456, "ClockInput");

/* What a run took; `busy` and `shared_busy` are sums over sub-partitions and SMs.
 *
 * `records`, `stands`: how many there are, also where there was no room for all. `stuck_warp`,
 * `stuck_op`: where the first warp stands when nothing moves any more. `l1_asked`, `l1_answered`:
 * pieces that loads asked the L1 for, and those that it had. */
typedef struct {
  double cycles;
  u64 issued, records, stands;
  u32 stuck_warp, stuck_op;
  u64 l1_asked, l1_answered;
  double busy[10], shared_busy[7];
} ClockTotals;
_Static_assert(sizeof(ClockTotals) == 192 && offsetof(ClockTotals, cycles) == 0 && offsetof(ClockTotals, issued) == 8 &&
    offsetof(ClockTotals, records) == 16 && offsetof(ClockTotals, stands) == 24 &&
    offsetof(ClockTotals, stuck_warp) == 32 && offsetof(ClockTotals, stuck_op) == 36 &&
    offsetof(ClockTotals, l1_asked) == 40 && offsetof(ClockTotals, l1_answered) == 48 &&
    offsetof(ClockTotals, busy) == 56 && offsetof(ClockTotals, shared_busy) == 136, "ClockTotals");

/* Cycles of a warp by reason, and when it ended. */
typedef struct {
  double end, reason[18];
} ClockWarpTimes;
_Static_assert(sizeof(ClockWarpTimes) == 152 && offsetof(ClockWarpTimes, end) == 0 &&
    offsetof(ClockWarpTimes, reason) == 8, "ClockWarpTimes");

/* Executions of an instruction, and cycles that warps stood before it. */
typedef struct {
  u64 executed;
  double stood;
} ClockOpTimes;
_Static_assert(sizeof(ClockOpTimes) == 16 && offsetof(ClockOpTimes, executed) == 0 &&
    offsetof(ClockOpTimes, stood) == 8, "ClockOpTimes");

/* A span of the timeline: of a warp that waited, or of a server of the SM that worked.
 *
 * `what`: the reason, or, from len(REASONS) on, the server; `step`: the execution that waited,
 * or that gave the server its work. */
typedef struct {
  double start, end;
  u32 warp, op, what, sm, step;
} ClockRecord;
_Static_assert(sizeof(ClockRecord) == 40 && offsetof(ClockRecord, start) == 0 && offsetof(ClockRecord, end) == 8 &&
    offsetof(ClockRecord, warp) == 16 && offsetof(ClockRecord, op) == 20 && offsetof(ClockRecord, what) == 24 &&
    offsetof(ClockRecord, sm) == 28 && offsetof(ClockRecord, step) == 32, "ClockRecord");

/* Cycles in which a warp stood before an execution, for one reason.
 *
 * `step`: the execution, copy after copy in the order of the streams; `cause`: the one that ended
 * the wait, NO_STEP where none did. */
typedef struct {
  double start, end;
  u32 step, cause, why, warp;
} ClockStand;
_Static_assert(sizeof(ClockStand) == 32 && offsetof(ClockStand, start) == 0 && offsetof(ClockStand, end) == 8 &&
    offsetof(ClockStand, step) == 16 && offsetof(ClockStand, cause) == 20 && offsetof(ClockStand, why) == 24 &&
    offsetof(ClockStand, warp) == 28, "ClockStand");

/* Cycles in which the servers of a sub-partition worked, and instructions that it issued. */
typedef struct {
  double issued, busy[10];
} ClockPartBusy;
_Static_assert(sizeof(ClockPartBusy) == 88 && offsetof(ClockPartBusy, issued) == 0 &&
    offsetof(ClockPartBusy, busy) == 8, "ClockPartBusy");

u32 sm100_clock_run(const ClockInput *input, ClockTotals *out_totals, ClockWarpTimes *out_warps, ClockOpTimes *out_ops,
    ClockRecord *out_records, ClockStand *out_stands, double *out_issued, ClockPartBusy *out_parts);

#endif
