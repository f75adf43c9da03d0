/* State of the race checker: vector clocks, synchronisation objects, access history.
 *
 * A clock has one dimension per source of events whose completion others can learn of:
 *   warp        its own instructions (epoch grows at every release)
 *   MMA queue   tcgen05 work of one CTA or pair, in issue order; learnt through commit -> mbarrier
 *   st queue    tcgen05.st of one warp; learnt through tcgen05.wait::st
 *   cp queue    cp.async of one warp; learnt through its wait or mbarrier
 *   bulk queue  bulk async-groups of one warp; learnt through wait_group (two: sources read / all done)
 *   mbarrier    phases of one barrier; a copy that completes its transaction in phase p is done for
 *               everyone who saw phase p end
 * Two clocks travel together: `vc` orders accesses of the same proxy, `ac` is what of the generic
 * proxy is visible to the async proxy (it advances at fence.proxy.async; PTX ISA, "Causality order"). */
#ifndef SM100SIM_CHECK_H
#define SM100SIM_CHECK_H
#include "core.h"

#define MAX_MBAR_DIMS 512u
#define OP_DIM 0x80000000u           /* Rec.dim of a copy whose completion is looked up by its id */

typedef struct { u32 *vc, *ac; } Clock;
typedef struct { Clock acc, pub; u32 dim, flips, rank, offset; bool is_mbar, fenced, told; } SyncObject;
typedef struct { u32 dim, epoch; u32 line; u16 mask; u8 write, proxy; u32 cluster; } Rec;
typedef struct { Rec w, r[3]; } Cell;
typedef struct { u32 dim, epoch, dim2, epoch2; } OpDone;     /* where the end of a copy can be learnt: all, sources read */
typedef struct { u64 page; Cell *cells; } Page;
typedef struct {
  u32 n_warps, dims, mma0, st0, cp0, bulk_read0, bulk_all0, mbar0, n_mbar, warps_per_cta;
  Clock *warps, *mma; u32 *mma_seq, *st_seq, *cp_seq, *bulk_group, *bulk_stored;
  SyncObject **objects; u32 n_objects, cap_objects;
  OpDone *ops; u64 cap_ops;
  Cell **smem, **tmem;
  Page *pages; u64 n_pages, cap_pages;   /* open addressing over global memory, kept for the whole launch */
  u32 cluster; bool races, protocol;
  u32 landing;                         /* CTA in which an asynchronous operation accesses memory right now */
} Check;
/* A copy ends in every CTA by itself: a multicast completes at an mbarrier of each. */
static inline u64 op_id(const AsyncOp *op, u32 rank) { return op->seq * MAX_CLUSTER + rank; }
typedef struct { const char *space; u32 rank; u64 address; u32 bytes; } Where;

Clock clock_new(u32 dims);
void clock_free(Clock *c);
void clock_join(Clock *into, const Clock *from, u32 dims);
void clock_copy(Clock *into, const Clock *from, u32 dims);
/* The clock and (dimension, epoch) under which an access happens. */
typedef struct { Clock *clock; u32 dim, epoch; u8 proxy; u32 line; } Agent;
void race_access(Ctx *c, Check *k, Cell *cell, const Agent *me, u32 mask, Acc a, const Where *at);
void race_describe(const Check *k, char *out, size_t n, const Rec *r);
static inline u32 warp_dim(const Check *k, const Cta *cta, u32 warp) { return cta->rank * k->warps_per_cta + warp; }
#endif
