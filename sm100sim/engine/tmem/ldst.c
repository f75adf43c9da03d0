/* tcgen05.ld, tcgen05.st, tcgen05.wait and tcgen05.fence (PTX ISA, "Tensor Memory and Register
 * Load/Store Instructions").
 *
 * A load is performed when it is issued: its values are there for the next instruction.  A store
 * travels in the in-order family of its warp and may land at any time until tcgen05.wait::st. */
#include "tmem/tmem.h"
#include "mma/transpose.h"

typedef struct {
  LdShape shape;
  u32 n_regs, packed, half, lane, col;
} Access; /* half: column offset of lanes 16-31 */

/* Thread t, register v -> lane and logical column relative to the address (PTX ISA, "Data Movement Shape"). */
static inline void cell(const Access *a, u32 t, u32 v, u32 *lane, u32 *col) {
  switch (a->shape) {
    case LD_32X32B:
      *lane = t;
      *col = v;
      return;
    case LD_16X64B:
      *lane = 8 * (t & 1) + (t >> 2);
      *col = 2 * v + (t >> 1 & 1);
      return;
    case LD_16X128B:
      *lane = (t >> 2) + 8 * (v & 1);
      *col = 4 * (v >> 1) + (t & 3);
      return;
    case LD_16X256B:
      *lane = (t >> 2) + 8 * (v >> 1 & 1);
      *col = 8 * (v >> 2) + 2 * (t & 3) + (v & 1);
      return;
    default:
      *lane = t & 15;
      *col = v;
      return; /* 16x32bx2 */
  }
}

static inline u32 shift_of_half(const Access *a, u32 t) {
  return a->shape == LD_16X32BX2 && t >= 16 ? a->half : 0;
}

static u32 logical_columns(const Access *a) {
  static const u32 times_two[] = {2, 4, 4, 4, 2}; /* columns per register, doubled */
  return a->n_regs * times_two[a->shape] / 2;
}

static u32 lanes_of(const Access *a) {
  return a->shape == LD_32X32B ? 32 : 16;
}

/* Column range number k (0 or 1) that the access touches; false when there is none. */
static bool columns_of(const Access *a, u32 k, u32 *col, u32 *n) {
  *n = logical_columns(a) << a->packed;
  *col = a->col + (k ? a->half : 0);
  return k == 0 || a->shape == LD_16X32BX2;
}

static u32 fetch(const Cta *cta, const Access *a, u32 t, u32 v) {
  u32 lane, col;
  cell(a, t, v, &lane, &col);
  const u32 *row = tmem_row(cta, a->lane + lane) + a->col + shift_of_half(a, t);
  return a->packed ? (row[2 * col] & 0xFFFF) | row[2 * col + 1] << 16 : row[col];
}

/* .unpack::16b leaves the upper halves of the columns undefined: poison them where poisoning is on. */
static void deposit(Cta *cta, const Access *a, u32 t, u32 v, u32 value) {
  u32 upper = cta->cl->m->opt.poison ? 0xFFFF0000u : 0, lane, col;
  cell(a, t, v, &lane, &col);
  u32 *row = tmem_row(cta, a->lane + lane) + a->col + shift_of_half(a, t);
  if (a->packed) {
    row[2 * col] = upper | (value & 0xFFFF);
    row[2 * col + 1] = upper | value >> 16;
  } else
    row[col] = value;
}

/* The ISA wants the address to name a lane of the warp's own quarter.  Shipped kernels leave the quarter out, or add to
 * it (docs/checking.md): the warp cannot reach another one, so the access is in its own. */
static void own_quarter(Ctx *c, Access *a) {
  u32 first = c->w->index % 4 * 32;
  if (a->lane / 32 * 32 == first)
    return;
  if (first_told(c->cta, TOLD_LANES))
    finding(c, 0, "current-warp-owner-invalid",
            "warp %u reaches lanes %u..%u only, the address names lane %u; taken for lane %u", c->w->index, first,
            first + 31, a->lane, first + a->lane % 32);
  a->lane = first + a->lane % 32;
}

