/* Asynchronous work between issue and landing. */
#ifndef SM100SIM_ASYNC_H
#define SM100SIM_ASYNC_H
#include "machine/state.h"

#define NEVER UINT64_MAX /* a modelled time that does not come */

AsyncOp *async_new(Ctx *c, Fifo fifo, u32 key, void (*land)(Machine *, AsyncOp *), size_t payload_bytes);
void async_submit(Cluster *cl, AsyncOp *op);       /* fast mode lands at once */
void async_drain(Cluster *cl, Fifo fifo, u32 key); /* land all of one in-order family now */
bool async_land_due(Cluster *cl, u64 until); /* land what ends by then, the first to end first; false if nothing */
u64 async_next(const Cluster *cl);           /* when the next eligible op ends; NEVER if there is none */
bool async_land_one(Cluster *cl);            /* land one eligible op; false if none */
#endif
