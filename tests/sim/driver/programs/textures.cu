// Textures and surfaces through the runtime: arrays, rows in linear memory, linear memory, layers, fractions, copies
// from and to arrays. Checks its own results.
#include <cstdint>
#include "check.h"
#include <cstring>

constexpr int W = 32, H = 8, LAYERS = 3;

__global__ void read_2d(cudaTextureObject_t texels, float *out) {
  int x = threadIdx.x, y = blockIdx.x;
  out[y * W + x] = tex2D<float>(texels, x + 0.5f, y + 0.5f);
}

__global__ void read_layer(cudaTextureObject_t texels, float *out, int layer) {
  int x = threadIdx.x, y = blockIdx.x;
  out[y * W + x] = tex2DLayered<float>(texels, (x + 0.5f) / W, (y + 0.5f) / H, layer);
}

__global__ void read_1d(cudaTextureObject_t texels, float *out) {
  int x = threadIdx.x + blockIdx.x * W;
  out[x] = tex1Dfetch<float>(texels, x);
}

__global__ void read_bytes(cudaTextureObject_t texels, float *out) {
  uchar4 v = tex2D<uchar4>(texels, threadIdx.x, blockIdx.x);
  out[blockIdx.x * W + threadIdx.x] = v.x + v.y + v.z + v.w;
}

__global__ void read_fractions(cudaTextureObject_t texels, float *out) {
  float4 v = tex2D<float4>(texels, threadIdx.x, blockIdx.x);
  out[blockIdx.x * W + threadIdx.x] = 255 * (v.x + v.y + v.z + v.w);
}

__global__ void mirror(cudaSurfaceObject_t from, cudaSurfaceObject_t to) {
  float v = surf2Dread<float>(from, threadIdx.x * sizeof(float), blockIdx.x);
  surf2Dwrite(v, to, (W - 1 - threadIdx.x) * sizeof(float), blockIdx.x);
}

static float source[LAYERS * H * W], back[H * W];
static float *device;

static int differs(const float *want, bool reversed = false) {
  if (cudaMemcpy(back, device, sizeof back, cudaMemcpyDeviceToHost))
    return 1;
  for (int k = 0; k < H * W; k++)
    if (want[reversed ? k / W * W + W - 1 - k % W : k] != back[k]) {
      printf("%d: %g\n", k, back[k]);
      return 1;
    }
  return 0;
}

static cudaTextureDesc plain(bool normalized = false, cudaTextureReadMode mode = cudaReadModeElementType) {
  cudaTextureDesc how = {};
  how.addressMode[0] = how.addressMode[1] = cudaAddressModeClamp;
  how.normalizedCoords = normalized;
  how.readMode = mode;
  return how;
}

static int memories() {
  cudaChannelFormatDesc one = cudaCreateChannelDesc<float>();
  cudaResourceDesc what = {};
  cudaTextureObject_t texels;
  cudaTextureDesc how = plain();
  void *rows;
  size_t pitch;
  CHECK(cudaMallocPitch(&rows, &pitch, W * sizeof(float), H));
  CHECK(cudaMemcpy2D(rows, pitch, source, W * sizeof(float), W * sizeof(float), H, cudaMemcpyHostToDevice));
  what.resType = cudaResourceTypePitch2D;
  what.res.pitch2D = {rows, one, W, H, pitch};
  CHECK(cudaCreateTextureObject(&texels, &what, &how, nullptr));
  read_2d<<<H, W>>>(texels, device);
  if (differs(source))
    return 1;
  CHECK(cudaDestroyTextureObject(texels));
  what.resType = cudaResourceTypeLinear;
  CHECK(cudaMemcpy(rows, source, sizeof back, cudaMemcpyHostToDevice));
  what.res.linear = {rows, one, sizeof back};
  CHECK(cudaCreateTextureObject(&texels, &what, &how, nullptr));
  read_1d<<<H, W>>>(texels, device);
  return differs(source);
}