/* The ISA wants one address in all lanes.  Where only the lanes that they name differ, the first counts: the machine
 * code has one uniform register (LDTM, R2UR), and CUTLASS's mixed_input_fmha_prefill_d512 names each thread's lane. */
static Step address_of_warp(Ctx *c, u32 slot, u32 *taddr) {
  const u32 *r = R32(c, slot);
  *taddr = r[first_lane(c->mask)];
  FOR_LANES (c->mask, l) {
    if (taddr_col(r[l]) != taddr_col(*taddr))
      return uniform32(c, slot, "taddr", taddr);
    if (r[l] != *taddr && first_told(c->cta, TOLD_LANES))
      finding(c, 0, "current-warp-owner-invalid",
              "lane %u of warp %u names lane %u, and lane %u names lane %u; the first counts", first_lane(c->mask),
              c->w->index, taddr_lane(*taddr), l, taddr_lane(r[l]));
  }
  return STEP_NEXT;
}

/* s[0]: taddr; imm: address offset. */
static Step access_decode(Ctx *c, const Ins *i, u32 n_regs, Access *a) {
  const TmemAccessForm *f = &i->form.tmem_access;
  u32 taddr;
  Step s;
  if ((s = whole_warp(c)) != STEP_NEXT || (s = address_of_warp(c, i->s[0], &taddr)) != STEP_NEXT)
    return s;
  taddr += (u32)i->imm;
  *a = (Access){(LdShape)f->shape, n_regs, f->packed, f->half, taddr_lane(taddr), taddr_col(taddr)};
  own_quarter(c, a);
  if (a->lane % lanes_of(a))
    return fault(c, "invalid-datapath-alignment", "lane %u is not a multiple of %u", a->lane, lanes_of(a));
  for (u32 k = 0, col, n; k < 2; k++)
    if (columns_of(a, k, &col, &n) && (s = tmem_columns(c, c->cta, col, n, "taddr")) != STEP_NEXT)
      return s;
  return STEP_NEXT;
}

/* The unpacked 32x32b form without `cell`: rows of Tensor Memory <-> registers[v][lane]. */
static void rows_to_registers(const Cta *cta, const Access *a, u32 *const *registers) {
  u32 whole = a->n_regs & ~7u;
  for (u32 t = 0; t < LANES; t += 8)
    for (u32 v = 0; v < whole; v += 8) {
      const u32 *in[8];
      u32 *out[8];
      for (u32 k = 0; k < 8; k++) {
        in[k] = tmem_row(cta, a->lane + t + k) + a->col + v;
        out[k] = registers[v + k] + t;
      }
      transpose_8x8(in, out);
    }
  for (u32 t = 0; t < LANES; t++)
    for (u32 v = whole; v < a->n_regs; v++)
      registers[v][t] = tmem_row(cta, a->lane + t)[a->col + v];
}

static void registers_to_rows(Cta *cta, const Access *a, const u32 *values) {
  u32 whole = a->n_regs & ~7u;
  for (u32 t = 0; t < LANES; t += 8)
    for (u32 v = 0; v < whole; v += 8) {
      const u32 *in[8];
      u32 *out[8];
      for (u32 k = 0; k < 8; k++) {
        in[k] = values + (v + k) * LANES + t;
        out[k] = tmem_row(cta, a->lane + t + k) + a->col + v;
      }
      transpose_8x8(in, out);
    }
  for (u32 t = 0; t < LANES; t++)
    for (u32 v = whole; v < a->n_regs; v++)
      tmem_row(cta, a->lane + t)[a->col + v] = values[v * LANES + t];
}

static void load_now(Ctx *c, const Ins *i, const Access *a) {
  see_load(c, i->d, i->nd);
  for (u32 k = 0, col, n; k < 2; k++) {
    if (!columns_of(a, k, &col, &n))
      continue;
    see_tmem_ld(c, a->lane, lanes_of(a), col, n);
    tmem_expect(c, c->cta, a->lane, lanes_of(a), col, n, a->packed ? CELL_LOW : CELL_FULL, "tcgen05.ld");
  }
  if (a->shape == LD_32X32B && !a->packed) {
    u32 *registers[128];
    for (u32 v = 0; v < a->n_regs; v++)
      registers[v] = R32(c, i->d[v]);
    rows_to_registers(c->cta, a, registers);
    return;
  }
  for (u32 v = 0; v < a->n_regs; v++)
    for (u32 t = 0; t < LANES; t++)
      R32(c, i->d[v])[t] = fetch(c->cta, a, t, v);
}

