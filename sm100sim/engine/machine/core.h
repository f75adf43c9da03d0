/* Entry points between the scheduler files, not for instruction families. */
#ifndef SM100SIM_CORE_H
#define SM100SIM_CORE_H
#include "machine/handler.h"

/* A loop that reads what nobody else may change is no poll: it computes, and is given this many times the patience. */
#define COMPUTING 50u

#define POLLING 16u

typedef enum { CLUSTER_ENDED, CLUSTER_IDLE } Turn; /* idle: its patience ended, without progress */

Cluster *cluster_new(Machine *m, u64 index);
void cluster_free(Cluster *cl);
Turn cluster_run(Machine *m, Cluster *cl, u64 patience); /* schedule.c */
void run_clusters(Machine *m, void *none);               /* launch.c */
void report_deadlock(Machine *m, Cluster *cl);           /* deadlock.c */
void async_free(Cluster *cl);
const OpDef *opcode_def(u32 op);            /* opcodes.c */
u64 rng_next(Cluster *cl);                  /* splitmix64: the same seed repeats a run exactly */
bool claim_cluster(Machine *m, u64 *index); /* next cluster of the grid that has not started */
bool take_over(Machine *m, Cluster *cl, u64 *index);
u64 clusters_of(const Options *o);
void cluster_id(const Options *o, u64 index, u32 id[3]);
void report_livelock(Machine *m, Cluster *cl, u64 idle);
void split_arrive(Ctx *c);  /* warp/splits.c: deposit at a join when the pc reached it */
bool joins_let_go(Warp *w); /* warp/splits.c: lanes at a join need not wait for ever */
void warp_start(Warp *w);
void warp_exit_lanes(Ctx *c, u32 mask);
const char *tmem_exit_check(Cta *cta);             /* tmem/alloc.c */
u32 register_pool(const Cta *cta);                 /* sync/barrier.c: registers that setmaxnreg may hand out */
const char *setmaxnreg_exit_check(const Cta *cta); /* sync/barrier.c */
#endif
