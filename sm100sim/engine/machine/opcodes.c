/* The handlers of all families; an opcode is a handler's number in their order. */
#include "machine/core.h"

extern const OpDef ops_control[], ops_integer[], ops_logic[], ops_floating[], ops_convert[], ops_predicate[],
    ops_warp[], ops_special[], ops_approx[], ops_half[], ops_pack[], ops_memory[], ops_atomic[], ops_matrix[],
    ops_fence[], ops_barrier[], ops_mbarrier[], ops_cluster[], ops_bulk[], ops_tma[], ops_tmem[], ops_mma[],
    ops_tcopy[], ops_wgmma[], ops_calls[], ops_system[], ops_sync_mma[], ops_heap[], ops_extended[], ops_texture[],
    ops_surface[], ops_video[];

static const OpDef *const TABLES[] = {
    ops_control,  ops_integer, ops_logic,    ops_floating, ops_convert,  ops_predicate, ops_warp,    ops_special,
    ops_approx,   ops_half,    ops_pack,     ops_memory,   ops_atomic,   ops_matrix,    ops_fence,   ops_barrier,
    ops_mbarrier, ops_cluster, ops_bulk,     ops_tma,      ops_tmem,     ops_mma,       ops_tcopy,   ops_wgmma,
    ops_calls,    ops_system,  ops_sync_mma, ops_heap,     ops_extended, ops_texture,   ops_surface, ops_video};

#define N_TABLES (sizeof TABLES / sizeof TABLES[0])

u32 sm100_opcode_count(void) {
  u32 n = 0;
  for (u32 t = 0; t < N_TABLES; t++)
    for (const OpDef *d = TABLES[t]; d->name; d++)
      n++;
  return n;
}

const OpDef *opcode_def(u32 op) {
  for (u32 t = 0; t < N_TABLES; t++)
    for (const OpDef *d = TABLES[t]; d->name; d++)
      if (op-- == 0)
        return d;
  return NULL;
}

const char *sm100_opcode_name(u32 op) {
  const OpDef *d = opcode_def(op);
  return d ? d->name : NULL;
}
