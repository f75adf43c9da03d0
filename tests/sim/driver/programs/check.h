/* Ends a function that returns int where a call of the runtime fails. */
#include <cstdio>
#define CHECK(call)                                                 \
  do {                                                              \
    cudaError_t error = call;                                       \
    if (error) {                                                    \
      printf("line %d: %s\n", __LINE__, cudaGetErrorString(error)); \
      return 1;                                                     \
    }                                                               \
  } while (0)
