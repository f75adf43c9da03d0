/* The clusters of a launch in several threads, each with a machine of its own.
 *
 * Every machine writes down which bytes of global memory its cluster touches.  At the cluster's end they are compared
 * with those of all clusters that have ended.  While none reads or writes what another one writes, the order of the
 * clusters has no effect, and neither has what the race checker would know of other clusters.  Otherwise, and when
 * anything else happens whose place in the order counts (a fault, a limit, something dropped or printed), the run is
 * void: memory gets its former bytes back and the launch runs again in one thread. */
#ifndef SM100SIM_SHARE_H
#define SM100SIM_SHARE_H
#include "machine/state.h"

/* The executing cluster is about to touch these bytes of global memory. */
void share_note(Machine *m, u64 address, u64 len, bool write);

static inline void share_touch(Machine *m, const void *p, u64 len, bool write) {
  if (m->share)
    share_note(m, (u64)(uintptr_t)p, len, write);
}

bool share_claim(Machine *m, u64 *index);
void share_look(Machine *m); /* now and then: what a cluster should not have read may keep it in a loop for ever */
void share_end_cluster(Machine *m); /* compare, and add to what all have touched */
void share_end(Machine *m);         /* the machine's last cluster has ended */
void share_leave(Machine *m);       /* free what the machine holds */
#endif
