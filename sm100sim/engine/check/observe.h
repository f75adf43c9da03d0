/* Observers: called by every handler that touches memory or synchronises; they change no run. */
#ifndef SM100SIM_OBSERVE_H
#define SM100SIM_OBSERVE_H
#include "machine/state.h"

/* For observers: | ACC_SCOPE * scope of a strong access. */
typedef enum { ACC_READ = 0, ACC_WRITE = 1, ACC_ATOMIC = 2, ACC_KIND = 3, ACC_SCOPE = 4 } Acc;

typedef enum { PROXY_GENERIC = 0, PROXY_ASYNC = 1, PROXY_TEXTURE = 2 } Proxy;

/* Accesses. `op` is NULL for the executing warp's own (generic) access, else the asynchronous operation. */
void see_smem(Ctx *c, AsyncOp *op, Cta *owner, u32 offset, u32 len, Acc a, Proxy p);
void see_gmem(Ctx *c, AsyncOp *op, Machine *m, u64 addr, u64 len, Acc a, Proxy p);
void see_tmem(Ctx *c, AsyncOp *op, Cta *owner, u32 lane, u32 n_lanes, u32 col, u32 n_cols, Acc a);
/* Happens-before edges. Objects are mbarriers, named barriers, the cluster barrier. */
void see_release(Ctx *c, AsyncOp *op, void **object); /* arrive, complete_tx, commit landing */
void see_warp_sync(Ctx *c, u32 members);
void see_remote_commit(const AsyncOp *op, void **object); /* a commit is about to arrive in another CTA */
void see_acquire(Ctx *c, void **object);                  /* a wait that succeeded */
/* order: a scope, and ORDER_RELEASE or ORDER_ACQUIRE; without these it orders only with a fence before or after it. */
void see_arrive(Ctx *c, void **object, u32 order);
void see_wait(Ctx *c, void **object, u32 order);
void see_complete_tx(Ctx *c, AsyncOp *op,
                     void **object);       /* bytes of a copy; or the instruction, which orders nothing */
void see_fence(Ctx *c, u32 kind, u32 arg); /* FenceKind; arg: FENCE_SPACE_* of a proxy fence, ORDER_* of a membar */
void see_flag(Ctx *c, const Cta *owner, u64 address, u32 len, u32 order);
void see_exit(Ctx *c);
void see_flip(Cluster *cl, void **object); /* a phase of a barrier ended */
void see_mbar_init(Ctx *c, void **object);
void see_mbar_use(Ctx *c, void **object); /* issue of work that will signal it */
void see_mbar_inval(Ctx *c, void **object);
void see_bulk_join(Ctx *c, AsyncOp *op);                 /* a copy becomes part of its lane's open bulk group */
void see_bulk_wait(Ctx *c, u32 pending, bool read_only); /* cp.async.bulk.wait_group */
void see_cp_wait(Ctx *c, u32 landed);                    /* cp.async: copies known to have landed */
void see_load(Ctx *c, const u32 *slots, u32 n);          /* tcgen05.ld into registers */
void see_registers(Ctx *c, const Ins *i);                /* operands of an instruction while loads are open */
/* wgmma of the executing warp: number `number` of its warpgroup; a fence; all up to `number` are complete. */
void see_wgmma(Ctx *c, const Ins *i, u32 number);
void see_wgmma_fence(Ctx *c);
void see_wgmma_wait(Ctx *c, u32 number);
void see_wgmma_registers(Ctx *c, const Ins *i); /* operands of any instruction after the first fence */
void see_tmem_ld(Ctx *c, u32 lane, u32 n_lanes, u32 col, u32 n_cols);
void see_tmem_alloc(Ctx *c, Cta *owner, u32 col, u32 n_cols, bool pair);

/* ---- life cycle, called by the scheduler ------------------------------------------------------ */
void check_cluster_start(Machine *m, Cluster *cl);
void check_cluster_end(Machine *m, Cluster *cl);
void check_forget(Machine *m);
void check_async_issue(Ctx *c, AsyncOp *op);
void check_async_join(Ctx *c, AsyncOp *op); /* another warp issues the operation, too */
void check_async_end(AsyncOp *op);
#endif
