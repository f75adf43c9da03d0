/* Entry points of a library other than libcuda.so.1, which has the connection. */
#ifndef SM100SIM_FORWARD_H
#define SM100SIM_FORWARD_H
#include "transport.h"

#include <dlfcn.h>
#include <stdio.h>

static u64 forward(const char *name, const u64 *words) {
  static Call call;
  if (!call) {
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
    call = driver ? (Call)dlsym(driver, "sm100sim_call") : NULL;
  }
  if (call)
    return call(name, words);
  fprintf(stderr, "sm100sim: %s: no libcuda.so.1 of sm100sim is in the library path\n", name);
  return 999;
}

#define ENTRY(name)                     \
  EXPORT u64 name(PARAMETERS) {         \
    const u64 words[WORDS] = ARGUMENTS; \
    return forward(#name, words);       \
  }

#endif
