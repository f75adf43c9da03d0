// A 3 x 3 convolution with padding over two images, by im2col copies: each CTA loads, for every tap of the filter,
// the pixels that it reaches from 16 places of the output. Checks its own result.
#include <cstdint>
#include <cstdio>
#include <vector>

#include <cuda.h>

constexpr int N = 2, H = 5, W = 6, C = 8, TILE = 16, PLACES = N * H * W;

__global__ void convolve(const __grid_constant__ CUtensorMap images, const float *weights, float *out) {
  __shared__ alignas(128) float tile[TILE * C];
  __shared__ alignas(8) uint64_t barrier;
  uint32_t there = (uint32_t)__cvta_generic_to_shared(tile);
  uint32_t bar = (uint32_t)__cvta_generic_to_shared(&barrier);
  int first = blockIdx.x * TILE, n = first / (H * W), h = first / W % H - 1, w = first % W - 1;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  float sum = 0;
  for (int tap = 0; tap < 9; tap++) {
    if (threadIdx.x == 0) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"((int)sizeof tile)
                   : "memory");
      asm volatile(
          "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4, "
          "%5}], [%6], {%7, %8};" ::"r"(there),
          "l"(&images), "r"(0), "r"(w), "r"(h), "r"(n), "r"(bar), "h"((short)(tap % 3)), "h"((short)(tap / 3))
          : "memory");
    }
    asm volatile(
        "{ .reg .pred p; again: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra again; }" ::"r"(bar),
        "r"(tap & 1)
        : "memory");
    for (int c = 0; c < C && threadIdx.x < TILE; c++)
      sum += weights[tap] * tile[threadIdx.x * C + c];
    __syncthreads();
  }
  if (threadIdx.x < TILE && first + threadIdx.x < PLACES)
    out[first + threadIdx.x] = sum;
}

#define CHECK(call)                           \
  do {                                        \
    int error = (int)(call);                  \
    if (error) {                              \
      printf("%s: error %d\n", #call, error); \
      return 1;                               \
    }                                         \
  } while (0)

using Encode = decltype(&cuTensorMapEncodeIm2col);

static int describe(Encode encode, CUtensorMap *map, void *memory, int lower) {
  cuuint64_t sizes[] = {C, W, H, N}, strides[] = {C * sizeof(float), W * strides[0], H * strides[1]};
  int first[] = {lower, lower}, last[] = {-1, -1};
  cuuint32_t steps[] = {1, 1, 1, 1};
  return encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 4, memory, sizes, strides, first, last, C, TILE, steps,
                CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
}

int main() {
  void *function = nullptr;
  cudaDriverEntryPointQueryResult found;
  CHECK(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeIm2col", &function, 12000, cudaEnableDefault, &found));
  std::vector<float> host(PLACES * C), weights(9), sums(PLACES);
  for (size_t i = 0; i < host.size(); i++)
    host[i] = i % 13;
  for (int tap = 0; tap < 9; tap++)
    weights[tap] = tap + 1;
  float *in, *taps, *out;
  CHECK(cudaMalloc(&in, host.size() * sizeof(float)));
  CHECK(cudaMalloc(&taps, 9 * sizeof(float)));
  CHECK(cudaMalloc(&out, PLACES * sizeof(float)));
  CHECK(cudaMemcpy(in, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(taps, weights.data(), 9 * sizeof(float), cudaMemcpyHostToDevice));
  CUtensorMap map;
  if (describe((Encode)function, &map, in, -129) != CUDA_ERROR_INVALID_VALUE)
    return 1;
  CHECK(describe((Encode)function, &map, in, -1));
  convolve<<<(PLACES + TILE - 1) / TILE, 32>>>(map, taps, out);
  CHECK(cudaMemcpy(sums.data(), out, PLACES * sizeof(float), cudaMemcpyDeviceToHost));
  for (int place = 0; place < PLACES; place++) {
    int n = place / (H * W), h = place / W % H, w = place % W;
    float sum = 0;
    for (int tap = 0; tap < 9; tap++)
      for (int c = 0; c < C; c++) {
        int y = h + tap / 3 - 1, x = w + tap % 3 - 1;
        if (y >= 0 && y < H && x >= 0 && x < W)
          sum += weights[tap] * host[((n * H + y) * W + x) * C + c];
      }
    if (sum != sums[place]) {
      printf("wrong at %d: %g, not %g\n", place, sums[place], sum);
      return 1;
    }
  }
  printf("right\n");
}
