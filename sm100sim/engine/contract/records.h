/* Written by `python -m sm100sim.contract.header`; do not edit. */
/* clang-format off */
#ifndef SM100SIM_CONTRACT_RECORDS_H
#define SM100SIM_CONTRACT_RECORDS_H
#include "machine/types.h"

#define CONTRACT_DIGEST "e871ea00bf242cf3"
/* One instruction as Python hands it over.
 *
 * Slots are byte offsets into the warp's register block; `guard` is a predicate's slot or NONE32;
 * `first_operand` counts in RawProgram.operands: destinations, then sources; `target` and `reconv`
 * are instruction indices of branches. */
typedef struct {
  u32 op, line, guard, guard_negated, n_destinations, n_sources, cost, unit, first_operand, target, reconv;
  u8 form[16];
  i64 imm;
} RawIns;
_Static_assert(sizeof(RawIns) == 72 && offsetof(RawIns, op) == 0 && offsetof(RawIns, line) == 4 &&
    offsetof(RawIns, guard) == 8 && offsetof(RawIns, guard_negated) == 12 && offsetof(RawIns, n_destinations) == 16 &&
    offsetof(RawIns, n_sources) == 20 && offsetof(RawIns, cost) == 24 && offsetof(RawIns, unit) == 28 &&
    offsetof(RawIns, first_operand) == 32 && offsetof(RawIns, target) == 36 && offsetof(RawIns, reconv) == 40 &&
    offsetof(RawIns, form) == 44 && offsetof(RawIns, imm) == 64, "RawIns");

/* A register slot to fill at warp start, and with which of SPECIALS. */
typedef struct {
  u32 slot, kind;
} Special;
_Static_assert(sizeof(Special) == 8 && offsetof(Special, slot) == 0 && offsetof(Special, kind) == 4, "Special");

/* A register slot and its bits per lane; 1 for a predicate. */
typedef struct {
  u32 slot, bits;
} SlotWidth;
_Static_assert(sizeof(SlotWidth) == 8 && offsetof(SlotWidth, slot) == 0 && offsetof(SlotWidth, bits) == 4, "SlotWidth");

/* A device function of a program.
 *
 * `entry`: index of its first instruction, or NONE32 where the program lacks it; its registers are
 * `n_slots` of RawProgram.slots from `first_slot` on; `frame_bytes`: local memory that it takes;
 * `recursive`: a call of it may come while it runs. */
typedef struct {
  u32 entry, first_slot, n_slots, frame_bytes, recursive;
} RawFunction;
_Static_assert(sizeof(RawFunction) == 20 && offsetof(RawFunction, entry) == 0 &&
    offsetof(RawFunction, first_slot) == 4 && offsetof(RawFunction, n_slots) == 8 &&
    offsetof(RawFunction, frame_bytes) == 12 && offsetof(RawFunction, recursive) == 16, "RawFunction");

/* A kernel ready to run.
 *
 * `registers`: the template of a warp's register block, with the constants in place;
 * `static_smem`: bytes of static shared variables, which lie before the dynamic ones;
 * `entry_registers`: registers per thread at entry, 0 when unknown; `local_bytes`: local memory of
 * each thread; `tables`: the targets of indirect branches; `functions`: by number; `slots`: their
 * registers; `frame`: the slot that holds where each lane's frame begins, or NONE32. */
typedef struct {
  const RawIns *code;
  const u32 *operands;
  const u8 *registers;
  const Special *specials;
  u32 n_code, n_operands, register_bytes, n_specials, static_smem, entry_registers, local_bytes, frame;
  const RawFunction *functions;
  const SlotWidth *slots;
  const u32 *tables;
  u32 n_functions, n_slots, n_tables;
} RawProgram;
_Static_assert(sizeof(RawProgram) == 104 && offsetof(RawProgram, code) == 0 && offsetof(RawProgram, operands) == 8 &&
    offsetof(RawProgram, registers) == 16 && offsetof(RawProgram, specials) == 24 &&
    offsetof(RawProgram, n_code) == 32 && offsetof(RawProgram, n_operands) == 36 &&
    offsetof(RawProgram, register_bytes) == 40 && offsetof(RawProgram, n_specials) == 44 &&
    offsetof(RawProgram, static_smem) == 48 && offsetof(RawProgram, entry_registers) == 52 &&
    offsetof(RawProgram, local_bytes) == 56 && offsetof(RawProgram, frame) == 60 &&
    offsetof(RawProgram, functions) == 64 && offsetof(RawProgram, slots) == 72 && offsetof(RawProgram, tables) == 80 &&
    offsetof(RawProgram, n_functions) == 88 && offsetof(RawProgram, n_slots) == 92 &&
    offsetof(RawProgram, n_tables) == 96, "RawProgram");

