// A kernel whose functions and variables are in another file: nvcc -rdc=true.
#include <cstdio>

extern __device__ int scaled(int x);
extern __device__ int factor;
static __device__ int own(int x) { return x + 1; }

__global__ void kernel(int *out) {
  out[threadIdx.x] = scaled(own(threadIdx.x)) + factor;
}

int main() {
  int *there, host[32];
  cudaMalloc(&there, sizeof host);
  kernel<<<1, 32>>>(there);
  cudaMemcpy(host, there, sizeof host, cudaMemcpyDeviceToHost);
  for (int k = 0; k < 32; k++)
    if (host[k] != 3 * (k + 1) + 40 + 3)
      return printf("%d: %d, %s\n", k, host[k], cudaGetErrorString(cudaGetLastError())), 1;
  puts("right");
}
