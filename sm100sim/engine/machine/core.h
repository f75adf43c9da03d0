/* Entry points between the scheduler files, not for instruction families. */
#ifndef SM100SIM_CORE_H
#define SM100SIM_CORE_H
#include "machine/handler.h"

Cluster *cluster_new(Machine *m, const u32 id[3]);
void cluster_free(Cluster *cl);
void cluster_run(Machine *m, Cluster *cl);     /* schedule.c */
void report_deadlock(Machine *m, Cluster *cl); /* deadlock.c */
void async_free(Cluster *cl);
const OpDef *opcode_def(u32 op);                   /* opcodes.c */
u64 rng_next(Machine *m);                          /* splitmix64: the same seed repeats a run exactly */
bool machine_claim_cluster(Machine *m, u32 id[3]); /* next cluster of the grid that has not started */
void split_arrive(Ctx *c);                         /* warp/splits.c: deposit at a join when the pc reached it */
void warp_start(Warp *w);
void warp_exit_lanes(Ctx *c, u32 mask);
const char *tmem_exit_check(Cta *cta);             /* tmem/alloc.c */
u32 register_pool(const Cta *cta);                 /* sync/barrier.c: registers that setmaxnreg may hand out */
const char *setmaxnreg_exit_check(const Cta *cta); /* sync/barrier.c */
#endif