/* How a launch is executed.
 *
 * `check`: a set of Check; `trace_cluster`: its index or NONE32; `max_instructions`: 0 for
 * any number; `talks`: clusters may wait for one another. */
typedef struct {
  u32 grid[3], block[3], cluster[3], dynamic_smem, n_params_bytes, mode, poison, check, exact_mma, trace_cluster,
    max_findings, talks;
  u64 seed, max_idle_instructions, max_instructions;
} Options;
_Static_assert(sizeof(Options) == 96 && offsetof(Options, grid) == 0 && offsetof(Options, block) == 12 &&
    offsetof(Options, cluster) == 24 && offsetof(Options, dynamic_smem) == 36 &&
    offsetof(Options, n_params_bytes) == 40 && offsetof(Options, mode) == 44 && offsetof(Options, poison) == 48 &&
    offsetof(Options, check) == 52 && offsetof(Options, exact_mma) == 56 && offsetof(Options, trace_cluster) == 60 &&
    offsetof(Options, max_findings) == 64 && offsetof(Options, talks) == 68 && offsetof(Options, seed) == 72 &&
    offsetof(Options, max_idle_instructions) == 80 && offsetof(Options, max_instructions) == 88, "Options");

/* A known global allocation; `kind`: of REGION_KINDS. */
typedef struct {
  u64 lo, hi;
  u32 kind;
} Region;
_Static_assert(sizeof(Region) == 24 && offsetof(Region, lo) == 0 && offsetof(Region, hi) == 8 &&
    offsetof(Region, kind) == 16, "Region");

/* The beginning of a heap that outlives launches; HEAP_BLOCKS Regions of malloc follow it.
 *
 * `limit`: bytes that may be in use, of which `used` are; `next`: where the next block lies;
 * `blocks`: how many of the Regions are in use. */
typedef struct {
  u64 limit, used, next, blocks;
} Heap;
_Static_assert(sizeof(Heap) == 32 && offsetof(Heap, limit) == 0 && offsetof(Heap, used) == 8 &&
    offsetof(Heap, next) == 16 && offsetof(Heap, blocks) == 24, "Heap");

/* Something wrong at a PTX line, and how often it was seen; `rank` and `warp` may be NONE32.
 *
 * `cluster`: the index of the one in which it was seen first. */
typedef struct {
  char code[48], text[464];
  u32 severity, count, line, line2, rank, warp, lane, ctaid[3];
  u64 cluster;
} RawFinding;
_Static_assert(sizeof(RawFinding) == 560 && offsetof(RawFinding, code) == 0 && offsetof(RawFinding, text) == 48 &&
    offsetof(RawFinding, severity) == 512 && offsetof(RawFinding, count) == 516 && offsetof(RawFinding, line) == 520 &&
    offsetof(RawFinding, line2) == 524 && offsetof(RawFinding, rank) == 528 && offsetof(RawFinding, warp) == 532 &&
    offsetof(RawFinding, lane) == 536 && offsetof(RawFinding, ctaid) == 540 && offsetof(RawFinding, cluster) == 552,
    "RawFinding");

/* An entry of the timeline; `a` and `b` are the kind's own numbers (report.Event). */
typedef struct {
  u32 kind, rank, warp, lane, line;
  u64 t0, t1, a, b;
} RawEvent;
_Static_assert(sizeof(RawEvent) == 56 && offsetof(RawEvent, kind) == 0 && offsetof(RawEvent, rank) == 4 &&
    offsetof(RawEvent, warp) == 8 && offsetof(RawEvent, lane) == 12 && offsetof(RawEvent, line) == 16 &&
    offsetof(RawEvent, t0) == 24 && offsetof(RawEvent, t1) == 32 && offsetof(RawEvent, a) == 40 &&
    offsetof(RawEvent, b) == 48, "RawEvent");

