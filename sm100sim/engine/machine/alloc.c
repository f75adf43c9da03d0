/* Memory of a machine: blocks in a list, so that a run which is out of memory can be left at once and nothing leaks. */
#include "machine/alloc.h"
#include "machine/report.h"

_Static_assert(sizeof(Block) % 16 == 0, "what follows a block's links is aligned to 16 bytes");

static void out_of_memory(Machine *m, size_t count, size_t item) {
  char text[120];
  snprintf(text, sizeof text, "the simulator asked for %zu times %zu bytes of host memory and got none", count, item);
  add_finding(m, (Place){0}, SEVERITY_FAULT, "out-of-memory", text);
  longjmp(m->out_of_memory, 1);
}

static bool total_size(size_t count, size_t item, size_t *total) {
  return !__builtin_mul_overflow(count, item, total) && !__builtin_add_overflow(*total, sizeof(Block), total);
}

void *mem_new(Machine *m, size_t count, size_t item) {
  size_t total;
  Block *block = total_size(count, item, &total) ? calloc(1, total) : NULL;
  if (!block)
    out_of_memory(m, count, item);
  block->prev = &m->blocks;
  block->next = m->blocks.next;
  block->prev->next = block->next->prev = block;
  return block + 1;
}

void *mem_resize(Machine *m, void *old, size_t count, size_t item) {
  size_t total;
  if (!old)
    return mem_new(m, count, item);
  Block *block = total_size(count, item, &total) ? realloc((Block *)old - 1, total) : NULL;
  if (!block)
    out_of_memory(m, count, item); /* `old` is still in the list */
  block->prev->next = block->next->prev = block;
  return block + 1;
}

void *mem_grow(Machine *m, void *old, u32 used, u32 *room, size_t item) {
  if (used < *room)
    return old;
  u32 more = *room ? 2 * *room : 16;
  void *p = mem_resize(m, old, more, item);
  *room = more;
  return p;
}

void mem_free(void *p) {
  if (!p)
    return;
  Block *block = (Block *)p - 1;
  block->prev->next = block->next;
  block->next->prev = block->prev;
  free(block);
}

bool mem_guard(Machine *m, void (*work)(Machine *m, void *argument), void *argument) {
  if (setjmp(m->out_of_memory))
    return false;
  work(m, argument);
  return true;
}

void mem_free_all(Machine *m) {
  while (m->blocks.next != &m->blocks)
    mem_free(m->blocks.next + 1);
}
