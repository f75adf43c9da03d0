/* Asynchronous work: TMA copies, MMAs, commits and TMEM stores between issue and landing.
 *
 * Fast mode lands an operation when it is issued.  Random mode lands eligible operations at moments
 * drawn from the seed; late mode only when no warp can run; timed mode in the order of their modelled ends.
 * Operations of one in-order family (`Fifo`, key) land in issue order in every mode; all others in any order. */
#include "machine/core.h"

AsyncOp *async_new(Ctx *c, Fifo fifo, u32 key, void (*land)(Machine *, AsyncOp *), size_t payload_bytes) {
  AsyncOp *op = mem_new(c->m, 1, sizeof(AsyncOp) + payload_bytes);
  op->fifo = fifo;
  op->fifo_key = key;
  op->land = land;
  op->cta = c->cta;
  op->warp = c->w;
  op->lane = c->mask ? first_lane(c->mask) : 0;
  op->ins = c->ins;
  op->line = c->ins->line;
  op->seq = ++c->cl->async_seq; /* 0 stands for none in the race records */
  op->t_issue = op->t_done = c->sp->t;
  check_async_issue(c, op);
  return op;
}

static void unlink_op(Cluster *cl, AsyncOp *op) {
  if (op->prev)
    op->prev->next = op->next;
  else
    cl->async_head = op->next;
  if (op->next)
    op->next->prev = op->prev;
  else
    cl->async_tail = op->prev;
  cl->n_async--;
}

static void append(Cluster *cl, AsyncOp *op) {
  op->prev = cl->async_tail;
  op->next = NULL;
  if (cl->async_tail)
    cl->async_tail->next = op;
  else
    cl->async_head = op;
  cl->async_tail = op;
  cl->n_async++;
}

/* An operation with a second part (a bulk store: read the source, write the destination) is queued again. */
static void land(Cluster *cl, AsyncOp *op) {
  do {
    op->again = false;
    op->land(cl->m, op);
    note_progress(cl);
  } while (op->again && cl->m->opt.mode == MODE_FAST);
  if (op->again) {
    append(cl, op);
    return;
  }
  check_async_end(op);
  mem_free(op);
}

void async_submit(Cluster *cl, AsyncOp *op) {
  if (cl->m->opt.mode == MODE_FAST) {
    land(cl, op);
    return;
  }
  append(cl, op);
  note_progress(cl);
}

static bool eligible(const Cluster *cl, const AsyncOp *op) {
  if (op->fifo == FIFO_NONE)
    return true;
  for (const AsyncOp *o = cl->async_head; o != op; o = o->next)
    if (o->fifo == op->fifo && o->fifo_key == op->fifo_key)
      return false;
  return true;
}

static AsyncOp *first_to_end(const Cluster *cl) {
  AsyncOp *first = NULL;
  for (AsyncOp *o = cl->async_head; o; o = o->next)
    if ((!first || o->t_done < first->t_done) && eligible(cl, o))
      first = o;
  return first;
}

u64 async_next(const Cluster *cl) {
  const AsyncOp *first = first_to_end(cl);
  return first ? first->t_done : NEVER;
}

bool async_land_due(Cluster *cl, u64 until) {
  bool any = false;
  for (AsyncOp *o; !cl->m->faulted && (o = first_to_end(cl)) && o->t_done <= until; any = true) {
    unlink_op(cl, o);
    land(cl, o);
  }
  return any;
}

bool async_land_one(Cluster *cl) {
  if (!cl->n_async)
    return false;
  u32 n = 0;
  for (AsyncOp *o = cl->async_head; o; o = o->next)
    n += eligible(cl, o);
  u32 pick = (u32)(rng_next(cl) % n);
  for (AsyncOp *o = cl->async_head; o; o = o->next)
    if (eligible(cl, o) && pick-- == 0) {
      unlink_op(cl, o);
      land(cl, o);
      return true;
    }
  return false;
}

void async_drain(Cluster *cl, Fifo fifo, u32 key) {
  for (AsyncOp *o = cl->async_head, *next; o; o = next) {
    next = o->next;
    if (o->fifo == fifo && o->fifo_key == key) {
      unlink_op(cl, o);
      land(cl, o);
      if (cl->m->faulted)
        return;
    }
  }
}

void async_free(Cluster *cl) {
  for (AsyncOp *o = cl->async_head, *next; o; o = next) {
    next = o->next;
    check_async_end(o);
    mem_free(o);
  }
  cl->async_head = cl->async_tail = NULL;
  cl->n_async = 0;
}
