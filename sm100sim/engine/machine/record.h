/* What the warps of chosen clusters execute, for whoever wants to follow them. */
#ifndef SM100SIM_RECORD_H
#define SM100SIM_RECORD_H
#include "machine/handler.h"

void record_values(Ctx *c, const Ins *i); /* of the registers that are kept, before the instruction changes any */
void record_step(Ctx *c, const Ins *i, u32 active, u64 values);
/* After the instruction: its step, or none when it blocked. `values`: where its registers' values begin. */
void record_end(Ctx *c, const Ins *i, Step step, u32 active, u64 values);
#endif
