/* Operand addresses of the memory families: state spaces, bounds, alignment, observers. */
#ifndef SM100SIM_ADDRESS_H
#define SM100SIM_ADDRESS_H
#include "machine/handler.h"

/* What one instruction asks of every lane's address. */
typedef struct {
  u32 slot, bits;
  i64 off;
  Space space;
  u32 len, align;
  Acc acc;
} Access;

/* Where the active lanes' bytes are.  `own`: all of them in the executing CTA's shared memory; `outside`: none in any
 * shared memory.  `owner` holds only where neither is said.  `row`: all 32 lanes act, each on the bytes after those of
 * the lane before. */
typedef struct {
  u8 *p[LANES];
  Cta *owner[LANES];
  bool own, outside, row;
  u32 len;
} Places;

/* The CTA in whose shared memory a lane's bytes are, or NULL. */
static inline Cta *owner_at(const Ctx *c, const Places *p, u32 lane) {
  return p->own ? c->cta : p->outside ? NULL : p->owner[lane];
}

/* Pointer to `len` bytes of a CTA's shared memory, counted from the window's start, or NULL with the reason in *err. */
u8 *smem_inside(Cta *cta, u32 off, u32 len, const char **err);
/* Pointer to `len` bytes at an address in the shared window, or NULL with the reason in *err.
 * `own_only`: the access is .shared::cta, so the address must lie in the executing CTA. */
u8 *smem_at(Cluster *cl, Cta *own, u32 addr, u32 len, bool own_only, Cta **owner, const char **err);
bool gmem_ok(Machine *m, u64 addr, u64 len, bool write); /* inside a known allocation */
/* Where an address outside of every allocation lies, relative to the nearest one; "" when none is near. */
#define NEAREST_BYTES 120
const char *gmem_nearest(const Machine *m, u64 addr, u64 len, char out[NEAREST_BYTES]);

Step resolve(Ctx *c, const Access *a, Places *out);
/* One lane of the same; `owner` is NULL outside shared memory. */
Step resolve_lane(Ctx *c, const Access *a, u32 lane, u8 **p, Cta **owner);
/* Bytes at a generic address that a system call reads for a lane; NULL after a fault. */
const u8 *generic_bytes(Ctx *c, u64 addr, u32 len, u32 lane);
/* The 64-bit address value of a lane, offset added. */
u64 lane_address(const Ctx *c, u32 slot, u32 bits, i64 off, u32 lane);
/* Address in the shared window of a shared or generic operand; faults outside the shared window. */
Step window_address(Ctx *c, const Access *a, u32 lane, u32 *addr);
/* Reports the accesses of c->mask to the observers, contiguous lanes together.  order: ORDER_* of the instruction. */
void observe_by(Ctx *c, const Places *p, Acc acc, u32 order, Proxy proxy);

static inline void observe(Ctx *c, const Places *p, Acc acc, u32 order) {
  observe_by(c, p, acc, order, PROXY_GENERIC);
}

static inline bool observed(const Machine *m) {
  return m->opt.check;
}

static inline u32 smem_offset(const Cta *owner, const u8 *p) {
  return (u32)(p - owner->smem);
}

/* Offset of a live mbarrier inside [off, off + len), or NONE32. */
static inline u32 mbar_inside(const Cta *cta, u32 off, u32 len) {
  for (u32 g = off >> 3; g <= (off + len - 1) >> 3; g++)
    if (cta->mbar_at[g])
      return g << 3;
  return NONE32;
}
#endif
