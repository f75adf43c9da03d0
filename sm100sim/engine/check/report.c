/* What a race finding says: both accesses, by whom, and which edge would order them. */
#include "check/check.h"

static const SyncObject *object_of_dim(const Check *check, u32 dim) {
  for (u32 o = 0; o < check->n_objects; o++)
    if (check->objects[o]->is_mbar && check->objects[o]->dim == dim)
      return check->objects[o];
  return NULL;
}

static void who(const Check *check, char *out, size_t n, u32 dim, u32 epoch) {
  static const char *const QUEUE[] = {"", "cp.async of ", "tcgen05 MMA or copy issued by ", "tcgen05.st of ",
                                      "tcgen05.ld of "};
  u32 warp = dim & OP_DIM ? check->past->ops[epoch].warp : dim % check->n_warps;
  const char *queue = dim & OP_DIM ? "the asynchronous copy issued by " : QUEUE[dim / check->n_warps];
  if (!(dim & OP_DIM) && dim / check->n_warps == 2 && check->has_wgmma)
    queue = "wgmma of the warpgroup of ";
  snprintf(out, n, "%swarp %u of CTA %u", queue, warp % check->warps_per_cta, cta_of(check, warp));
}

static void missing_copy(const Check *check, char *out, size_t n, const Rec *r) {
  const OpDone *done = &check->past->ops[r->epoch];
  const SyncObject *b = done->epoch && done->dim >= check->first.mbar ? object_of_dim(check, done->dim) : NULL;
  bool read = done->epoch2 && !(r->kind & KIND_WRITE);
  if (b)
    snprintf(out, n, "a wait for phase %u of the mbarrier at CTA %u + 0x%x, which counts its bytes", done->epoch - 1,
             b->rank, b->offset);
  else if (done->epoch)
    snprintf(out, n, "a cp.async.bulk.wait_group%s by the issuing thread%s", read ? ".read" : "",
             read ? "" : ", passed on to the other side");
  else
    snprintf(out, n, "a wait on the mbarrier that counts its bytes");
}

/* A barrier between the lanes of one warp: of which, and around what. */
static void missing_meeting(const Check *check, char *out, size_t n, const Agent *me, const Rec *r) {
  if (r->dim != me->warp)
    snprintf(out, n,
             "a bar.warp.sync between the accesses of several lanes of that warp and the signal, or fence, of one");
  else if (me->dim == r->dim)
    snprintf(out, n, "a bar.warp.sync between the lanes");
  else if (!check->strict_lanes || r->kind & KIND_WRITE)
    snprintf(out, n,
             "a bar.warp.sync between the stores of several lanes, each with its fence, and the one that issues");
  else
    snprintf(out, n, "a bar.warp.sync between the loads of several lanes and the one that issues");
}

/* Another lane of the warp has waited and knows of the earlier access. */
static bool other_lane_knows(const Check *check, const Agent *me, const Rec *r) {
  if (r->cluster != check->cluster)
    return false;
  const OpDone *done = r->dim & OP_DIM ? &check->past->ops[r->epoch] : NULL;
  FOR_LANES (check->apart[me->warp], l) {
    const u32 *solo = check->solo[me->warp][l];
    if (done ? (done->epoch && solo[done->dim] >= done->epoch) ||
                   (done->epoch2 && !(r->kind & KIND_WRITE) && solo[done->dim2] >= done->epoch2)
             : solo[r->dim] >= r->epoch)
      return true;
  }
  return false;
}

/* Which edge would order the earlier access before others. */
static void missing_edge(const Check *check, char *out, size_t n, const Agent *me, const Rec *r, Order o,
                         const Where *at) {
  if (r->cluster != check->cluster) {
    snprintf(out, n, "a flag in global memory, released there and acquired here; clusters are not ordered otherwise");
    return;
  }
  if (o == UNFENCED) {
    snprintf(out, n, "a fence.proxy.async%s between the generic write and the asynchronous access",
             at->global ? ".global" : ".shared::cta");
    return;
  }
  if (o == LANES_APART) {
    missing_meeting(check, out, n, me, r);
    return;
  }
  if (o == NO_TENSOR_FENCE) {
    snprintf(out, n,
             "a tcgen05.fence::before_thread_sync between the earlier one and the signal, or ::after_thread_sync "
             "between the wait and the later one");
    return;
  }
  if (r->dim & OP_DIM) {
    missing_copy(check, out, n, r);
    return;
  }
  switch (r->dim / check->n_warps) {
    case 1:
      snprintf(out, n,
               "a cp.async.wait_group by its thread, or cp.async.mbarrier.arrive, before the signal to the other side");
      return;
    case 2:
      if (!check->has_wgmma)
        snprintf(out, n, "a tcgen05.commit after it and a wait on that mbarrier");
      else if (me->dim == r->dim)
        snprintf(out, n, "a barrier of its four warps, after the write and before the wgmma");
      else
        snprintf(out, n, "a wgmma.wait_group by its warps before the signal to the other side");
      return;
    case 3:
      snprintf(out, n, "a tcgen05.wait::st before the signal to the other side");
      return;
    case 4:
      snprintf(out, n, "a tcgen05.wait::ld, or a use of the loaded registers, before the signal to the other side");
      return;
    default:
      snprintf(out, n,
               "an arrive (release) by that warp and a wait (acquire) by the other side on one mbarrier or barrier");
  }
}

