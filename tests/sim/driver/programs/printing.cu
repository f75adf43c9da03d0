// What a kernel prints stands between what the host prints before and after the launch.
#include <cstdio>

__device__ __noinline__ int twice(int x) { return x + x; }

__global__ void say(int x) { printf("device %d %d\n", threadIdx.x, twice(x)); }

int main() {
  printf("before\n");
  say<<<1, 2>>>(21);
  cudaDeviceSynchronize();
  printf("after\n");
}
