// Vector addition; checks its own result.
#include <cstdio>
#include <vector>

__global__ void add(const float *a, const float *b, float *c, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    c[i] = a[i] + b[i];
}

#define CHECK(call)                                            \
  do {                                                         \
    cudaError_t error = (call);                                \
    if (error != cudaSuccess) {                                \
      printf("%s: %s\n", #call, cudaGetErrorString(error));    \
      return 1;                                                \
    }                                                          \
  } while (0)

int main() {
  const int n = 1000;
  std::vector<float> a(n), b(n), c(n);
  for (int i = 0; i < n; i++)
    a[i] = i, b[i] = 2 * i;
  float *device[3];
  for (float *&pointer : device)
    CHECK(cudaMalloc(&pointer, n * sizeof(float)));
  CHECK(cudaMemcpy(device[0], a.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(device[1], b.data(), n * sizeof(float), cudaMemcpyHostToDevice));
  add<<<(n + 255) / 256, 256>>>(device[0], device[1], device[2], n);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(c.data(), device[2], n * sizeof(float), cudaMemcpyDeviceToHost));
  for (int i = 0; i < n; i++)
    if (c[i] != 3 * i) {
      printf("wrong at %d: %g\n", i, c[i]);
      return 1;
    }
  printf("right\n");
}
