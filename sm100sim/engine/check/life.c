/* The checker's state from the start to the end of a cluster, and of an asynchronous operation. */
#include "check/check.h"

static void lay_out(Check *check, const Cluster *cl) {
  u32 n = cl->n_ctas * cl->ctas[0].n_warps;
  check->n_warps = n;
  check->warps_per_cta = cl->ctas[0].n_warps;
  check->n_ctas = cl->n_ctas;
  check->first.cp = n;
  check->first.mma = 2 * n;
  check->first.st = 3 * n;
  check->first.ld = 4 * n;
  check->first.bulk_read = 5 * n;
  check->first.bulk_all = 6 * n;
  check->first.init = 7 * n;
  check->first.foreign = 8 * n;
  check->first.tensor = check->first.foreign + MAX_FOREIGN;
  check->first.executed = check->first.tensor + check->first.bulk_read;
  check->first.all_lanes = check->first.executed + n;
  check->first.mbar = check->first.all_lanes + (check->strict_lanes ? n : 0);
  check->first.lane = check->first.mbar + MAX_MBAR_DIMS;
  check->n_dims = check->first.lane + (check->strict_lanes ? MAX_LANE_DIMS : 0);
  check->n_proxy_dims = check->strict_lanes ? 3 * n + MAX_LANE_DIMS : 2 * n;
  check->first.after_fence = check->n_dims + 2 * check->n_proxy_dims;
  check->clock_words = check->first.after_fence + (check->strict_fence ? check->first.bulk_read : 0);
  check->n_mbar_dims = 0;
}

static void choose(Check *check, u32 set) {
  check->races = set & CHECK_RACES;
  check->protocol = set & CHECK_PROTOCOL;
  check->strict_ld = set & CHECK_STRICT_LD;
  check->strict_fence = set & CHECK_STRICT_FENCE;
  check->strict_lanes = set & CHECK_STRICT_LANES;
  check->strict_scope = set & CHECK_STRICT_SCOPE;
}

static void new_warps(Check *check) {
  u32 n = check->n_warps;
  check->warps = mem_new(check->machine, n, sizeof(Clock));
  check->released = mem_new(check->machine, n, sizeof *check->released);
  check->pending = mem_new(check->machine, n, sizeof *check->pending);
  check->before_fence = mem_new(check->machine, n, sizeof(Clock));
  check->mma_epoch = mem_new(check->machine, n, sizeof(u32));
  check->st_seq = mem_new(check->machine, n, sizeof(u32));
  check->cp_seq = mem_new(check->machine, n, sizeof(u32));
  check->inits = mem_new(check->machine, n, sizeof(u32));
  check->met = mem_new(check->machine, n, sizeof(u32));
  check->heard = mem_new(check->machine, n, sizeof(u32));
  check->touched = mem_new(check->machine, check->first.mbar, sizeof *check->touched);
  check->bulk = mem_new(check->machine, n, sizeof(BulkLog));
  check->loads = mem_new(check->machine, n, sizeof(LoadLog));
  check->wgmma = mem_new(check->machine, n, sizeof(WgmmaLog));
  lanes_start(check);
  for (u32 w = 0; w < n; w++) {
    check->warps[w] = clock_new(check);
    check->warps[w][w] = 1;
    check->heard[w] = ++check->hearings;
    check->warps[w][check->first.init + w] = 1;
  }
}

static void new_cells(Check *check, const Cluster *cl) {
  check->smem = mem_new(check->machine, cl->n_ctas, sizeof(Cell *));
  check->tmem = mem_new(check->machine, cl->n_ctas, sizeof(Cell *));
  for (u32 r = 0; r < cl->n_ctas && check->races; r++) {
    check->smem[r] = mem_new(check->machine, cl->ctas[r].smem_bytes / SMEM_GRAIN + 1, sizeof(Cell));
  }
}

void check_cluster_start(Machine *m, Cluster *cl) {
  if (!(m->opt.check & (CHECK_RACES | CHECK_PROTOCOL | CHECK_STRICT_LD | CHECK_STRICT_FENCE | CHECK_STRICT_LANES |
                        CHECK_STRICT_SCOPE)))
    return;
  if (!m->past)
    m->past = mem_new(m, 1, sizeof(Past));
  Check *check = cl->check = m->check = mem_new(m, 1, sizeof(Check));
  check->machine = m;
  check->past = m->past;
  choose(check, m->opt.check);
  check->cluster = ++check->past->clusters;
  lay_out(check, cl);
  new_warps(check);
  new_cells(check, cl);
}

static void cells_free(Cell *cells, size_t n) {
  for (size_t c = 0; cells && c < n; c++)
    mem_free(cells[c].more);
  mem_free(cells);
}

static void object_free(SyncObject *o) {
  for (u32 g = 0; g < PUBLISHED; g++)
    mem_free(o->pub[g]);
  mem_free(o->acc);
  mem_free(o->near);
  mem_free(o->near_pub);
  mem_free(o->generation);
  mem_free(o->waited);
  mem_free(o->wait_line);
  mem_free(o);
}

