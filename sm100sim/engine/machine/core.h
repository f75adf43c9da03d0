/* Entry points between the scheduler files, not for instruction families. */
#ifndef SM100SIM_CORE_H
#define SM100SIM_CORE_H
#include "machine/engine.h"

typedef struct {
  const char *code;
  const char *text;
} Verdict;

Machine *machine_new(const Options *opt);
Cluster *cluster_new(Machine *m, const u32 id[3]);
void cluster_free(Cluster *cl);
void cluster_run(Machine *m, Cluster *cl);     /* sched.c */
void report_deadlock(Machine *m, Cluster *cl); /* deadlock.c */
void async_free(Cluster *cl);
void split_arrive(Ctx *c); /* control.c: deposit at a join when the pc reached it */
void warp_start(Warp *w);
void warp_exit_lanes(Ctx *c, u32 mask);
const char *tmem_exit_check(Cta *cta);             /* tmem_alloc.c */
u32 register_pool(const Cta *cta);                 /* barrier.c: registers that setmaxnreg may hand out */
const char *setmaxnreg_exit_check(const Cta *cta); /* barrier.c */
bool machine_claim_cluster(Machine *m, u32 id[3]); /* next cluster of the grid that has not started */
void add_finding(Machine *m, const Ctx *c, u32 line, u32 line2, bool fatal, const char *code, const char *text);
void check_cluster_start(Machine *m, Cluster *cl);
void check_cluster_end(Machine *m, Cluster *cl);
void check_free(Machine *m);
void check_async_issue(Ctx *c, AsyncOp *op);
void check_async_end(AsyncOp *op);
#endif
