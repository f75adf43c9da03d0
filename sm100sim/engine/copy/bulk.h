/* Bulk copies: what bulk.c and the tensor copies share. */
#ifndef SM100SIM_BULK_H
#define SM100SIM_BULK_H
#include "sync/mbarrier.h"

/* Modelled occupancy of the CTA's copy engine by `bytes`; sets op->t_done and writes the timeline event.
 * at: offset in shared memory. */
void bulk_schedule(Ctx *c, AsyncOp *op, EventKind kind, u32 bytes, u32 at);
/* A copy whose mbarrier operand names another CTA than the destination. */
void barrier_rank_ignored(Ctx *c, u32 barrier, u32 destination);
/* Makes `op` part of the open bulk async-group of its lane. */
void bulk_join_group(Ctx *c, AsyncOp *op, u32 lane);
/* CTAs that a load writes: the mask operand with .multicast::cluster, else the CTA of `dst`; 0 after a fault. */
u32 bulk_ranks(Ctx *c, u32 dst, bool multicast, u32 mask);
/* The same without a word to the observers, who see a box row by row. */
u8 *bulk_landing(Machine *m, AsyncOp *op, Cta *cta, u32 offset, u32 bytes, Acc acc);
/* Landing side: bytes [offset, offset + bytes) of a CTA's shared memory, or NULL after a fault. */
u8 *bulk_smem(Machine *m, AsyncOp *op, Cta *cta, u32 offset, u32 bytes, Acc acc);
extern Step op_cp_async(Ctx *c, const Ins *i), op_cp_commit(Ctx *c, const Ins *i), op_cp_wait(Ctx *c, const Ins *i),
    op_cp_arrive(Ctx *c, const Ins *i), op_st_async(Ctx *c, const Ins *i), op_red_async(Ctx *c, const Ins *i),
    op_bulk_copy(Ctx *c, const Ins *i), op_bulk_store(Ctx *c, const Ins *i);
#endif