void check_cluster_end(Machine *m, Cluster *cl) {
  Check *check = cl->check;
  if (!check)
    return;
  for (u32 w = 0; w < check->n_warps; w++) {
    mem_free(check->warps[w]);
    mem_free(check->before_fence[w]);
    mem_free(check->bulk[w].open);
    mem_free(check->loads[w].of);
    mem_free(check->loads[w].open);
    mem_free(check->wgmma[w].of);
    for (u32 s = 0; s < 3; s++) {
      mem_free(check->released[w][s]);
      mem_free(check->pending[w][s]);
    }
  }
  for (u32 r = 0; r < cl->n_ctas; r++) {
    cells_free(check->smem[r], cl->ctas[r].smem_bytes / SMEM_GRAIN + 1);
    cells_free(check->tmem[r], TMEM_LANES * TMEM_COLS);
  }
  for (u32 o = 0; o < check->n_objects; o++)
    object_free(check->objects[o]);
  mem_free(check->objects);
  flags_end_cluster(check);
  lanes_end(check);
  mem_free(check->warps);
  mem_free(check->released);
  mem_free(check->pending);
  mem_free(check->before_fence);
  mem_free(check->mma_epoch);
  mem_free(check->st_seq);
  mem_free(check->cp_seq);
  mem_free(check->inits);
  mem_free(check->met);
  mem_free(check->heard);
  mem_free(check->touched);
  mem_free(check->bulk);
  mem_free(check->loads);
  mem_free(check->wgmma);
  mem_free(check->smem);
  mem_free(check->tmem);
  mem_free(check);
  m->check = NULL;
}

/* Nothing is known of the clusters that have ended. */
void check_forget(Machine *m) {
  Past *past = m->past;
  m->flags_used = false;
  if (!past)
    return;
  for (u64 p = 0; p < past->cap_pages; p++)
    cells_free(past->pages[p].cells, PAGE_CELLS);
  mem_free(past->pages);
  past->pages = NULL;
  past->last = (Page){0};
  past->n_pages = past->cap_pages = past->n_ops = 0;
  flags_free(&past->global);
  for (u32 k = 0; k < past->n_kept; k++)
    mem_free(past->kept[k]);
  past->n_kept = 0;
}

/* ---- asynchronous operations ----------------------------------------------------------------- */
/* A copy of warp `w` gets a number, and one for each CTA in which its end can be learnt. */
static u32 number_copy(Check *check, u32 w) {
  u32 id = (u32)check->past->n_ops;
  while (check->past->n_ops + check->n_ctas > check->past->cap_ops) {
    check->past->cap_ops = check->past->cap_ops ? 2 * check->past->cap_ops : 256;
    check->past->ops = mem_resize(check->machine, check->past->ops, check->past->cap_ops, sizeof(OpDone));
  }
  for (u32 r = 0; r < check->n_ctas; r++)
    check->past->ops[check->past->n_ops++] = (OpDone){.warp = w};
  if (check->past->n_ops >= NONE32)
    check->machine->lost = true; /* the numbers of copies start again */
  return id;
}

/* What the issuing lanes know. */
static Clock clock_of_issue(const Ctx *c, Check *check, u32 w) {
  Clock at = clock_new(check);
  const u32 *own = lanes_view(check, w, c->mask);
  clock_copy(check, at, own);
  lanes_mark(c, check, w, own[w], at + check->first.all_lanes, at + check->first.lane);
  if (check->strict_fence)
    memcpy(at + check->first.after_fence, own + check->first.after_fence, check->first.bulk_read * sizeof(u32));
  return at;
}

/* An operation of several warps comes after what each of them knows. */
void check_async_join(Ctx *c, AsyncOp *op) {
  Check *check = c->m->check;
  if (!check)
    return;
  u32 w = warp_dim(check, c->cta, c->w->index);
  Issue *issue = issue_of(op);
  Clock at = clock_of_issue(c, check, w);
  clock_meet(check, issue->at, at);
  mem_free(at);
  issue->at[check->first.mma + warp_dim(check, op->cta, op->warp->index)] = issue->epoch;
  check->warps[w][w]++;
}

void check_async_issue(Ctx *c, AsyncOp *op) {
  Check *check = c->m->check;
  if (!check)
    return;
  u32 w = warp_dim(check, c->cta, c->w->index);
  Issue *issue = mem_new(check->machine, 1, sizeof(Issue));
  issue->at = clock_of_issue(c, check, w);
  issue->met = check->met[w];
  op->clock_id = (u64)(uintptr_t)issue;
  switch (op->fifo) {
    /* The warp's epoch serves as the number of the operation: it says both when it was issued and, in the MMA
     * dimension, that it and all before it are complete. */
    case FIFO_MMA:
      issue->at[check->first.mma + w] = issue->epoch = check->mma_epoch[w] = check->warps[w][w];
      break;
    case FIFO_TMEM_ST:
      issue->at[check->first.st + w] = issue->epoch = ++check->st_seq[w];
      break;
    case FIFO_CP_ASYNC:
      issue->epoch = ++check->cp_seq[w];
      break;
    case FIFO_WGMMA: /* its number comes from its warpgroup */
      issue->epoch = c->w->wgmma_issued;
      break;
    default:
      issue->id = number_copy(check, w);
  }
  check->warps[w][w]++; /* what the warp does from now on is not ordered before the operation */
}

void check_async_end(AsyncOp *op) {
  Issue *issue = issue_of(op);
  if (!issue)
    return;
  mem_free(issue->at);
  mem_free(issue);
}
