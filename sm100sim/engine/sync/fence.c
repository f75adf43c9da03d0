/* membar and fence (PTX ISA, "membar/fence").
 * The engine executes accesses one after the other, so a fence changes no values; the observers keep track of it. */
#include "machine/handler.h"

static Step op_fence(Ctx *c, const Ins *i) {
  see_fence(c, i->form.fence.kind, i->form.fence.argument);
  return STEP_NEXT;
}

OP_TABLE(fence) = {{"FENCE", op_fence}, {NULL, NULL}};
