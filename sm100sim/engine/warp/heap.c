/* malloc and free in a kernel (CUDA C++ Programming Guide, "Dynamic Global Memory Allocation and Operations").
 *
 * A program of the driver's stand-in brings a heap, whose blocks are listed at its beginning and outlive the launch.
 * Other launches have one of their own, which ends with them. */
#include "machine/alloc.h"
#include "machine/handler.h"

#define HEAP_BYTES (8ull << 20) /* of a program that does not ask for another size (cudaLimitMallocHeapSize) */

/* Memory of the program's heap, or NULL. */
static u8 *heap_kept(const Machine *m, u64 size) {
  Heap *heap = m->heap;
  if (size > heap->limit - heap->used || heap->blocks == HEAP_BLOCKS || size > m->heap_end - heap->next)
    return NULL;
  u64 at = heap->next;
  ((Region *)(heap + 1))[heap->blocks++] = (Region){.lo = at, .hi = at + size, .kind = REGION_WRITABLE};
  heap->used += size;
  heap->next = (at + size + 15) & ~15ull; /* aligned to 16 bytes, as CUDA's */
  return (u8 *)(uintptr_t)at;
}

static u64 heap_take(Machine *m, u64 size) {
  if (!size || (!m->heap && size > HEAP_BYTES - m->heap_used))
    return 0;
  u8 *memory = m->heap ? heap_kept(m, size) : mem_new(m, size, 1);
  if (!memory)
    return 0;
  if (m->opt.poison)
    memset(memory, 0xFF, size);
  m->regions = mem_grow(m, m->regions, m->n_regions, &m->cap_regions, sizeof(Region));
  u64 lo = (u64)(uintptr_t)memory;
  m->regions[m->n_regions++] = (Region){.lo = lo, .hi = lo + size, .kind = REGION_WRITABLE};
  m->heap_used += size;
  return lo;
}

/* Its memory is not used again in this launch, so that late accesses and the race checker's history stay clear. */
static bool heap_give_back(Machine *m, u64 address) {
  for (u32 k = m->n_given; k < m->n_regions; k++) {
    Region *r = &m->regions[k];
    if (r->lo != address)
      continue;
    m->heap_used -= r->hi - r->lo;
    if (m->heap) {
      Region *blocks = (Region *)(m->heap + 1);
      m->heap->used -= r->hi - r->lo;
      blocks[k - m->n_given] = blocks[--m->heap->blocks];
    }
    *r = m->regions[--m->n_regions];
    return true;
  }
  return false;
}

/* s: bytes; d: address, 0 when the heap has no room. */
static Step op_malloc(Ctx *c, const Ins *i) {
  FOR_LANES (c->mask, l)
    R64(c, i->d[0])[l] = heap_take(c->m, R64(c, i->s[0])[l]);
  note_progress(c->cl);
  return STEP_NEXT;
}

static Step op_free(Ctx *c, const Ins *i) {
  FOR_LANES (c->mask, l) {
    u64 address = R64(c, i->s[0])[l];
    if (address && !heap_give_back(c->m, address))
      return fault(c, "heap-address", "free of 0x%llx (lane %u), which malloc did not give or which is free already",
                   (unsigned long long)address, l);
  }
  note_progress(c->cl);
  return STEP_NEXT;
}

OP_TABLE(heap) = {{"MALLOC", op_malloc}, {"FREE", op_free}, {NULL, NULL}};
