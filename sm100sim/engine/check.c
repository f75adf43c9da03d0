/* Observers: byte validity of shared memory.  Handlers report what they touch; nothing here can change a run. */
#include "core.h"

void check_cluster_start(Machine *m, Cluster *cl) { (void)m; (void)cl; }
void check_cluster_end(Machine *m, Cluster *cl) { (void)m; (void)cl; }

void see_smem(Ctx *c, AsyncOp *op, Cta *owner, u32 offset, u32 len, Acc a, Proxy p) {
  (void)p;
  if (!owner->smem_valid) return;
  if (a == ACC_WRITE) { memset(owner->smem_valid + offset, 1, len); return; }
  for (u32 k = 0; k < len; k++)
    if (!owner->smem_valid[offset + k]) {
      Ctx d = c ? *c : (Ctx){.m = owner->cl->m, .cl = owner->cl, .cta = op->cta, .w = op->warp, .ins = op->ins, .mask = 1};
      finding(&d, 0, "uninitialised-shared", "byte CTA %u + 0x%x is read before anything wrote it", owner->rank, offset + k);
      owner->smem_valid[offset + k] = 1;
      return;
    }
}
void see_gmem(Ctx *c, AsyncOp *op, Machine *m, u64 addr, u64 len, Acc a, Proxy p) {
  (void)c; (void)op; (void)m; (void)addr; (void)len; (void)a; (void)p; }
void see_tmem(Ctx *c, AsyncOp *op, Cta *owner, u32 lane, u32 n_lanes, u32 col, u32 n_cols, Acc a) {
  (void)c; (void)op; (void)owner; (void)lane; (void)n_lanes; (void)col; (void)n_cols; (void)a; }
void see_release(Ctx *c, AsyncOp *op, void **object) { (void)c; (void)op; (void)object; }
void see_acquire(Ctx *c, void **object) { (void)c; (void)object; }
void see_fence(Ctx *c, u32 kind) { (void)c; (void)kind; }
void see_exit(Ctx *c) { (void)c; }
