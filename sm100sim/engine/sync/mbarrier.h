/* mbarrier objects: what the synchronisation files share. */
#ifndef SM100SIM_MBARRIER_H
#define SM100SIM_MBARRIER_H
#include "memory/address.h"

#define MBAR_MAX_COUNT 0xFFFFFu /* 2^20 - 1: pending, expected and |tx| (PTX ISA, "mbarrier object") */

/* The live object at an offset, or NULL. */
Mbar *mbar_at(Cta *cta, u32 offset);
/* Apply an arrival and/or transaction bytes; answers NULL or the rule that was broken. `t`: modelled time. */
const char *mbar_arrive(Cluster *cl, Mbar *b, u32 count, u64 t);
const char *mbar_expect_tx(Mbar *b, i64 bytes);
const char *mbar_complete_tx(Cluster *cl, Mbar *b, i64 bytes, u64 t);
/* The live object that a lane's operand names, or a fault.  `own_only`: waits and inval are local. */
Step mbar_operand(Ctx *c, const Access *a, u32 lane, bool own_only, Cta **owner, Mbar **b);
Step mbar_fault(Ctx *c, const Cta *owner, const Mbar *b, const char *rule);
/* Apply an arrival of `count` in `owner` for the executing warp, at its modelled time. */
Step mbar_arrive_now(Ctx *c, Cta *owner, Mbar *b, u32 count, u32 order);
/* Landing side: complete_tx at (owner, offset) for an asynchronous operation; false after a fault. */
bool mbar_land_tx(Machine *m, AsyncOp *op, Cta *owner, u32 offset, u32 bytes);
/* Issue side: the operand of a copy must name a live object; gives its window address. */
Step mbar_issue(Ctx *c, const Access *a, u32 lane, u32 *addr);

static inline Access mbar_access(u32 slot, u32 bits, i64 off, Space space) {
  return (Access){slot, bits, off, space, 8, 8, ACC_ATOMIC};
}
#endif
