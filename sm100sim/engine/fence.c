/* membar and fence (PTX ISA, "membar/fence").
 * The engine executes accesses one after the other, so a fence changes no values; the observers keep track of it. */
#include "engine.h"

/* sub[0]: FENCE_* kind. */
static Step op_fence(Ctx *c, const Ins *i) { see_fence(c, i->sub[0]); return STEP_NEXT; }

OP_TABLE(fence) = {{"FENCE", op_fence}, {NULL, NULL}};
