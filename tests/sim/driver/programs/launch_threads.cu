// What one thread says between <<< and >>> is not taken by another thread's launch.
#include <cstdio>
#include <thread>

extern "C" unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t smem, cudaStream_t stream);
extern "C" cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *smem, void *stream);

static unsigned taken() {
  dim3 grid, block;
  size_t smem;
  cudaStream_t stream;
  return __cudaPopCallConfiguration(&grid, &block, &smem, &stream) ? 0 : grid.x * 100 + block.x;
}

int main() {
  unsigned other = 0;
  __cudaPushCallConfiguration(2, 32, 0, 0);
  std::thread second([&] {
    __cudaPushCallConfiguration(3, 64, 0, 0);
  });
  second.join();
  unsigned own = taken();
  std::thread third([&] { other = taken(); });
  third.join();
  printf("%s\n", own == 232 && other == 0 ? "right" : "wrong");
}
