// A cluster of two CTAs copies tiles by TMA, doubles them, and stores them by TMA; the tensor map comes
// from the driver, which is asked for through the runtime. Checks its own result.
#include <cstdint>
#include <cstdio>
#include <vector>

#include <cuda.h>

constexpr int ROWS = 64, COLUMNS = 64, TILE = 32;

__global__ void twice(const __grid_constant__ CUtensorMap in, const __grid_constant__ CUtensorMap out) {
  __shared__ alignas(128) float tile[TILE * COLUMNS];
  __shared__ alignas(8) uint64_t barrier;
  uint32_t there = (uint32_t)__cvta_generic_to_shared(tile);
  uint32_t bar = (uint32_t)__cvta_generic_to_shared(&barrier);
  int row = blockIdx.x * TILE;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"((int)sizeof tile)
                 : "memory");
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::
            "r"(there), "l"(&in), "r"(0), "r"(row), "r"(bar)
        : "memory");
  }
  asm volatile(
      "{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra again; }" ::"r"(bar)
      : "memory");
  for (int i = threadIdx.x; i < TILE * COLUMNS; i += blockDim.x)
    tile[i] *= 2;
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&out), "r"(0),
                 "r"(row), "r"(there)
                 : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}

#define CHECK(call)                                  \
  do {                                               \
    int error = (int)(call);                         \
    if (error) {                                     \
      printf("%s: error %d\n", #call, error);        \
      return 1;                                      \
    }                                                \
  } while (0)

using Encode = decltype(&cuTensorMapEncodeTiled);

static int describe(Encode encode, CUtensorMap *map, void *memory) {
  cuuint64_t sizes[] = {COLUMNS, ROWS}, strides[] = {COLUMNS * sizeof(float)};
  cuuint32_t box[] = {COLUMNS, TILE}, steps[] = {1, 1};
  return encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, memory, sizes, strides, box, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

int main() {
  void *function = nullptr;
  cudaDriverEntryPointQueryResult found;
  CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found));
  std::vector<float> host(ROWS * COLUMNS);
  for (size_t i = 0; i < host.size(); i++)
    host[i] = i;
  float *in, *out;
  CHECK(cudaMalloc(&in, host.size() * sizeof(float)));
  CHECK(cudaMalloc(&out, host.size() * sizeof(float)));
  CHECK(cudaMemcpy(in, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice));
  CUtensorMap from, to;
  CHECK(describe((Encode)function, &from, in));
  CHECK(describe((Encode)function, &to, out));
  cudaLaunchConfig_t config = {};
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {2, 1, 1};
  config.gridDim = ROWS / TILE;
  config.blockDim = 128;
  config.attrs = &cluster;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, twice, from, to));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaMemcpy(host.data(), out, host.size() * sizeof(float), cudaMemcpyDeviceToHost));
  for (size_t i = 0; i < host.size(); i++)
    if (host[i] != 2 * i) {
      printf("wrong at %zu: %g\n", i, host[i]);
      return 1;
    }
  printf("right\n");
}
