/* Decoding and device-side modification of tensor maps (PTX ISA, "Tensors", "tensormap.replace",
 * "tensormap.cp_fenceproxy", "fence.proxy.tensormap"). */
#include "copy/tensormap.h"
#include "tmem/tmem.h"

#define FLAGS_AT 8
#define FLAG_DSL (1u << 1)    /* set by CuTe DSL 4.8.1 for sm_100a, clear in driver encodings; meaning unknown */
#define FLAG_LARGE (1u << 21) /* set by CuTe DSL 4.8.1 when the tensor spans 128 KiB or more; 220 maps agree */
#define FLAG_NAN (1u << 15)
#define FLAG_TF32 (1u << 16)
#define FLAG_ATOM32 (1u << 19) /* 128-byte swizzle with 32-byte atoms: set by CuTe DSL 4.8.1 for MN_SW128_32B */
#define KNOWN_FLAGS (FLAG_DSL | FLAG_LARGE | 7u << 4 | 15u << 7 | 3u << 13 | FLAG_NAN | FLAG_TF32 | 3u << 17)
#define STRIDES_AT 12
#define STRIDE_HIGH_AT 28
#define SIZES_AT 32
#define STEPS_AT 52
#define BOX_AT 55
#define IM2COL_AT 64 /* layouts/im2col.py: its own, as a driver's is not known */
#define IM2COL_MARK "im2col\0\1"

static u32 get32(const u8 *p) {
  u32 v;
  memcpy(&v, p, 4);
  return v;
}

static void set32(u8 *p, u32 v) {
  memcpy(p, &v, 4);
}

static u32 get16(const u8 *p) {
  u16 v;
  memcpy(&v, p, 2);
  return v;
}

static void set16(u8 *p, u32 v) {
  u16 x = (u16)v;
  memcpy(p, &x, 2);
}

static void set_field(u8 *p, u32 shift, u32 mask, u32 v) {
  set32(p, (get32(p) & ~(mask << shift)) | (v & mask) << shift);
}

/* 16U4_ALIGN8B: pairs of 4-bit elements are bytes, densely packed in shared memory too.  16U4_ALIGN16B and
 * 16U6_ALIGN16B: sixteen elements are 8 and 12 bytes, and gaps fill 16 in shared memory (cuTensorMapEncodeTiled). */
static const char *decode_packed(TensorMap *t) {
  if (t->type < MAP_U4)
    return NULL;
  t->packed = t->type == MAP_U6_PADDED ? 6 : 4;
  t->padded = t->type != MAP_U4;
  if (t->dim[0] & 1 || t->box[0] & 1)
    return "its 4-bit elements do not fill whole bytes";
  if (t->padded && (t->box[0] != PADDED_ROW || t->dim[0] % PADDED_ROW || t->base & 31))
    return "elements with gaps need a box of 128 of them, whole boxes in a row, and an address that 32 divides";
  if (t->nan_fill)
    return "its elements of 4 or 6 bits have no NaN to fill with";
  t->type = MAP_U8;
  t->dim[0] = t->dim[0] * t->packed / 8;
  t->box[0] = t->box[0] * t->packed / 8;
  t->count[0] = t->count[0] * t->packed / 8;
  return NULL;
}

/* Pixels and corners of an im2col map.  The last filter base counts from the last pixel of the tensor. */
static void decode_im2col(const u8 *raw, TensorMap *t) {
  const u8 *p = raw + IM2COL_AT + 8;
  if (memcmp(raw + IM2COL_AT, IM2COL_MARK, 8))
    return;
  t->pixels = get32(p);
  for (u32 d = 0; d + 2 < t->rank; d++) {
    t->lower[d] = (i32)get32(p + 4 + 4 * d);
    t->last[d] = (i32)get32(p + 16 + 4 * d) + (i32)t->dim[1 + d] - 1;
  }
  t->count[1] = t->pixels;
}

