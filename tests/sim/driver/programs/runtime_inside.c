/* A program with a CUDA runtime linked into it, as nvcc does it, without nvcc: the functions of that
 * runtime fail, the fat binary is made by hand. Checks its own result. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  unsigned x, y, z;
} dim3;

/* Long enough for a jump; never executed when the stand-in has replaced them. */
#define RUNTIME(name, ...)                             \
  __attribute__((noinline)) int name(__VA_ARGS__) {    \
    printf("%s is the one inside the program\n", #name); \
    return 35;                                         \
  }
RUNTIME(cudaMalloc, void **pointer, size_t bytes)
RUNTIME(cudaMemcpy, void *to, const void *from, size_t bytes, int kind)
RUNTIME(cudaGetLastError, void)
RUNTIME(cudaLaunchKernel, const void *function, dim3 grid, dim3 block, void **arguments, size_t smem, void *stream)
RUNTIME(cudaMemcpyToSymbol, const void *symbol, const void *from, size_t bytes, size_t offset, int kind)
RUNTIME(cudaMemcpyFromSymbol, void *to, const void *symbol, size_t bytes, size_t offset, int kind)
RUNTIME(__cudaRegisterFunction, void **image, const void *stub, char *device, const char *name, int limit, void *a,
        void *b, void *c, void *d, int *e)
RUNTIME(__cudaRegisterVar, void **image, void *shadow, char *device, const char *name, int external, size_t bytes,
        int constant, int global)
__attribute__((noinline)) void **__cudaRegisterFatBinary(void *wrapper) {
  printf("no stand-in\n");
  return wrapper;
}
__attribute__((noinline)) const char *cudaGetErrorString(int code) {
  printf("no stand-in for %d\n", code);
  return "";
}

static const char text[] =
    ".version 8.7\n.target sm_100a\n.address_size 64\n.const .u32 factor;\n.global .u32 blocks;\n"
    ".visible .entry scale(.param .u64 p) {\n"
    " .reg .u32 %r<8>; .reg .u64 %d<4>;\n"
    " ld.param.u64 %d0, [p]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %tid.x;\n"
    " mad.lo.u32 %r3, %r1, 32, %r2; mul.wide.u32 %d1, %r3, 4; add.u64 %d0, %d0, %d1;\n"
    " ld.const.u32 %r4, [factor]; ld.global.u32 %r5, [%d0]; mul.lo.u32 %r5, %r5, %r4;\n"
    " st.global.u32 [%d0], %r5; atom.global.add.u32 %r6, [blocks], 1; ret; }\n";

static struct {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;
  struct {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t payload_bytes;
    uint32_t compressed, options, ptx_version, architecture, a, b;
    uint64_t flags, c, size, d, e;
  } entry;
  char text[sizeof text];
} image = {0xba55ed50, 1, 16, 80 + sizeof text, {1, 0x101, 80, sizeof text, 0, 64, 0, 100, 0, 0, 0x11, 0, 0, 0, 0}, ""};

static struct {
  int magic, version;
  const void *data;
  void *other;
} wrapper = {0x466243b1, 1, &image, NULL};

static uint32_t factor, blocks;

static void scale_stub(void) {}

/* nvcc's code registers before main, too. */
__attribute__((constructor)) static void registered(void) {
  memcpy(image.text, text, sizeof text);
  void **handle = __cudaRegisterFatBinary(&wrapper);
  __cudaRegisterFunction(handle, scale_stub, "scale", "scale", -1, NULL, NULL, NULL, NULL, NULL);
  __cudaRegisterVar(handle, &factor, "factor", "factor", 0, 4, 1, 0);
  __cudaRegisterVar(handle, &blocks, "blocks", "blocks", 0, 4, 0, 0);
}

#define OK(call)                                                          \
  do {                                                                    \
    int error = (call);                                                   \
    if (error) {                                                          \
      printf("%s: %s\n", #call, cudaGetErrorString(error));               \
      return 1;                                                           \
    }                                                                     \
  } while (0)

int main(void) {
  uint32_t host[64], three = 3, threads;
  void *device;
  for (unsigned i = 0; i < 64; i++)
    host[i] = i;
  OK(cudaMalloc(&device, sizeof host));
  OK(cudaMemcpy(device, host, sizeof host, 1));
  OK(cudaMemcpyToSymbol(&factor, &three, 4, 0, 1));
  void *arguments[] = {&device};
  OK(cudaLaunchKernel((void *)scale_stub, (dim3){2, 1, 1}, (dim3){32, 1, 1}, arguments, 0, NULL));
  OK(cudaGetLastError());
  OK(cudaMemcpy(host, device, sizeof host, 2));
  OK(cudaMemcpyFromSymbol(&threads, &blocks, 4, 0, 2));
  for (unsigned i = 0; i < 64; i++)
    if (host[i] != 3 * i)
      return printf("wrong at %u: %u\n", i, host[i]), 1;
  if (threads != 64)
    return printf("%u threads\n", threads), 1;
  if (cudaLaunchKernel((void *)main, (dim3){1, 1, 1}, (dim3){1, 1, 1}, arguments, 0, NULL) != 98)
    return printf("a launch of no kernel\n"), 1;
  if (cudaGetLastError() != 98 || cudaGetLastError() != 0)
    return printf("the last error\n"), 1;
  printf("right: %s\n", cudaGetErrorString(2));
  return 0;
}
