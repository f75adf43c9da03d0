/* One element of a reduction (PTX ISA, "atom", "red", "cp.reduce.async.bulk"). */
#ifndef SM100SIM_REDUCE_H
#define SM100SIM_REDUCE_H
#include "machine/handler.h"

u32 element_bytes(Element e);
/* The new value of a memory element that holds `old`; CAS compares with `compare`. */
u64 reduce_element(RedOp op, Element e, u64 old, u64 operand, u64 compare);
/* dst[k] = op(dst[k], src[k]) for `bytes` bytes. */
void reduce_bytes(RedOp op, Element e, u8 *dst, const u8 *src, u32 bytes);
#endif
