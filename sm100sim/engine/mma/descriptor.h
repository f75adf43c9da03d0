/* The two descriptors of tcgen05.mma and tcgen05.cp, decoded, with the rules a program may break. */
#ifndef SM100SIM_UMMA_DESC_H
#define SM100SIM_UMMA_DESC_H
#include "machine/handler.h"

/* Swizzle codes of bits 61-63 (PTX ISA, "Shared memory descriptor"). */
enum { SWZ_NONE = 0, SWZ_128B_ATOM32 = 1, SWZ_128B = 2, SWZ_64B = 4, SWZ_32B = 6 };

typedef struct {
  u32 start, lbo, sbo, swizzle, base; /* base: subtracted from the XOR source, address bits 7 and up (sm_90) */
} SmemDesc;

typedef enum { T_F16, T_BF16, T_TF32, T_E4M3, T_E5M2, T_E2M3, T_E3M2, T_E2M1, T_U8, T_S8, T_E2M1_PAIR } ElemType;

typedef enum { D_F16, D_F32, D_S32 } DType;

static inline bool kind_block_scaled(MmaKind k) {
  return k >= KIND_MXF8F6F4;
}

static inline u32 elem_bits(ElemType t) { /* of the container in memory */
  return t <= T_BF16 ? 16 : t == T_TF32 ? 32 : t == T_E2M1_PAIR ? 4 : 8;
}

static inline bool elem_narrow(ElemType t) {
  return t >= T_E2M3 && t <= T_E2M1;
} /* 4/6 bit in 8-bit containers */

/* Each, and instr_desc_decode of contract/records.h, answers NULL, or the first rule that the bits break. */
const Rule *smem_desc_decode(u64 bits, SmemDesc *out);
const Rule *smem_desc_decode_sm90(u64 bits, SmemDesc *out);
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

/* Physical address of a linear offset from the start. */
static inline u32 operand_address(const SmemDesc *d, u32 linear) {
  u32 address = d->start + linear, source = address - (d->base << 7);
  return address ^ source ^ swizzle_address(d->swizzle, source);
}

static inline u32 swizzle_span(u32 mode) {
  return mode == SWZ_64B ? 64 : mode == SWZ_32B ? 32 : mode == SWZ_NONE ? 16 : 128;
}

/* B of an instruction with a sparse A has 64 bytes along K; where those beyond a swizzled row are, the ISA does not
 * say. */
static inline bool wide_k_unknown(const SmemDesc *d, bool mn_major) {
  return !mn_major && d->swizzle != SWZ_NONE && swizzle_span(d->swizzle) < 64;
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
#endif