/* An operation that lands after an access which its issuer, or someone whom the issuer signalled, made meanwhile:
 * that side should have waited for the operation. */
static bool overtaken(const Check *check, const Agent *me, const Rec *r) {
  u32 warp = r->dim % check->n_warps, queue = r->dim / check->n_warps; /* epochs of these two queues are the warp's */
  if (r->cluster != check->cluster || me->dim < check->n_warps || r->dim & OP_DIM || (queue != 0 && queue != 4))
    return false;
  return me->clock[warp] < r->epoch && check->warps[warp][me->warp] > me->clock[me->warp];
}

void race_report(Ctx *c, const Check *check, const Agent *me, const Rec *r, u32 kind, Order o, const Where *at) {
  char first[80], second[80], edge[180], code[40], text[460];
  bool foreign = r->cluster != check->cluster;
  if (foreign)
    snprintf(first, sizeof first, "another cluster");
  else
    who(check, first, sizeof first, r->dim, r->epoch);
  who(check, second, sizeof second, me->dim, me->epoch);
  const Rec later = {.dim = (u16)me->dim, .epoch = me->epoch, .kind = kind, .cluster = check->cluster};
  if (o == UNORDERED && other_lane_knows(check, me, r))
    snprintf(edge, sizeof edge, "a bar.warp.sync after the wait, which another lane of this warp did");
  else
    missing_edge(check, edge, sizeof edge, me, o == UNORDERED && overtaken(check, me, r) ? &later : r, o, at);
  if (o == UNORDERED && check->strict_scope && !foreign && !(r->dim & OP_DIM) &&
      cta_of(check, r->dim % check->n_warps) != cta_of(check, me->warp))
    strncat(edge, ", both of cluster scope", sizeof edge - strlen(edge) - 1);
  snprintf(code, sizeof code, "race-%s", at->space);
  if (o == NO_TENSOR_FENCE)
    snprintf(code, sizeof code, "tcgen05-not-fenced");
  bool copies = !foreign && r->dim & OP_DIM && me->dim == OP_DIM && check->past->ops[r->epoch].warp == me->warp;
  if (copies && r->kind & KIND_WRITE && kind & KIND_WRITE && r->line == me->line) {
    /* Threads of one warp that all issue the same bulk copy: the same bytes, several times. */
    snprintf(text, sizeof text,
             "%s at %s CTA %u + 0x%llx repeats the write by the same instruction: "
             "more than one thread issues it and each copy is carried out; elect one thread",
             second, at->space, at->rank, (unsigned long long)at->address);
    add_finding(c->m, (Place){c, me->line, r->line}, SEVERITY_FINDING, "repeated-copy", text);
    return;
  }
  if (o == INCOHERENT) {
    snprintf(text, sizeof text,
             "texture or surface read by %s at 0x%llx, which the write by %s changed in the same launch: such reads "
             "are not kept coherent, whatever lies between (CUDA C++ Programming Guide, \"Read/Write Coherency\")",
             second, (unsigned long long)at->address, first);
    add_finding(c->m, (Place){c, me->line, r->line}, SEVERITY_FINDING, "texture-after-write", text);
    return;
  }
  snprintf(text, sizeof text,
           "%s by %s at %s CTA %u + 0x%llx is not ordered after the %s by %s (%s proxy then %s proxy); missing: %s",
           kind & KIND_WRITE ? "write" : "read", second, at->space, at->rank, (unsigned long long)at->address,
           r->kind & KIND_WRITE ? "write" : "read", first, r->proxy ? "async" : "generic",
           me->proxy ? "async" : "generic", edge);
  add_finding(c->m, (Place){c, me->line, r->line}, SEVERITY_FINDING, code, text);
}
