// A reduction, and what programs use around one: variables of a module, pinned and managed memory,
// streams, events, a captured graph, occupancy, pitched copies. Checks its own results.
#include <cstdio>
#include <cstring>
#include <vector>

__constant__ float scale;
__device__ int blocks_done;
__managed__ int launches;

__global__ void reduce(const float *in, float *out, int n) {
  __shared__ float part[256];
  int t = threadIdx.x;
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x)
    sum += in[i] * scale;
  part[t] = sum;
  __syncthreads();
  for (int k = 128; k > 0; k /= 2) {
    if (t < k)
      part[t] += part[t + k];
    __syncthreads();
  }
  if (t == 0) {
    atomicAdd(out, part[0]);
    atomicAdd(&blocks_done, 1);
  }
}

__global__ void count() { launches++; }

extern __shared__ float large[];
__global__ void use_large(float *out) {
  large[50000 / 4] = 3;
  *out = large[50000 / 4];
}

#define CHECK(call)                                                             \
  do {                                                                          \
    cudaError_t error = (call);                                                 \
    if (error != cudaSuccess) {                                                 \
      printf("%s: %s %s\n", #call, cudaGetErrorName(error), cudaGetErrorString(error)); \
      return 1;                                                                 \
    }                                                                           \
  } while (0)
#define EXPECT(condition)                                \
  do {                                                   \
    if (!(condition)) {                                  \
      printf("line %d: %s\n", __LINE__, #condition);     \
      return 1;                                          \
    }                                                    \
  } while (0)

static int called;
static void CUDART_CB on_host(void *data) { called += *(int *)data; }

int main() {
  cudaDeviceProp about;
  CHECK(cudaGetDeviceProperties(&about, 0));
  EXPECT(about.major == 10 && about.multiProcessorCount == 148 && about.warpSize == 32);
  EXPECT(about.sharedMemPerBlockOptin == 232448 && about.maxThreadsPerBlock == 1024);

  const int n = 5000;
  float *pinned, *in, *out, factor = 0.5f, got;
  CHECK(cudaMallocHost(&pinned, n * sizeof(float)));
  for (int i = 0; i < n; i++)
    pinned[i] = i % 7;
  float expected = 0;
  for (int i = 0; i < n; i++)
    expected += pinned[i] * factor;
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaMallocAsync(&in, n * sizeof(float), stream));
  CHECK(cudaMalloc(&out, sizeof(float)));
  CHECK(cudaMemcpyToSymbol(scale, &factor, sizeof factor));
  cudaEvent_t start, end;
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaEventRecord(start, stream));
  CHECK(cudaMemcpyAsync(in, pinned, n * sizeof(float), cudaMemcpyHostToDevice, stream));
  CHECK(cudaMemsetAsync(out, 0, sizeof(float), stream));
  reduce<<<4, 256, 0, stream>>>(in, out, n);
  CHECK(cudaEventRecord(end, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaMemcpy(&got, out, sizeof got, cudaMemcpyDeviceToHost));
  EXPECT(got == expected);
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, start, end));
  EXPECT(milliseconds > 0);
  int done;
  CHECK(cudaMemcpyFromSymbol(&done, blocks_done, sizeof done));
  EXPECT(done == 4);

  // A kernel of the same module sees the same variables; managed ones are the host's, too.
  launches = 5;
  count<<<1, 1>>>();
  CHECK(cudaDeviceSynchronize());
  EXPECT(launches == 6);

  // More shared memory than 48 KiB has to be asked for.
  use_large<<<1, 1, 60000>>>(out);
  EXPECT(cudaGetLastError() == cudaErrorInvalidValue && cudaGetLastError() == cudaSuccess);
  CHECK(cudaFuncSetAttribute(use_large, cudaFuncAttributeMaxDynamicSharedMemorySize, 60000));
  use_large<<<1, 1, 60000>>>(out);
  CHECK(cudaGetLastError());

  // A captured graph does nothing until it is launched.
  int add = 10;
  cudaGraph_t graph;
  cudaGraphExec_t program;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaMemsetAsync(out, 0, sizeof(float), stream));
  reduce<<<4, 256, 0, stream>>>(in, out, n);
  CHECK(cudaMemcpyAsync(pinned, out, sizeof got, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaLaunchHostFunc(stream, on_host, &add));
  CHECK(cudaStreamEndCapture(stream, &graph));
  EXPECT(called == 0 && pinned[0] == 0);
  CHECK(cudaGraphInstantiate(&program, graph, 0));
  CHECK(cudaGraphLaunch(program, stream));
  CHECK(cudaGraphLaunch(program, stream));
  CHECK(cudaStreamSynchronize(stream));
  EXPECT(called == 20 && pinned[0] == expected);

  // Memory that is allocated and freed inside of a graph.
  float *inside;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  CHECK(cudaMallocAsync(&inside, sizeof(float), stream));
  CHECK(cudaMemsetAsync(inside, 0, sizeof(float), stream));
  reduce<<<4, 256, 0, stream>>>(in, inside, n);
  CHECK(cudaMemcpyAsync(pinned + 1, inside, sizeof got, cudaMemcpyDeviceToHost, stream));
  CHECK(cudaFreeAsync(inside, stream));
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&program, graph, 0));
  for (int round = 0; round < 2; round++) {
    pinned[1] = 0;
    CHECK(cudaGraphLaunch(program, stream));
    CHECK(cudaStreamSynchronize(stream));
    EXPECT(pinned[1] == expected);
    if (round == 0) // the next launch has it again
      CHECK(cudaFree(inside));
  }

  int blocks, least, best;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, reduce, 256, 0));
  EXPECT(blocks == 8);
  CHECK(cudaOccupancyMaxPotentialBlockSize(&least, &best, reduce, 0, 0));
  EXPECT(best == 1024 && least == 2 * 148);
  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, reduce));
  EXPECT(attributes.sharedSizeBytes == 1024 && attributes.maxThreadsPerBlock == 1024);

  // Rows with a pitch.
  float rows[3][10], back[3][10] = {};
  for (int i = 0; i < 30; i++)
    rows[i / 10][i % 10] = i;
  void *pitched;
  size_t pitch;
  CHECK(cudaMallocPitch(&pitched, &pitch, 40, 3));
  EXPECT(pitch >= 40 && pitch % 256 == 0);
  CHECK(cudaMemcpy2D(pitched, pitch, rows, 40, 40, 3, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy2D(back, 40, pitched, pitch, 40, 3, cudaMemcpyDeviceToHost));
  EXPECT(!memcmp(rows, back, sizeof rows));

  cudaPointerAttributes kind;
  CHECK(cudaPointerGetAttributes(&kind, in));
  EXPECT(kind.type == cudaMemoryTypeDevice);
  CHECK(cudaPointerGetAttributes(&kind, &add));
  EXPECT(kind.type == cudaMemoryTypeUnregistered);
  EXPECT(cudaMemcpy(in, pinned, n * sizeof(float) + 1, cudaMemcpyDefault) == cudaErrorInvalidValue);
  CHECK(cudaFreeAsync(in, stream));
  CHECK(cudaFree(out));
  CHECK(cudaFreeHost(pinned));
  printf("right\n");
}
