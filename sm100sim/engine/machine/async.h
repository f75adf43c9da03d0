/* Asynchronous work between issue and landing. */
#ifndef SM100SIM_ASYNC_H
#define SM100SIM_ASYNC_H
#include "machine/state.h"

AsyncOp *async_new(Ctx *c, Fifo fifo, u32 key, void (*land)(Machine *, AsyncOp *), size_t payload_bytes);
void async_submit(Cluster *cl, AsyncOp *op);       /* fast mode lands at once */
void async_drain(Cluster *cl, Fifo fifo, u32 key); /* land all of one in-order family now */
bool async_land_one(Cluster *cl);                  /* land one eligible op; false if none */
#endif
