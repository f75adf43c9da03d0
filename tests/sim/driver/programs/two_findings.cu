// Two findings that change nothing: bits of registers that nothing wrote, all masked out. The launch
// ends, however many of them are told.
#include <cstdio>

__global__ void both(int *out) {
  int a, b;
  asm volatile("{ .reg .b32 unset; and.b32 %0, unset, 0; }" : "=r"(a));
  asm volatile("{ .reg .b32 unset; and.b32 %0, unset, 0; }" : "=r"(b));
  out[threadIdx.x] = a + b + 11;
}

int main() {
  int *out;
  cudaMallocManaged(&out, 64 * sizeof *out);
  both<<<1, 64>>>(out);
  printf("%s\n", cudaDeviceSynchronize() == cudaSuccess && out[63] == 11 ? "right" : "wrong");
}