const char *tensormap_decode(const u8 raw[128], TensorMap *t) {
  static const u8 bytes[MAP_TYPES] = {1, 2, 4, 4, 8, 8, 2, 4, 4, 8, 2, 1, 1, 1};
  u32 flags = get32(raw + FLAGS_AT);
  bool atom32 = flags & FLAG_ATOM32 && (flags >> 13 & 3) == 3;
  flags &= atom32 ? ~FLAG_ATOM32 : ~0u;
  if (flags & ~KNOWN_FLAGS)
    return "its flag word has bits of unknown meaning (interleaved maps are not covered, nor a driver's im2col maps)";
  memset(t, 0, sizeof *t);
  memcpy(&t->base, raw, 8);
  t->rank = (flags >> 4 & 7) + 1;
  t->type = flags >> 7 & 15;
  t->swizzle = atom32 ? SWIZZLE_ATOM32 : flags >> 13 & 3;
  t->nan_fill = flags & FLAG_NAN;
  t->tf32 = flags & FLAG_TF32;
  if (t->rank > MAX_RANK)
    return "its rank is above 5";
  if (t->type >= MAP_TYPES)
    return "its element type is unknown";
  if (t->tf32 && t->type != MAP_F32 && t->type != MAP_F32_FTZ)
    return "its tf32 flag is set for a type other than f32";
  if (t->base & 15)
    return "its global address is not a multiple of 16";
  t->bytes = bytes[t->type];
  u32 steps = get16(raw + STEPS_AT);
  for (u32 d = 0; d < t->rank; d++) {
    u64 high = d ? get16(raw + STRIDE_HIGH_AT) >> 4 * (d - 1) & 15 : 0;
    t->stride[d] = d ? (high << 32 | get32(raw + STRIDES_AT + 4 * (d - 1))) << 4 : t->bytes;
    t->dim[d] = (u64)get32(raw + SIZES_AT + 4 * d) + 1;
    t->step[d] = (steps >> 3 * d & 7) + 1;
    t->box[d] = (u32)raw[BOX_AT + d] + 1;
    t->count[d] = d ? (t->box[d] + t->step[d] - 1) / t->step[d]
                    : t->box[d]; /* no stride along dimension 0 without interleave */
  }
  decode_im2col(raw, t);
  return decode_packed(t);
}

u32 tensormap_box_bytes(const TensorMap *t) {
  u64 n = t->bytes;
  for (u32 d = 0; d < t->rank; d++)
    n *= t->count[d];
  return n > SMEM_MAX ? NONE32 : (u32)n;
}

/* Rows narrower than the swizzle span start one span apart (seen on H200; sm100 is taken to do the same). */
u32 tensormap_row_pitch(const TensorMap *t) {
  u32 inner = t->padded ? PADDED_ROW : t->box[0] * t->bytes, span = swizzle_line(t->swizzle);
  return t->swizzle && inner < span ? span : inner;
}

u32 tensormap_smem_bytes(const TensorMap *t) {
  return tensormap_box_bytes(t) / (t->box[0] * t->bytes) * tensormap_row_pitch(t);
}

const char *tensormap_box_rule(const TensorMap *t) {
  u32 inner = t->box[0] * t->bytes;
  if (inner % 16)
    return "the inner box is not a multiple of 16 bytes";
  if (t->swizzle && inner > swizzle_line(t->swizzle))
    return "its inner box is wider than the swizzle span";
  if (tensormap_box_bytes(t) == NONE32 || tensormap_smem_bytes(t) > SMEM_MAX)
    return "the box is larger than shared memory";
  return NULL;
}

Step tensormap_operand(Ctx *c, Access a, u32 lane, TensorMap *t) {
  u8 *p;
  Cta *owner;
  a.len = 128;
  a.align = 64;
  a.acc = ACC_READ;
  Step s = resolve_lane(c, &a, lane, &p, &owner);
  if (s != STEP_NEXT)
    return s;
  if (owner)
    return fault(c, "tensormap",
                 "the tensor map is in shared memory; parameter, constant or global memory is required");
  const char *rule = tensormap_decode(p, t);
  return rule ? fault(c, "tensormap", "the tensor map is not usable: %s", rule) : STEP_NEXT;
}

int tensormap_element(const TensorMap *t, RedOp op) {
  static const i8 elements[MAP_TYPES] = {
      -1,     -1,     EL_U32, EL_S32, EL_U64, EL_S64,
      EL_F16, EL_F32, -1,     -1,     EL_BF16}; /* f32 sums keep subnormals (seen on H200) */
  int e = elements[t->type];
  if (e < 0 || (e == EL_F32 && op != RED_ADD))
    return -1;
  if ((op == RED_INC || op == RED_DEC) && e != EL_U32)
    return -1;
  if ((op == RED_AND || op == RED_OR || op == RED_XOR) && (e >= EL_F16 || e == EL_S64))
    return -1; /* s64: an illegal instruction on H200 */
  if (op == RED_ADD && e == EL_S64)
    return -1;
  return e;
}

static Access map_access(const Ins *i) {
  const MapAccessForm *f = &i->form.map_access;
  return (Access){i->s[0], f->address_bits, i->imm, (Space)f->space, 128, 64, ACC_WRITE};
}

/* prefetch.tensormap: no effect, but the operand must be a tensor map. */
Step op_tensormap_prefetch(Ctx *c, const Ins *i) {
  FOR_LANES (c->mask, l) {
    TensorMap t;
    Step s = tensormap_operand(c, map_access(i), l, &t);
    if (s != STEP_NEXT)
      return s;
  }
  return STEP_NEXT;
}

