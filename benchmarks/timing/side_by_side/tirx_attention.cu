// Forward attention by TIRx-kernels' FlashAttention-4, on random numbers.
//
//   tirx_attention LENGTH HEADS CTAS [FOLDER]
//
// q, k, v and o are (LENGTH, HEADS, 128) of fp16; with FOLDER they are written there. Of the program:
// -D SOURCE, the file that TIRx wrote for one length, number of heads and mask. A tensor map has
// rows of 64 columns, boxes of 128 tokens and both halves of a head.
#include SOURCE

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <cuda_runtime.h>

static const int DIM = 128, ROWS = 128, THREADS = 512, SHARED = 232448;

static CUtensorMap map_of(void *place, int length, int heads) {
  CUtensorMap map;
  cuuint64_t sizes[3] = {DIM / 2, (cuuint64_t)length, (cuuint64_t)heads * 2};
  cuuint64_t strides[2] = {(cuuint64_t)heads * DIM * 2, DIM};
  cuuint32_t box[3] = {DIM / 2, ROWS, 2}, each[3] = {1, 1, 1};
  if (cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, place, sizes, strides, box, each,
                             CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                             CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)) {
    exit(3);
  }
  return map;
}

static void kept(const char *folder, char name, const std::vector<half> &values) {
  FILE *file = fopen((std::string(folder) + "/" + name).c_str(), "wb");
  if (!file || fwrite(values.data(), sizeof(half), values.size(), file) != values.size())
    exit(4);
  fclose(file);
}

int main(int count, char **words) {
  const int length = atoi(words[1]), heads = atoi(words[2]), ctas = atoi(words[3]);
  const char *folder = count > 4 ? words[4] : nullptr;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<half> some(1 << 16), values((size_t)length * heads * DIM);
  for (half &value : some)
    value = __float2half(normal(random));
  void *tensors[4]; // q, k, v, o
  for (int i = 0; i < 4; i++) {
    for (half &value : values)
      value = i == 3 ? __float2half(0.f) : some[random() % some.size()];
    if (cudaMalloc(&tensors[i], values.size() * sizeof(half)))
      return 1;
    cudaMemcpy(tensors[i], values.data(), values.size() * sizeof(half), cudaMemcpyHostToDevice);
    if (folder && i < 3)
      kept(folder, "qkv"[i], values);
  }
  CUtensorMap q = map_of(tensors[0], length, heads), k = map_of(tensors[1], length, heads);
  CUtensorMap v = map_of(tensors[2], length, heads), o = map_of(tensors[3], length, heads);
  cudaFuncSetAttribute(flash_attention4_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED);
  flash_attention4_kernel<<<ctas, THREADS, SHARED>>>(k, k, o, q, q, v, v);
  if (cudaGetLastError() || cudaDeviceSynchronize())
    return 2;
  cudaMemcpy(values.data(), tensors[3], values.size() * sizeof(half), cudaMemcpyDeviceToHost);
  if (folder)
    kept(folder, 'o', values);
  return 0;
}