/* Of which clusters, and of which instructions, a machine records the executions.
 *
 * `clusters`: a ClusterPlan per cluster of the launch; `kept`: not 0 for instructions that are
 * recorded; `first`: per instruction, and at the end, where its registers begin in `slots`, whose
 * values are recorded before it is executed. `out_taken`: by cluster, whether another one took it
 * over, which they do as where all places of the chip are taken; NULL: the first takes over all.
 * All of it stays with the caller. */
typedef struct {
  const u8 *clusters;
  const u8 *kept;
  const u32 *first;
  const SlotWidth *slots;
  u8 *out_taken;
} RawRecording;
_Static_assert(sizeof(RawRecording) == 40 && offsetof(RawRecording, clusters) == 0 &&
    offsetof(RawRecording, kept) == 8 && offsetof(RawRecording, first) == 16 && offsetof(RawRecording, slots) == 24 &&
    offsetof(RawRecording, out_taken) == 32, "RawRecording");

/* An execution of an instruction by lanes of a warp that share a program counter.
 *
 * `mask`: lanes whose guard holds, of those in `active`; `value`: where the values of its
 * registers begin: of one register after the other, those of the lanes in `mask`; `notes`: what
 * its handler tells (state.h, Ctx). */
typedef struct {
  u32 cluster;
  u16 rank, warp;
  u32 instruction, mask, active, pad;
  u64 value, notes[3];
} RawStep;
_Static_assert(sizeof(RawStep) == 56 && offsetof(RawStep, cluster) == 0 && offsetof(RawStep, rank) == 4 &&
    offsetof(RawStep, warp) == 6 && offsetof(RawStep, instruction) == 8 && offsetof(RawStep, mask) == 12 &&
    offsetof(RawStep, active) == 16 && offsetof(RawStep, pad) == 20 && offsetof(RawStep, value) == 24 &&
    offsetof(RawStep, notes) == 32, "RawStep");

/* Counts of a run.  `lost`: findings or access history had to be dropped. */
typedef struct {
  u64 instructions, thread_instructions, clusters_done, clusters_total, tma_bytes_loaded, tma_bytes_stored,
    mma_instructions, mma_flops;
  u32 faulted, lost;
} Totals;
_Static_assert(sizeof(Totals) == 72 && offsetof(Totals, instructions) == 0 &&
    offsetof(Totals, thread_instructions) == 8 && offsetof(Totals, clusters_done) == 16 &&
    offsetof(Totals, clusters_total) == 24 && offsetof(Totals, tma_bytes_loaded) == 32 &&
    offsetof(Totals, tma_bytes_stored) == 40 && offsetof(Totals, mma_instructions) == 48 &&
    offsetof(Totals, mma_flops) == 56 && offsetof(Totals, faulted) == 64 && offsetof(Totals, lost) == 68, "Totals");

/* What a running machine has done so far; written by the engine, read by another thread. */
typedef struct {
  u64 clusters, instructions;
} Progress;
_Static_assert(sizeof(Progress) == 16 && offsetof(Progress, clusters) == 0 && offsetof(Progress, instructions) == 8,
    "Progress");

/* A rule that a descriptor breaks: the fault's code and a sentence. */
typedef struct {
  const char *code;
  const char *text;
} Rule;
_Static_assert(sizeof(Rule) == 16 && offsetof(Rule, code) == 0 && offsetof(Rule, text) == 8, "Rule");

/* The instruction descriptor of tcgen05.mma, decoded; M counts the rows of a pair's CTAs.
 *
 * `stationary`: of tcgen05.mma.ws. */