static int layers() {
  cudaChannelFormatDesc one = cudaCreateChannelDesc<float>();
  cudaArray_t array;
  CHECK(cudaMalloc3DArray(&array, &one, make_cudaExtent(W, H, LAYERS), cudaArrayLayered));
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(source, W * sizeof(float), W, H);
  copy.dstArray = array;
  copy.extent = make_cudaExtent(W, H, LAYERS);
  copy.kind = cudaMemcpyHostToDevice;
  CHECK(cudaMemcpy3D(&copy));
  cudaResourceDesc what = {};
  what.resType = cudaResourceTypeArray;
  what.res.array.array = array;
  cudaTextureDesc how = plain(true);
  cudaTextureObject_t texels;
  CHECK(cudaCreateTextureObject(&texels, &what, &how, nullptr));
  read_layer<<<H, W>>>(texels, device, 2);
  return differs(source + 2 * H * W);
}

static int bytes() {
  static uint8_t four[H][W][4];
  float want[H * W] = {};
  for (int k = 0; k < H * W * 4; k++) {
    (&four[0][0][0])[k] = (uint8_t)(k * 7);
    want[k / 4] += (uint8_t)(k * 7);
  }
  cudaChannelFormatDesc format = cudaCreateChannelDesc<uchar4>();
  cudaArray_t array;
  CHECK(cudaMallocArray(&array, &format, W, H));
  CHECK(cudaMemcpy2DToArray(array, 0, 0, four, sizeof four[0], sizeof four[0], H, cudaMemcpyHostToDevice));
  cudaResourceDesc what = {};
  what.resType = cudaResourceTypeArray;
  what.res.array.array = array;
  for (int fractions = 0; fractions < 2; fractions++) {
    cudaTextureDesc how = plain(false, fractions ? cudaReadModeNormalizedFloat : cudaReadModeElementType);
    cudaTextureObject_t texels;
    CHECK(cudaCreateTextureObject(&texels, &what, &how, nullptr));
    if (fractions)
      read_fractions<<<H, W>>>(texels, device);
    else
      read_bytes<<<H, W>>>(texels, device);
    CHECK(cudaMemcpy(back, device, sizeof back, cudaMemcpyDeviceToHost));
    for (int k = 0; k < H * W; k++)
      if (back[k] - want[k] > 1e-3f || want[k] - back[k] > 1e-3f)
        return 1;
  }
  cudaTextureDesc linear = plain();
  linear.filterMode = cudaFilterModeLinear;
  cudaTextureObject_t texels;
  return cudaCreateTextureObject(&texels, &what, &linear, nullptr) == cudaSuccess;
}

static int surfaces() {
  cudaChannelFormatDesc one = cudaCreateChannelDesc<float>(), said;
  cudaArray_t arrays[2], closed;
  cudaSurfaceObject_t surface[2];
  cudaResourceDesc what = {};
  what.resType = cudaResourceTypeArray;
  for (int k = 0; k < 2; k++) {
    CHECK(cudaMallocArray(&arrays[k], &one, W, H, cudaArraySurfaceLoadStore));
    what.res.array.array = arrays[k];
    CHECK(cudaCreateSurfaceObject(&surface[k], &what));
  }
  CHECK(cudaMemcpyToArray(arrays[0], 0, 0, source, sizeof back, cudaMemcpyHostToDevice));
  mirror<<<H, W>>>(surface[0], surface[1]);
  CHECK(cudaMemcpyFromArray(device, arrays[1], 0, 0, sizeof back, cudaMemcpyDeviceToDevice));
  if (differs(source, true))
    return 1;
  CHECK(cudaGetChannelDesc(&said, arrays[1]));
  CHECK(cudaMallocArray(&closed, &one, W, H));
  what.res.array.array = closed;
  bool refused = cudaCreateSurfaceObject(&surface[0], &what) != cudaSuccess;
  CHECK(cudaDestroySurfaceObject(surface[1]));
  CHECK(cudaFreeArray(arrays[1]));
  return said.x != 32 || said.f != cudaChannelFormatKindFloat || !refused;
}

int main() {
  for (int k = 0; k < LAYERS * H * W; k++)
    source[k] = 0.5f * k;
  CHECK(cudaMalloc(&device, sizeof back));
  puts(memories() || layers() || bytes() || surfaces() ? "wrong" : "right");
}