/* tcgen05.ld.sync.aligned.shape.num{.pack::16b}.b32 r, [taddr]{, immHalfSplitoff}.  d: registers. */
static Step op_ld(Ctx *c, const Ins *i) {
  Access a;
  Step s;
  if ((s = access_decode(c, i, i->nd, &a)) != STEP_NEXT)
    return s;
  load_now(c, i, &a);
  return STEP_NEXT;
}

typedef struct {
  Access a;
  u32 values[];
} Store; /* values[v * 32 + t] */

static void store_land(Machine *m, AsyncOp *op) {
  const Store *st = (const Store *)op->payload;
  const Access *a = &st->a;
  Cta *cta = op->cta;
  op->warp->st_pending--;
  for (u32 k = 0, col, n; k < 2; k++) {
    if (!columns_of(a, k, &col, &n))
      continue;
    if (!tmem_columns_landing(m, op, cta, col, n, "tcgen05.st"))
      return;
    see_tmem(NULL, op, cta, a->lane, lanes_of(a), col, n, ACC_WRITE);
    tmem_mark(cta, a->lane, lanes_of(a), col, n, a->packed ? CELL_LOW : CELL_FULL);
  }
  if (a->shape == LD_32X32B && !a->packed) {
    registers_to_rows(cta, a, st->values);
    return;
  }
  for (u32 t = 0; t < LANES; t++)
    for (u32 v = 0; v < a->n_regs; v++)
      deposit(cta, a, t, v, st->values[v * LANES + t]);
}

static u32 warp_key(const Ctx *c) {
  return c->cta->rank * MAX_WARPS + c->w->index;
}

/* tcgen05.st.sync.aligned.shape.num{.unpack::16b}.b32 [taddr]{, immHalfSplitoff}, r.  s[1..]: registers. */
static Step op_st(Ctx *c, const Ins *i) {
  Access a;
  Step s;
  u32 n = i->ns - 1u;
  if ((s = access_decode(c, i, n, &a)) != STEP_NEXT)
    return s;
  AsyncOp *op = async_new(c, FIFO_TMEM_ST, warp_key(c), store_land, sizeof(Store) + n * LANES * sizeof(u32));
  Store *st = (Store *)op->payload;
  st->a = a;
  for (u32 v = 0; v < n; v++)
    memcpy(st->values + v * LANES, R32(c, i->s[1 + v]), LANES * sizeof(u32));
  c->w->st_pending++;
  async_submit(c->cl, op);
  return STEP_NEXT;
}

/* tcgen05.wait::ld / wait::st .sync.aligned. */
static Step op_wait(Ctx *c, const Ins *i) {
  Step s = whole_warp(c);
  if (s != STEP_NEXT)
    return s;
  if (i->form.tmem_access.stores)
    async_drain(c->cl, FIFO_TMEM_ST, warp_key(c));
  see_fence(c, i->form.tmem_access.stores ? FENCE_WAIT_ST : FENCE_WAIT_LD, 0);
  return c->m->faulted ? STEP_FAULT : STEP_NEXT;
}

/* tcgen05.fence::before_thread_sync / after_thread_sync. */
static Step op_fence(Ctx *c, const Ins *i) {
  see_fence(c, i->form.tmem_access.after ? FENCE_AFTER : FENCE_BEFORE, 0);
  return STEP_NEXT;
}

OP_TABLE(tmem) = {{"TMEM_ALLOC", op_tmem_alloc},
                  {"TMEM_DEALLOC", op_tmem_dealloc},
                  {"TMEM_RELINQUISH", op_tmem_relinquish},
                  {"TMEM_LD", op_ld},
                  {"TMEM_ST", op_st},
                  {"TMEM_WAIT", op_wait},
                  {"TMEM_FENCE", op_fence},
                  {NULL, NULL}};