typedef struct {
  u32 kind, group, a, b, d, m, n, k;
  bool neg_a, neg_b, mn_a, mn_b, saturate, ue8m0;
  u32 sfa_id, sfb_id;
  bool stationary;
} InstrDesc;
_Static_assert(sizeof(InstrDesc) == 52 && offsetof(InstrDesc, kind) == 0 && offsetof(InstrDesc, group) == 4 &&
    offsetof(InstrDesc, a) == 8 && offsetof(InstrDesc, b) == 12 && offsetof(InstrDesc, d) == 16 &&
    offsetof(InstrDesc, m) == 20 && offsetof(InstrDesc, n) == 24 && offsetof(InstrDesc, k) == 28 &&
    offsetof(InstrDesc, neg_a) == 32 && offsetof(InstrDesc, neg_b) == 33 && offsetof(InstrDesc, mn_a) == 34 &&
    offsetof(InstrDesc, mn_b) == 35 && offsetof(InstrDesc, saturate) == 36 && offsetof(InstrDesc, ue8m0) == 37 &&
    offsetof(InstrDesc, sfa_id) == 40 && offsetof(InstrDesc, sfb_id) == 44 && offsetof(InstrDesc, stationary) == 48,
    "InstrDesc");

#define TEXTURE_MARK 23934u

/* What the handle of a texture or surface object points at.
 *
 * `mark`: TEXTURE_MARK; `layers`: 0 where it is not layered, and faces of a cube count; `address`:
 * of the first texel; `pitch`, `slice`: bytes to the next row, and to the next plane or layer;
 * `size`: texels along x, y, z, 1 where there is no such dimension; `border`: bits of f32;
 * `outside`: an Outside for each dimension; `normalized`: coordinates; `fraction`: integers are
 * read as fractions of the largest one; `surface`: kernels may write it; `memory`: texels in
 * linear memory, fetched by integers. */
typedef struct {
  u32 mark, layers;
  u64 address, pitch, slice;
  u32 size[3], border[4];
  u8 rank, channels, channel_bytes, type, outside[3];
  bool cube, linear, normalized, fraction, surface, memory;
} TextureRecord;
_Static_assert(sizeof(TextureRecord) == 80 && offsetof(TextureRecord, mark) == 0 &&
    offsetof(TextureRecord, layers) == 4 && offsetof(TextureRecord, address) == 8 &&
    offsetof(TextureRecord, pitch) == 16 && offsetof(TextureRecord, slice) == 24 &&
    offsetof(TextureRecord, size) == 32 && offsetof(TextureRecord, border) == 44 &&
    offsetof(TextureRecord, rank) == 60 && offsetof(TextureRecord, channels) == 61 &&
    offsetof(TextureRecord, channel_bytes) == 62 && offsetof(TextureRecord, type) == 63 &&
    offsetof(TextureRecord, outside) == 64 && offsetof(TextureRecord, cube) == 67 &&
    offsetof(TextureRecord, linear) == 68 && offsetof(TextureRecord, normalized) == 69 &&
    offsetof(TextureRecord, fraction) == 70 && offsetof(TextureRecord, surface) == 71 &&
    offsetof(TextureRecord, memory) == 72, "TextureRecord");

const char *sm100_contract(void);
u32 sm100_opcode_count(void);
const char *sm100_opcode_name(u32 op);
Machine *sm100_machine_new(const Options *options);
i32 sm100_machine_load(Machine *m, const RawProgram *program);
i32 sm100_machine_memory(Machine *m, const Region *regions, u32 count, const u8 *params);
void sm100_machine_run(Machine *m, Progress *out_progress);
u32 sm100_machine_findings(Machine *m, RawFinding *out, u32 room);
u64 sm100_machine_events(Machine *m, RawEvent *out, u64 room);
void sm100_machine_record(Machine *m, const RawRecording *recording);
u64 sm100_machine_steps(Machine *m, RawStep *out, u64 room);
u64 sm100_machine_values(Machine *m, u64 *out, u64 room);
u64 sm100_machine_output(Machine *m, u8 *out, u64 room);
void sm100_machine_totals(Machine *m, Totals *out);
void sm100_machine_counts(Machine *m, u64 *out_per_opcode, u64 *out_per_instruction);
void sm100_machine_stop(Machine *m);
void sm100_machine_free(Machine *m);
Share *sm100_share_new(const Options *options);
bool sm100_machine_share(Machine *m, Share *share);
bool sm100_share_holds(Share *share);
void sm100_share_undo(Share *share);
void sm100_share_free(Share *share);
u32 smem_unit_address(u64 descriptor, bool mn_major, u32 mn, u32 k);
const Rule *instr_desc_decode(u32 bits, u32 kind, u32 group, bool stationary, InstrDesc *out);

#endif
