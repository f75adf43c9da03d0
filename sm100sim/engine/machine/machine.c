/* The functions that Python calls (contract/records.h): a machine's life, its program, its results. */
#include "machine/core.h"
#include "machine/share.h"

const char *sm100_contract(void) {
  return CONTRACT_DIGEST;
}

/* A heap's blocks of former launches; an empty heap begins anew. */
static void heap_open(Machine *m) {
  Heap *heap = m->heap;
  if (!heap)
    return;
  Region *blocks = (Region *)(heap + 1);
  if (!heap->blocks)
    heap->next = (u64)(uintptr_t)(blocks + HEAP_BLOCKS);
  for (u64 k = 0; k < heap->blocks; k++) {
    m->regions = mem_grow(m, m->regions, m->n_regions, &m->cap_regions, sizeof(Region));
    m->regions[m->n_regions++] = blocks[k];
  }
}

/* ---- life ---------------------------------------------------------------------------------- */
static void make_results(Machine *m, void *none) {
  (void)none;
  m->op_count = mem_new(m, sm100_opcode_count(), sizeof(u64));
}

/* NULL when there is no memory for it. */
Machine *sm100_machine_new(const Options *options) {
  Machine *m = calloc(1, sizeof(Machine));
  if (!m)
    return NULL;
  m->blocks = (Block){&m->blocks, &m->blocks};
  m->opt = *options;
  m->clusters_total = clusters_of(options);
  m->findings = calloc((size_t)options->max_findings + 1,
                       sizeof(RawFinding)); /* by itself: "out-of-memory" goes there */
  if (m->findings && mem_guard(m, make_results, NULL))
    return m;
  sm100_machine_free(m);
  return NULL;
}

void sm100_machine_free(Machine *m) {
  share_leave(m);
  mem_free_all(m);
  free(m->findings);
  free(m);
}

/* ---- program ------------------------------------------------------------------------------- */
static void *copied(Machine *m, const void *from, size_t count, size_t item) {
  void *to = mem_new(m, count + 1, item);
  memcpy(to, from, count * item);
  return to;
}

static Ins instruction(const Program *p, const RawIns *raw, Handler fn) {
  const u32 *operands = p->operands + raw->first_operand;
  Ins i = {.fn = fn,
           .op = raw->op,
           .line = raw->line,
           .guard = raw->guard,
           .guard_neg = (u8)raw->guard_negated,
           .nd = (u16)raw->n_destinations,
           .ns = (u16)raw->n_sources,
           .cost = (u16)raw->cost,
           .unit = (u16)raw->unit,
           .d = operands,
           .s = operands + raw->n_destinations,
           .imm = raw->imm,
           .target = raw->target,
           .reconv = raw->reconv};
  memcpy(i.form.bytes, raw->form, sizeof i.form.bytes);
  return i;
}

typedef struct {
  const RawProgram *raw;
  i32 answer;
} Loading;

static void load(Machine *m, void *argument) {
  Loading *loading = argument;
  const RawProgram *raw = loading->raw;
  Program *p = &m->prog;
  p->operands = copied(m, raw->operands, raw->n_operands, sizeof(u32));
  p->reg_init = copied(m, raw->registers, raw->register_bytes, 1);
  p->reg_bytes = raw->register_bytes;
  p->specials = copied(m, raw->specials, raw->n_specials, sizeof(Special));
  p->n_specials = raw->n_specials;
  for (u32 k = 0; k < p->n_specials; k++)
    if (p->specials[k].kind >= SP_RESERVED_SMEM_OFFSET_BEGIN && p->specials[k].kind <= SP_RESERVED_SMEM_OFFSET_1)
      p->smem_lent = SMEM_LENT;
  p->static_smem = raw->static_smem;
  p->entry_regs = raw->entry_registers;
  p->local_bytes = raw->local_bytes;
  p->frame = raw->frame;
  p->functions = copied(m, raw->functions, raw->n_functions, sizeof(RawFunction));
  p->n_functions = raw->n_functions;
  p->slots = copied(m, raw->slots, raw->n_slots, sizeof(SlotWidth));
  p->tables = copied(m, raw->tables, raw->n_tables, sizeof(u32));
  p->code = mem_new(m, raw->n_code + 1, sizeof(Ins));
  p->n_code = raw->n_code;
  m->line_count = mem_new(m, raw->n_code + 1, sizeof(u64));
  for (u32 k = 0; k < raw->n_code; k++) {
    const OpDef *def = opcode_def(raw->code[k].op);
    if (!def) {
      loading->answer = (i32)k;
      return;
    }
    p->code[k] = instruction(p, &raw->code[k], def->fn);
  }
  loading->answer = LOADED;
}

