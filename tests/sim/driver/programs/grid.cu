// A cooperative launch: all CTAs of the grid meet twice. Checks its own result.
#include <cooperative_groups.h>
#include <cstdio>

namespace groups = cooperative_groups;

__global__ void sum(int *values, int count, int *result) {
  auto grid = groups::this_grid();
  int i = grid.thread_rank();
  if (i < count)
    values[i] *= 2;
  grid.sync();
  if (i == 0) {
    *result = 0;
    for (int k = 0; k < count; k++)
      *result += values[k];
  }
  grid.sync();
  if (i == count - 1)
    *result += 1;
}

int main() {
  int count = 1000, *values, *result;
  cudaMallocManaged(&values, count * sizeof(int));
  cudaMallocManaged(&result, sizeof(int));
  for (int i = 0; i < count; i++)
    values[i] = i;
  void *arguments[] = {&values, &count, &result};
  cudaError_t error = cudaLaunchCooperativeKernel((void *)sum, 8, 128, arguments, 0, 0);
  cudaDeviceSynchronize();
  if (error || *result != 999001) {
    printf("%s, %d\n", cudaGetErrorString(error), *result);
    return 1;
  }
  // More CTAs than the device holds at once can never meet.
  error = cudaLaunchCooperativeKernel((void *)sum, 5000, 1024, arguments, 0, 0);
  if (error != cudaErrorCooperativeLaunchTooLarge) {
    printf("%s\n", cudaGetErrorString(error));
    return 1;
  }
  printf("right\n");
}
