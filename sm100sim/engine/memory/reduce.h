/* One element of a reduction (PTX ISA, "atom", "red", "cp.reduce.async.bulk"). */
#ifndef SM100SIM_REDUCE_H
#define SM100SIM_REDUCE_H
#include "machine/engine.h"

typedef enum { RED_ADD, RED_MIN, RED_MAX, RED_AND, RED_OR, RED_XOR, RED_INC, RED_DEC, RED_EXCH, RED_CAS } RedOp;

typedef enum {
  EL_U8,
  EL_U16,
  EL_U32,
  EL_S32,
  EL_U64,
  EL_S64,
  EL_F16,
  EL_BF16,
  EL_F32,
  EL_F32_FTZ,
  EL_F64,
  EL_F64_SHARED /* a sum in shared memory, which other NaNs come out of */
} Element;

u32 element_bytes(Element e);
/* The new value of a memory element that holds `old`; CAS compares with `compare`. */
u64 reduce_element(RedOp op, Element e, u64 old, u64 operand, u64 compare);
/* dst[k] = op(dst[k], src[k]) for `bytes` bytes. */
void reduce_bytes(RedOp op, Element e, u8 *dst, const u8 *src, u32 bytes);
#endif