/* LOADED, OUT_OF_MEMORY, or the index of an instruction that the engine does not have. */
i32 sm100_machine_load(Machine *m, const RawProgram *program) {
  Loading loading = {program, OUT_OF_MEMORY};
  mem_guard(m, load, &loading);
  return loading.answer;
}

typedef struct {
  const Region *regions;
  u32 count;
} Regions;

static void load_regions(Machine *m, void *argument) {
  const Regions *given = argument;
  m->regions = copied(m, given->regions, given->count, sizeof(Region));
  m->n_regions = m->cap_regions = given->count;
  for (u32 k = 0; k < m->n_regions; k++)
    if (m->regions[k].kind == REGION_HEAP) {
      m->heap = (Heap *)(uintptr_t)m->regions[k].lo;
      m->heap_end = m->regions[k].hi;
      m->regions[k] = m->regions[--m->n_regions];
    }
  m->n_given = m->n_regions;
  heap_open(m);
}

/* LOADED or OUT_OF_MEMORY; `params` stays with the caller. */
i32 sm100_machine_memory(Machine *m, const Region *regions, u32 count, const u8 *params) {
  m->params = params;
  return mem_guard(m, load_regions, &(Regions){regions, count}) ? LOADED : OUT_OF_MEMORY;
}

/* ---- run ----------------------------------------------------------------------------------- */
void sm100_machine_run(Machine *m, Progress *out_progress) {
  m->progress = out_progress;
  mem_guard(m, run_clusters, NULL);
  if (m->share)
    share_end(m);
}

void sm100_machine_stop(Machine *m) {
  m->stop = 1;
}

/* ---- results ------------------------------------------------------------------------------- */
u32 sm100_machine_findings(Machine *m, RawFinding *out, u32 room) {
  u32 n = m->n_findings < room ? m->n_findings : room;
  memcpy(out, m->findings, sizeof(RawFinding) * n);
  return n;
}

u64 sm100_machine_events(Machine *m, RawEvent *out, u64 room) {
  if (out && m->n_events)
    memcpy(out, m->events, sizeof(RawEvent) * (m->n_events < room ? m->n_events : room));
  return m->n_events;
}

/* Bytes that the kernel printed; copies at most `room` of them. */
u64 sm100_machine_output(Machine *m, u8 *out, u64 room) {
  if (out && m->n_output)
    memcpy(out, m->output, m->n_output < room ? m->n_output : room);
  return m->n_output;
}

void sm100_machine_totals(Machine *m, Totals *out) {
  *out = (Totals){.instructions = m->instructions,
                  .thread_instructions = m->thread_instructions,
                  .clusters_done = m->clusters_done,
                  .clusters_total = m->clusters_total,
                  .tma_bytes_loaded = m->bytes_tma_load,
                  .tma_bytes_stored = m->bytes_tma_store,
                  .mma_instructions = m->mma_count,
                  .mma_flops = m->mma_flops,
                  .faulted = m->faulted,
                  .lost = m->lost};
}

void sm100_machine_counts(Machine *m, u64 *out_per_opcode, u64 *out_per_instruction) {
  memcpy(out_per_opcode, m->op_count, sizeof(u64) * sm100_opcode_count());
  memcpy(out_per_instruction, m->line_count, sizeof(u64) * m->prog.n_code);
}
