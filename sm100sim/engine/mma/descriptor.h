/* The two descriptors of tcgen05.mma and tcgen05.cp, decoded, with the rules a program may break. */
#ifndef SM100SIM_UMMA_DESC_H
#define SM100SIM_UMMA_DESC_H
#include "machine/engine.h"

typedef struct {
  const char *code, *text;
} Rule; /* fault code and sentence */

/* Swizzle codes of bits 61-63 (PTX ISA, "Shared memory descriptor"). */
enum { SWZ_NONE = 0, SWZ_128B_ATOM32 = 1, SWZ_128B = 2, SWZ_64B = 4, SWZ_32B = 6 };

typedef struct {
  u32 start, lbo, sbo, swizzle;
} SmemDesc;

typedef enum { KIND_F16, KIND_TF32, KIND_F8F6F4, KIND_I8, KIND_MXF8F6F4, KIND_MXF4, KIND_MXF4NVF4 } MmaKind;

typedef enum { T_F16, T_BF16, T_TF32, T_E4M3, T_E5M2, T_E2M3, T_E3M2, T_E2M1, T_U8, T_S8, T_E2M1_PAIR } ElemType;

typedef enum { D_F16, D_F32, D_S32 } DType;

typedef struct {
  MmaKind kind;
  u32 group;
  ElemType a, b;
  DType d;
  u32 m, n, k; /* M counts the rows of both CTAs of a pair */
  bool neg_a, neg_b, mn_a, mn_b, saturate, ue8m0;
  u32 sfa_id, sfb_id;
} InstrDesc;

static inline bool kind_block_scaled(MmaKind k) {
  return k >= KIND_MXF8F6F4;
}

static inline u32 elem_bits(ElemType t) { /* of the container in memory */
  return t <= T_BF16 ? 16 : t == T_TF32 ? 32 : t == T_E2M1_PAIR ? 4 : 8;
}

static inline bool elem_narrow(ElemType t) {
  return t >= T_E2M3 && t <= T_E2M1;
} /* 4/6 bit in 8-bit containers */

/* Each answers NULL, or the first rule that the bits break. */
const Rule *smem_desc_decode(u64 bits, SmemDesc *out);
const Rule *instr_desc_decode(u32 bits, MmaKind kind, u32 group, InstrDesc *out);
const Rule *operand_layout_rule(ElemType t, bool mn_major, u32 swizzle);

/* Address bits after the XOR of the swizzle mode; `addr` is an offset in the shared window. */
static inline u32 swizzle_address(u32 mode, u32 addr) {
  switch (mode) {
    case SWZ_128B:
      return addr ^ (addr >> 3 & 0x70);
    case SWZ_64B:
      return addr ^ (addr >> 3 & 0x30);
    case SWZ_32B:
      return addr ^ (addr >> 3 & 0x10);
    case SWZ_128B_ATOM32:
      return addr ^ (addr >> 2 & 0x60);
    default:
      return addr;
  }
}

static inline u32 swizzle_span(u32 mode) {
  return mode == SWZ_64B ? 64 : mode == SWZ_32B ? 32 : mode == SWZ_NONE ? 16 : 128;
}

/* Linear offset of 16-byte unit (row index `mn`, unit `u` along K) of a K-major operand. */
static inline u32 k_major_unit(const SmemDesc *d, u32 mn, u32 u) {
  u32 span = swizzle_span(d->swizzle);
  return mn % 8 * span + mn / 8 * d->sbo + u * (d->swizzle == SWZ_NONE ? d->lbo : 16);
}

/* Linear offset of 16-byte unit (unit `u` along M or N, index `k`) of an MN-major operand. */
static inline u32 mn_major_unit(const SmemDesc *d, u32 u, u32 k) {
  u32 per = swizzle_span(d->swizzle) / 16;
  if (d->swizzle == SWZ_NONE)
    return k % 8 * 16 + k / 8 * d->lbo + u * d->sbo;
  if (d->swizzle == SWZ_128B_ATOM32)
    return k % 4 * 128 + k / 4 * d->sbo + u % 8 * 16 + u / 8 * d->lbo;
  return k % 8 * 16 * per + k / 8 * d->sbo + u % per * 16 + u / per * d->lbo;
}

/* Physical window offset of a 16-byte unit, for callers outside the engine: (row, unit along K) of a K-major
 * operand, (unit along M or N, k) of an MN-major one. */
u32 smem_unit_address(u64 descriptor, bool mn_major, u32 mn, u32 k);
#endif
