// What malloc gave outlives its launch: one kernel makes objects with virtual functions, another one uses them, a third
// one deletes them, and then there is room again. Checks its own results.
#include <cstdio>

struct Shape {
  __device__ virtual ~Shape() {}
  __device__ virtual int corners() const = 0;
};

struct Polygon : Shape {
  __device__ explicit Polygon(int n) : n(n), room(new int[1 << 16]) {
    room[n] = n;
  }
  __device__ ~Polygon() override {
    delete[] room;
  }
  __device__ int corners() const override {
    return room[n];
  }
  int n, *room;
};

__device__ Shape *shapes[32];

__global__ void make(int *failed) {
  shapes[threadIdx.x] = new Polygon(threadIdx.x);
  *failed = malloc(1 << 20) != nullptr;
}

__global__ void count(int *out) {
  out[threadIdx.x] = shapes[threadIdx.x]->corners();
}

__global__ void drop() {
  delete shapes[threadIdx.x];
}

int main() {
  int *out, got[32], wrong = 0, failed;
  cudaDeviceSetLimit(cudaLimitMallocHeapSize, 32 * ((1 << 18) + 64));
  cudaMalloc(&out, sizeof got);
  for (int round = 0; round < 3; round++) {
    make<<<1, 32>>>(out);
    cudaMemcpy(&failed, out, sizeof failed, cudaMemcpyDeviceToHost);
    count<<<1, 32>>>(out);
    cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost);
    drop<<<1, 32>>>();
    for (int k = 0; k < 32; k++)
      wrong += got[k] != k;
    wrong += failed;
  }
  puts(wrong || cudaDeviceSynchronize() != cudaSuccess ? "wrong" : "right");
}
