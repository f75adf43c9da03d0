// A product of matrices by nvcuda::wmma, and 128-bit integers. Checks its own results.
#include <cstdio>
#include <mma.h>
#include <vector>

using namespace nvcuda;

constexpr int SIDE = 32, DEEP = 48, TILE = 16;

__global__ void product(const half *a, const half *b, float *out) {
  wmma::fragment<wmma::matrix_a, TILE, TILE, TILE, half, wmma::row_major> left;
  wmma::fragment<wmma::matrix_b, TILE, TILE, TILE, half, wmma::col_major> right;
  wmma::fragment<wmma::accumulator, TILE, TILE, TILE, float> sum;
  wmma::fill_fragment(sum, 1.0f);
  int row = blockIdx.y * TILE, column = blockIdx.x * TILE;
  for (int k = 0; k < DEEP; k += TILE) {
    wmma::load_matrix_sync(left, a + row * DEEP + k, DEEP);
    wmma::load_matrix_sync(right, b + column * DEEP + k, DEEP);
    wmma::mma_sync(sum, left, right, sum);
  }
  for (int i = 0; i < sum.num_elements; i++)
    sum.x[i] *= 2;
  wmma::store_matrix_sync(out + row * SIDE + column, sum, SIDE, wmma::mem_row_major);
}

__global__ void wide(const unsigned long long *in, unsigned __int128 *out) {
  unsigned __int128 a = (unsigned __int128)in[0] << 64 | in[1], b = (unsigned __int128)in[2] << 64 | in[3];
  out[0] = a + b;
  out[1] = a - b;
  out[2] = a * b;
}

#define CHECK(call)                           \
  do {                                        \
    int error = (int)(call);                  \
    if (error) {                              \
      printf("%s: error %d\n", #call, error); \
      return 1;                               \
    }                                         \
  } while (0)

int main() {
  std::vector<half> a(SIDE * DEEP), b(SIDE * DEEP);
  for (int i = 0; i < SIDE * DEEP; i++) {
    a[i] = __float2half(i % 7 - 3);
    b[i] = __float2half(i % 5 - 2);
  }
  half *left, *right;
  float *sums;
  CHECK(cudaMalloc(&left, a.size() * sizeof(half)));
  CHECK(cudaMalloc(&right, b.size() * sizeof(half)));
  CHECK(cudaMalloc(&sums, SIDE * SIDE * sizeof(float)));
  CHECK(cudaMemcpy(left, a.data(), a.size() * sizeof(half), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(right, b.data(), b.size() * sizeof(half), cudaMemcpyHostToDevice));
  product<<<dim3(SIDE / TILE, SIDE / TILE), 32>>>(left, right, sums);
  std::vector<float> found(SIDE * SIDE);
  CHECK(cudaMemcpy(found.data(), sums, found.size() * sizeof(float), cudaMemcpyDeviceToHost));
  for (int i = 0; i < SIDE; i++)
    for (int j = 0; j < SIDE; j++) {
      float sum = 1;
      for (int k = 0; k < DEEP; k++)
        sum += __half2float(a[i * DEEP + k]) * __half2float(b[j * DEEP + k]);
      if (found[i * SIDE + j] != 2 * sum) {
        printf("wrong at %d, %d: %g, not %g\n", i, j, found[i * SIDE + j], 2 * sum);
        return 1;
      }
    }
  unsigned long long words[] = {3, ~0ull - 4, 1, 17}, *in;
  unsigned __int128 x = (unsigned __int128)words[0] << 64 | words[1], y = (unsigned __int128)words[2] << 64 | words[3];
  unsigned __int128 results[3], *out;
  CHECK(cudaMalloc(&in, sizeof words));
  CHECK(cudaMalloc(&out, sizeof results));
  CHECK(cudaMemcpy(in, words, sizeof words, cudaMemcpyHostToDevice));
  wide<<<1, 1>>>(in, out);
  CHECK(cudaMemcpy(results, out, sizeof results, cudaMemcpyDeviceToHost));
  bool right_too = results[0] == x + y && results[1] == x - y && results[2] == x * y;
  printf("%s\n", right_too ? "right" : "wrong 128-bit integers");
}
