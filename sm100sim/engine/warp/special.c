/* Symbol addresses, clocks, traps and instructions without effect here. */
#include "arith/numeric.h"

/* Address of a variable: of a shared one in the shared window, of a function's one in local memory. */
static Step op_SYMBOL(Ctx *c, const Ins *i) {
  FOR_LANES (c->sp->mask, l) {
    u32 a = R32(c, i->s[0])[l] + (u32)i->imm;
    if (i->form.move.bits == 64)
      R64(c, i->d[0])[l] = a;
    else
      R32(c, i->d[0])[l] = a;
  }
  return STEP_NEXT;
}

/* Clocks show modelled time. */
static Step op_CLOCK(Ctx *c, const Ins *i) {
  FOR_LANES (c->mask, l) {
    if (i->form.move.word == CLOCK_BOTH)
      R64(c, i->d[0])[l] = c->sp->t;
    else
      R32(c, i->d[0])[l] = (u32)(i->form.move.word == CLOCK_HIGH ? c->sp->t >> 32 : c->sp->t);
  }
  return STEP_NEXT;
}

static Step op_TRAP(Ctx *c, const Ins *i) {
  (void)i;
  return fault(c, "trap", "the kernel executed trap");
}

static Step op_NOP(Ctx *c, const Ins *i) {
  (void)c;
  (void)i;
  return STEP_NEXT;
}

OP_TABLE(special) = {{"SYMBOL_SHARED", op_SYMBOL},
                     {"SYMBOL_LOCAL", op_SYMBOL},
                     {"CLOCK", op_CLOCK},
                     {"TRAP", op_TRAP},
                     {"NOP", op_NOP},
                     {NULL, NULL}};
