// An assertion that fails in a kernel is an error of the calls after it. Checks its own result.
#include <cassert>
#include <cstdio>

__global__ void small(int limit) { assert(threadIdx.x < limit); }

int main() {
  small<<<1, 32>>>(32);
  if (cudaDeviceSynchronize() != cudaSuccess)
    return 1;
  small<<<1, 32>>>(30);
  if (cudaDeviceSynchronize() != cudaErrorAssert)
    return 1;
  printf("right\n");
  return 0;
}
