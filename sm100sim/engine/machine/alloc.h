/* Memory of a machine.  A request that cannot be met ends the run with the fault "out-of-memory": these functions do
 * not return then, and what the run had allocated is freed with the machine. */
#ifndef SM100SIM_ALLOC_H
#define SM100SIM_ALLOC_H
#include "machine/types.h"

/* Zeroed room for `count` items, aligned to 16 bytes. */
void *mem_new(Machine *m, size_t count, size_t item);
/* `old` (or NULL) with room for `count` items; what is new is not zeroed. */
void *mem_resize(Machine *m, void *old, size_t count, size_t item);
/* An array of `*room` items that holds `used`, with room for one more. */
void *mem_grow(Machine *m, void *old, u32 used, u32 *room, size_t item);
void mem_free(void *p);
/* Run `work`; false when it ran out of memory. */
bool mem_guard(Machine *m, void (*work)(Machine *m, void *argument), void *argument);
void mem_free_all(Machine *m);
#endif
