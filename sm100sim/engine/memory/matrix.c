/* ldmatrix and stmatrix (PTX ISA, "ldmatrix", "stmatrix").
 *
 * Rows of 16 bytes; lane k of the first 8 (16 for the 16x16 shape) times .num lanes gives the address of
 * row k.  s[0]: address; registers in d (load) or s[1..] (store); imm: offset. */
#include "memory/address.h"
#include "tmem/tmem.h"

/* Address lane and byte in its row of byte `k` of register `j` of thread `t`. */
static void place_of(u32 shape, u32 t, u32 j, u32 k, u32 *lane, u32 *byte) {
  switch (shape) {
    case SHAPE_B16:
      *lane = 8 * j + t / 4;
      *byte = 4 * (t % 4) + k;
      return;
    case SHAPE_B16_TRANS:
      *lane = 8 * j + 2 * (t % 4) + (k >> 1);
      *byte = 2 * (t / 4) + (k & 1);
      return;
    case SHAPE_B8_16X16: /* two registers per matrix: rows 4q to 4q + 3 of columns t / 4 and t / 4 + 8 */
      *lane = 16 * (j / 2) + 4 * (t % 4) + k;
      *byte = t / 4 + 8 * (j % 2);
      return;
    default:
      *lane = 8 * j + 2 * (t % 4) + (k & 1);
      *byte = t / 4 + 8 * (k >> 1);
  }
}

/* Element `k` of a row of bytes, or of sixteen packed elements of `bits` bits, which padding follows: the low bits of
 * a byte (CUTLASS, fp4_shift_A: "places FP4 data at the first four bits"). */
static u32 element_of(const u8 *row, u32 k, u32 bits) {
  if (!bits)
    return row[k];
  u32 at = k * bits, two = row[at / 8] | (u32)row[at / 8 + 1] << 8;
  return two >> at % 8 & ((1u << bits) - 1);
}

/* Row pointers of the lanes that give addresses. */
static Step rows_of(Ctx *c, const Ins *i, Acc acc, u8 *rows[LANES]) {
  Step s = whole_warp(c);
  if (s != STEP_NEXT)
    return s;
  const MatrixForm *f = &i->form.matrix;
  Access a = {i->s[0], f->address_bits, i->imm, (Space)f->space, 16, 16, acc};
  for (u32 l = 0; l < f->rows; l++) {
    Cta *owner;
    if ((s = resolve_lane(c, &a, l, &rows[l], &owner)) != STEP_NEXT)
      return s;
    if (!owner)
      return fault(c, "shared-address", "row address of lane %u is not in shared memory", l);
    if (observed(c->m))
      see_smem(c, NULL, owner, smem_offset(owner, rows[l]), 16, acc, PROXY_GENERIC);
  }
  return STEP_NEXT;
}

static Step op_ldmatrix(Ctx *c, const Ins *i) {
  u8 *rows[LANES];
  Step s = rows_of(c, i, ACC_READ, rows);
  if (s != STEP_NEXT)
    return s;
  for (u32 j = 0; j < i->nd; j++)
    for (u32 t = 0; t < LANES; t++) {
      u32 value = 0;
      for (u32 k = 0; k < 4; k++) {
        u32 lane, byte;
        place_of(i->form.matrix.shape, t, j, k, &lane, &byte);
        value |= element_of(rows[lane], byte, i->form.matrix.packed) << 8 * k;
      }
      R32(c, i->d[j])[t] = value;
    }
  return STEP_NEXT;
}

static Step op_stmatrix(Ctx *c, const Ins *i) {
  u8 *rows[LANES];
  Step s = rows_of(c, i, ACC_WRITE, rows);
  if (s != STEP_NEXT)
    return s;
  for (u32 j = 0; j + 1u < i->ns; j++)
    for (u32 t = 0; t < LANES; t++)
      for (u32 k = 0; k < 4; k++) {
        u32 lane, byte;
        place_of(i->form.matrix.shape, t, j, k, &lane, &byte);
        rows[lane][byte] = (u8)(R32(c, i->s[1 + j])[t] >> 8 * k);
      }
  note_progress(c->cl);
  return STEP_NEXT;
}

OP_TABLE(matrix) = {{"LDMATRIX", op_ldmatrix}, {"STMATRIX", op_stmatrix}, {NULL, NULL}};
