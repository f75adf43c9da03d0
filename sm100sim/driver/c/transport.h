/* How an entry point of the stand-in libraries reaches the simulator's process. */
#ifndef SM100SIM_TRANSPORT_H
#define SM100SIM_TRANSPORT_H
#include <stdint.h>

typedef uint64_t u64;

#define EXPORT __attribute__((visibility("default")))

/* Words handed over by every entry point: six registers and ten of the stack. No function of the
 * APIs takes more, and none takes a floating-point number by value (System V ABI, x86-64, 3.2.3). */
#define WORDS 16

#define PARAMETERS                                                                                                    \
  u64 a0, u64 a1, u64 a2, u64 a3, u64 a4, u64 a5, u64 a6, u64 a7, u64 a8, u64 a9, u64 a10, u64 a11, u64 a12, u64 a13, \
      u64 a14, u64 a15
#define ARGUMENTS {a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15}

/* Does what a program's call of `name` asks for; returns what the function returns. */
typedef u64 (*Call)(const char *name, const u64 *words);

#endif
