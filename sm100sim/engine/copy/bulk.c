/* Bulk async-groups, and what every bulk copy shares (PTX ISA, "Bulk copy", "cp.async.bulk.commit_group",
 * "cp.async.bulk.wait_group").
 *
 * Groups belong to threads.  A group is pending while one of its operations is in the cluster's list. */
#include "copy/bulk.h"
#include "tmem/tmem.h"
#include "memory/timing.h"

void bulk_schedule(Ctx *c, AsyncOp *op, EventKind kind, u32 bytes, u32 at) {
  u64 *pipe = &c->cl->tma_free_at[c->cta->rank];
  u64 start = op->t_issue > *pipe ? op->t_issue : *pipe;
  *pipe = start + bytes / T_TMA_BYTES_PER_CYCLE;
  op->t_done = *pipe + T_TMA_LATENCY;
  if (kind == EV_TMA_LOAD)
    c->m->bytes_tma_load += bytes;
  else {
    c->m->bytes_tma_store += bytes;
    if (*pipe > c->w->bulk_t_read)
      c->w->bulk_t_read = *pipe;
    if (op->t_done > c->w->bulk_t_done)
      c->w->bulk_t_done = op->t_done;
  }
  trace_event(c->m, kind, c->cta, c->w->index, c->ins->line, start, op->t_done, bytes, at);
}

/* The ISA wants both in one CTA.  An H100 takes the offset from the operand and the CTA from the destination
 * (docs/checking.md), and shipped kernels rely on it. */
void barrier_rank_ignored(Ctx *c, u32 barrier, u32 destination) {
  if (barrier != destination && first_told(c->cta, TOLD_BARRIER_RANK))
    finding(
        c, 0, "mbarrier-address",
        "the mbarrier is in CTA %u, the destination in CTA %u; without .cta_group::2 they must agree. The one at that "
        "offset of CTA %u is taken",
        barrier, destination, destination);
}

void bulk_join_group(Ctx *c, AsyncOp *op, u32 lane) {
  op->grouped = true;
  op->group = c->w->bulk_groups[lane];
  see_bulk_join(c, op);
}

u32 bulk_ranks(Ctx *c, u32 dst, bool multicast, u32 mask) {
  u32 all = (1u << c->cl->n_ctas) - 1;
  if (!multicast)
    return 1u << window_rank(dst);
  mask &= 0xFFFF;
  if (mask && !(mask & ~all))
    return mask;
  fault(c, "multicast-mask", "CTA mask 0x%x: it must name at least one CTA, and none outside of the cluster of %u",
        mask, c->cl->n_ctas);
  return 0;
}

/* Shipped kernels end before their last stores have read shared memory (docs/findings/deepgemm_bf16.md): that of the
 * executing CTA stays until they have. */
u8 *bulk_landing(Machine *m, AsyncOp *op, Cta *cta, u32 offset, u32 bytes, Acc acc) {
  const char *err;
  Cta *owner;
  bool late = cta->exited && cta == op->cta && acc == ACC_READ;
  Ctx c = landing_ctx(m, op);
  if (late)
    finding(&c, 0, "exited-cta", "a copy reads the shared memory of CTA %u, which has exited", cta->rank);
  u8 *p = late ? smem_inside(cta, offset, bytes, &err)
               : smem_at(cta->cl, cta, window_at(cta->rank, offset), bytes, true, &owner, &err);
  if (!p)
    fault_async(m, op, "shared-address", "%u bytes at CTA %u + 0x%x: %s", bytes, cta->rank, offset, err);
  return p;
}

u8 *bulk_smem(Machine *m, AsyncOp *op, Cta *cta, u32 offset, u32 bytes, Acc acc) {
  u8 *p = bulk_landing(m, op, cta, offset, bytes, acc);
  if (!p)
    return NULL;
  u32 at = mbar_inside(cta, offset, bytes);
  if (at != NONE32) {
    fault_async(m, op, "mbarrier-access", "%u bytes at CTA %u + 0x%x cover the live mbarrier at 0x%x", bytes, cta->rank,
                offset, at);
    return NULL;
  }
  if (observed(m))
    see_smem(NULL, op, cta, offset, bytes, acc, PROXY_ASYNC);
  return p;
}

static Step op_commit(Ctx *c, const Ins *i) {
  (void)i;
  FOR_LANES (c->mask, l)
    c->w->bulk_groups[l]++;
  return STEP_NEXT;
}

static bool group_pending(const Ctx *c, u32 lane, u32 limit, bool read_only) {
  for (const AsyncOp *o = c->cl->async_head; o; o = o->next)
    if (o->grouped && o->warp == c->w && o->lane == lane && o->group < limit && !(read_only && o->sources_read))
      return true;
  return false;
}

/* imm: groups that may stay pending. */
static Step op_wait(Ctx *c, const Ins *i) {
  u32 keep = (u32)i->imm;
  bool read = i->form.wait_group.read;
  FOR_LANES (c->mask, l) {
    u32 groups = c->w->bulk_groups[l], limit = groups > keep ? groups - keep : 0;
    if (group_pending(c, l, limit, read))
      return block(c, WAIT_BULK_GROUP, c->cta->rank, 0, keep);
  }
  see_bulk_wait(c, keep, read);
  u64 t = keep ? 0 : read ? c->w->bulk_t_read : c->w->bulk_t_done;
  if (t > c->sp->t)
    c->sp->t = t;
  return STEP_NEXT;
}

OP_TABLE(bulk) = {{"BULK_COMMIT", op_commit},
                  {"BULK_WAIT", op_wait},
                  {"BULK_COPY", op_bulk_copy},
                  {"BULK_STORE", op_bulk_store},
                  {"CP_ASYNC", op_cp_async},
                  {"CP_COMMIT", op_cp_commit},
                  {"CP_WAIT", op_cp_wait},
                  {"CP_ARRIVE", op_cp_arrive},
                  {"ST_ASYNC", op_st_async},
                  {"RED_ASYNC", op_red_async},
                  {NULL, NULL}};
