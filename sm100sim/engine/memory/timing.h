/* Modelled latencies, in SM cycles.  Source: published B200 / B300 microbenchmarks; the
 * model orders events for the timeline and claims no accuracy beyond that. */
#ifndef SM100SIM_TIMING_H
#define SM100SIM_TIMING_H
#define T_MBAR_ARRIVE 8u    /* mbarrier arrive until the phase can end */
#define T_MBAR_WAIT 8u      /* end of a phase until a waiter goes on */
#define T_REMOTE 190u       /* extra for an arrival, store or load in another CTA (Hopper DSMEM: 180-200) */
#define T_NAMED_BARRIER 22u /* named barrier: 22 cycles plus 2 per warp */
#define T_NAMED_PER_WARP 2u
#define T_CLUSTER_BARRIER 200u    /* taken as one DSMEM round; not published */
#define T_TMA_LATENCY 700u        /* first byte of an L2-resident tile */
#define T_TMA_BYTES_PER_CYCLE 64u /* per SM, chip loaded */
#define T_CP_ASYNC 500u           /* L2 hit plus the write to shared memory */
#endif