static const char *replace(u8 *raw, u32 field, u32 k, u64 v) {
  switch (field) {
    case FIELD_GLOBAL_ADDRESS:
      if (v & 15)
        return "a global address that is not a multiple of 16";
      memcpy(raw, &v, 8);
      return NULL;
    case FIELD_RANK:
      if (v > 4)
        return "a rank above 5";
      set_field(raw + FLAGS_AT, 4, 7, (u32)v);
      return NULL;
    case FIELD_BOX_DIM:
      if (!v || v > 256)
        return "a box size outside of 1 ... 256";
      raw[BOX_AT + k] = (u8)(v - 1);
      return NULL;
    case FIELD_GLOBAL_DIM:
      set32(raw + SIZES_AT + 4 * k, (u32)v - 1);
      return NULL;
    case FIELD_GLOBAL_STRIDE:
      if (v & 15 || v >> 40 || k > 3)
        return "a stride that is not a multiple of 16 below 2^40";
      set32(raw + STRIDES_AT + 4 * k, (u32)(v >> 4));
      set16(raw + STRIDE_HIGH_AT, (get16(raw + STRIDE_HIGH_AT) & ~(15u << 4 * k)) | (u32)(v >> 36) << 4 * k);
      return NULL;
    case FIELD_ELEMENT_STRIDE:
      if (!v || v > 8)
        return "an element stride outside of 1 ... 8";
      set16(raw + STEPS_AT, (get16(raw + STEPS_AT) & ~(7u << 3 * k)) | ((u32)v - 1) << 3 * k);
      return NULL;
    case FIELD_ELEMTYPE: /* 11 and 12 are tf32 and tf32 with flush, 13 to 15 those of 4 and 6 bits */
      if (v > 15)
        return "an element type that does not exist";
      set_field(raw + FLAGS_AT, 7, 15, v > 12 ? (u32)v - 2 : v > 10 ? (u32)v - 4 : (u32)v);
      set_field(raw + FLAGS_AT, 16, 1, v == 11 || v == 12);
      return NULL;
    case FIELD_INTERLEAVE_LAYOUT:
      return v ? "an interleaved layout, which is not covered" : NULL;
    case FIELD_SWIZZLE_MODE:
      if (v > 3)
        return "a swizzle mode that is not covered";
      set_field(raw + FLAGS_AT, 13, 3, (u32)v);
      return NULL;
    default:
      if (v > 1)
        return "a fill mode other than 0 and 1";
      set_field(raw + FLAGS_AT, 15, 1, (u32)v);
      return NULL;
  }
}

/* s: address, new value.  imm: offset. */
Step op_tensormap_replace(Ctx *c, const Ins *i) {
  const MapAccessForm *f = &i->form.map_access;
  Access a = map_access(i);
  Places at;
  Step s = resolve(c, &a, &at);
  if (s != STEP_NEXT)
    return s;
  FOR_LANES (c->mask, l) {
    u64 v = f->value_bits == 64 ? R64(c, i->s[1])[l] : R32(c, i->s[1])[l];
    const char *rule = replace(at.p[l], f->field, f->ordinal, v);
    if (rule)
      return fault(c, "tensormap", "tensormap.replace with %s: %llu", rule, (unsigned long long)v);
  }
  observe(c, &at, ACC_WRITE, 0);
  note_progress(c->cl);
  return STEP_NEXT;
}

/* tensormap.cp_fenceproxy: the warp copies 128 bytes from shared to global memory.  s: destination, source;
 * imm: destination offset. */
Step op_tensormap_copy(Ctx *c, const Ins *i) {
  const MapAccessForm *f = &i->form.map_access;
  Access to = {i->s[0], f->address_bits, i->imm, SPACE_GLOBAL, 128, 128, ACC_WRITE};
  Access from = {i->s[1], f->source_bits, f->source_offset, SPACE_SHARED_CTA, 128, 128, ACC_READ};
  u8 *dst, *src;
  Cta *none, *owner;
  u32 l = first_lane(c->mask);
  Step s = whole_warp(c);
  if (s != STEP_NEXT || (s = resolve_lane(c, &to, l, &dst, &none)) != STEP_NEXT ||
      (s = resolve_lane(c, &from, l, &src, &owner)) != STEP_NEXT)
    return s;
  if (observed(c->m)) {
    see_smem(c, NULL, owner, smem_offset(owner, src), 128, ACC_READ, PROXY_GENERIC);
    see_gmem(c, NULL, c->m, (u64)(uintptr_t)dst, 128, ACC_WRITE, PROXY_GENERIC);
  }
  memcpy(dst, src, 128);
  note_progress(c->cl);
  return STEP_NEXT;
}

/* fence.proxy.tensormap::generic.acquire [a], 128: the operand must be a tensor map in memory. */
Step op_tensormap_acquire(Ctx *c, const Ins *i) {
  Access a = map_access(i);
  a.acc = ACC_READ;
  Places at;
  Step s = resolve(c, &a, &at);
  if (s == STEP_NEXT)
    see_fence(c, FENCE_MEMBAR, ORDER_SCOPE | ORDER_ACQUIRE);
  return s;
}
