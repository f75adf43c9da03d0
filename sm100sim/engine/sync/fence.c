/* membar and fence (PTX ISA, "membar/fence").
 * The engine executes accesses one after the other, so a fence changes no values; the observers keep track of it. */
#include "machine/engine.h"

/* sub: FENCE_* kind; its spaces (1 shared, 2 global) or ORDER_*. */
static Step op_fence(Ctx *c, const Ins *i) {
  see_fence(c, i->sub[0], i->sub[1]);
  return STEP_NEXT;
}

OP_TABLE(fence) = {{"FENCE", op_fence}, {NULL, NULL}};
