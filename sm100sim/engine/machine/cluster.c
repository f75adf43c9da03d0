/* The state of a cluster when it starts, and its end. */
#include "machine/core.h"

#define REGISTER_ALIGNMENT 64u
#define SEED_STEP 0xD1342543DE82EF95ull

static void fill(const Options *o, void *p, size_t bytes) {
  if (o->poison)
    memset(p, 0xFF, bytes); /* NaN in every floating-point format */
}

static void warp_init(Machine *m, Cta *cta, Warp *w, u32 index, u32 lanes) {
  const Program *p = &m->prog;
  w->cta = cta;
  w->index = index;
  w->maxnreg = p->entry_regs;
  w->lanes = lanes >= LANES ? NONE32 : (1u << lanes) - 1;
  w->regs_memory = mem_new(m, p->reg_bytes + 2 * REGISTER_ALIGNMENT, 1);
  w->regs = (u8 *)(((uintptr_t)w->regs_memory + REGISTER_ALIGNMENT - 1) & ~(uintptr_t)(REGISTER_ALIGNMENT - 1));
  memcpy(w->regs, p->reg_init, p->reg_bytes);
  if (m->opt.check & CHECK_REGISTERS)
    w->valid = mem_new(m, p->reg_bytes / SLOT_GRAIN + 1, sizeof(u32));
  if (p->local_bytes)
    w->local = mem_new(m, LANES, p->local_bytes);
  warp_start(w);
}

static void cta_place(const Options *o, Cta *cta) {
  u32 r = cta->rank;
  for (int k = 0; k < 3; k++) {
    cta->cluster_ctaid[k] = r % o->cluster[k];
    r /= o->cluster[k];
    cta->ctaid[k] = cta->cl->id[k] * o->cluster[k] + cta->cluster_ctaid[k];
  }
}

static void cta_init(Machine *m, Cluster *cl, Cta *cta, u32 rank) {
  const Options *o = &m->opt;
  cta->cl = cl;
  cta->rank = rank;
  cta_place(o, cta);
  cta->smem_bytes = SMEM_RESERVED + m->prog.static_smem + o->dynamic_smem;
  cta->smem = mem_new(m, cta->smem_bytes + 64, 1);
  fill(o, cta->smem, cta->smem_bytes);
  cta->mbar_at = mem_new(m, cta->smem_bytes / 8 + 1, sizeof(u16));
  if (o->check & CHECK_SHARED)
    memset(cta->smem_valid = mem_new(m, cta->smem_bytes, 1), 1, m->prog.smem_lent); /* the system's, not garbage */
  u32 threads = o->block[0] * o->block[1] * o->block[2];
  cta->n_warps = (threads + LANES - 1) / LANES;
  cta->warps = mem_new(m, cta->n_warps, sizeof(Warp));
  for (u32 k = 0; k < cta->n_warps; k++)
    warp_init(m, cta, &cta->warps[k], k, threads - k * LANES);
}

Cluster *cluster_new(Machine *m, u64 index) {
  Cluster *cl = mem_new(m, 1, sizeof(Cluster));
  cl->m = m;
  cl->index = index;
  cl->rng = m->opt.seed ^ index * SEED_STEP; /* each cluster has a schedule of its own */
  cluster_id(&m->opt, index, cl->id);
  cl->n_ctas = m->opt.cluster[0] * m->opt.cluster[1] * m->opt.cluster[2];
  for (u32 k = 0; k < cl->n_ctas; k++) {
    cta_init(m, cl, &cl->ctas[k], k);
    for (u32 w = 0; w < cl->ctas[k].n_warps; w++)
      cl->bar_expected += (u32)__builtin_popcount(cl->ctas[k].warps[w].lanes);
  }
  check_cluster_start(m, cl);
  return cl;
}

void cluster_free(Cluster *cl) {
  async_free(cl);
  for (u32 k = 0; k < cl->n_ctas; k++) {
    Cta *cta = &cl->ctas[k];
    for (u32 w = 0; w < cta->n_warps; w++) {
      mem_free(cta->warps[w].regs_memory);
      mem_free(cta->warps[w].valid);
      mem_free(cta->warps[w].local);
      mem_free(cta->warps[w].joins); /* registers that a call saved live as long as the machine */
    }
    for (u32 g = 0; g < MAX_WARPGROUPS; g++)
      mem_free(cta->wgmma[g].ahead); /* an operation that never started lives as long as the machine */
    mem_free(cta->warps);
    mem_free(cta->smem);
    mem_free(cta->smem_valid);
    mem_free(cta->tmem);
    mem_free(cta->tmem_valid);
    mem_free(cta->mbars);
    mem_free(cta->mbar_at);
  }
  mem_free(cl);
}
