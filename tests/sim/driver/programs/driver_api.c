/* What programs do with the driver API, by names from its library; checks its own results. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef uint64_t u64;
typedef int (*Function)();

static void *library;

static Function find(const char *name) {
  Function found = (Function)dlsym(library, name);
  if (!found)
    printf("%s is missing\n", name);
  return found;
}

#define CU(name) (find(#name))
#define ANSWERS(code, call)                                 \
  do {                                                      \
    int answer = (call);                                    \
    if (answer != (code)) {                                 \
      printf("line %d: %s: %d\n", __LINE__, #call, answer); \
      return 1;                                             \
    }                                                       \
  } while (0)
#define OK(call) ANSWERS(0, call)
#define EXPECT(condition)                            \
  do {                                               \
    if (!(condition)) {                              \
      printf("line %d: %s\n", __LINE__, #condition); \
      return 1;                                      \
    }                                                \
  } while (0)

/* out[i] = in[i] * 2 + start, and the threads are counted; `rank` writes its rank in the cluster;
 * `beyond` writes past its buffer. */
static const char text[] = ".version 8.7\n.target sm_100a\n.address_size 64\n"
                           ".global .u32 seen;\n.global .u32 start = 7;\n"
                           ".visible .entry twice(.param .u64 p, .param .u32 n) {\n"
                           " .reg .u32 %r<8>; .reg .u64 %d<4>; .reg .pred %p;\n"
                           " ld.param.u64 %d0, [p]; ld.param.u32 %r0, [n]; mov.u32 %r1, %tid.x;\n"
                           " setp.ge.u32 %p, %r1, %r0; @%p ret;\n"
                           " mul.wide.u32 %d1, %r1, 4; add.u64 %d0, %d0, %d1;\n"
                           " ld.global.u32 %r2, [%d0]; ld.global.u32 %r3, [start];\n"
                           " mad.lo.u32 %r2, %r2, 2, %r3; st.global.u32 [%d0], %r2;\n"
                           " atom.global.add.u32 %r4, [seen], 1; ret; }\n"
                           ".visible .entry rank(.param .u64 p) {\n"
                           " .reg .u32 %r<4>; .reg .u64 %d<4>;\n"
                           " ld.param.u64 %d0, [p]; mov.u32 %r0, %cluster_ctarank; mov.u32 %r1, %ctaid.x;\n"
                           " mul.wide.u32 %d1, %r1, 4; add.u64 %d0, %d0, %d1; st.global.u32 [%d0], %r0; ret; }\n"
                           ".visible .entry beyond(.param .u64 p) {\n"
                           " .reg .u32 %r<4>; .reg .u64 %d<4>;\n"
                           " ld.param.u64 %d0, [p]; mov.u32 %r0, 1; st.global.u32 [%d0+128], %r0; ret; }\n";

static u64 memory;
static void *module, *twice;
static uint32_t host[32];

static int begin(void) {
  int value, major, minor;
  char name[100];
  void *context, *current;
  OK(CU(cuInit)(0));
  OK(CU(cuDriverGetVersion)(&value));
  EXPECT(value >= 13000);
  OK(CU(cuDeviceGetCount)(&value));
  EXPECT(value == 1);
  ANSWERS(101, CU(cuDeviceGet)(&value, 1));
  OK(CU(cuDeviceGetName)(name, 100, 0));
  EXPECT(strstr(name, "B200"));
  OK(CU(cuDeviceGetAttribute)(&major, 75, 0));
  OK(CU(cuDeviceGetAttribute)(&minor, 76, 0));
  OK(CU(cuDeviceGetAttribute)(&value, 16, 0));
  EXPECT(major == 10 && minor == 0 && value == 148);
  OK(CU(cuCtxGetCurrent)(&current));
  EXPECT(!current);
  OK(CU(cuDevicePrimaryCtxRetain)(&context, 0));
  OK(CU(cuCtxPushCurrent_v2)(context));
  OK(CU(cuCtxGetCurrent)(&current));
  EXPECT(current == context);
  const char *words;
  OK(CU(cuGetErrorName)(700, &words));
  EXPECT(!strcmp(words, "CUDA_ERROR_ILLEGAL_ADDRESS"));
  OK(CU(cuGetErrorString)(0, &words));
  EXPECT(!strcmp(words, "no error"));
  ANSWERS(1, CU(cuGetErrorName)(12345, &words));
  return 0;
}

static int entry_points(void) {
  void *function;
  int status;
  OK(CU(cuGetProcAddress_v2)("cuMemAlloc", &function, 12000, (u64)0, &status));
  EXPECT(status == 0 && function == (void *)CU(cuMemAlloc_v2));
  OK(CU(cuGetProcAddress_v2)("cuCtxCreate", &function, 11040, (u64)0, &status));
  EXPECT(function == (void *)CU(cuCtxCreate_v3));
  OK(CU(cuGetProcAddress_v2)("cuStreamSynchronize", &function, 12000, (u64)2, &status));
  EXPECT(function == (void *)CU(cuStreamSynchronize_ptsz));
  ANSWERS(500, CU(cuGetProcAddress_v2)("cuNothing", &function, 12000, (u64)0, &status));
  EXPECT(status == 1 && !function);
  ANSWERS(801, CU(cuMipmappedArrayCreate)(&function, NULL)); /* named on standard error */
  return 0;
}

static int run_once(void) {
  uint32_t count = 20, seen;
  u64 where;
  size_t size;
  for (int i = 0; i < 32; i++)
    host[i] = i;
  OK(CU(cuModuleLoadData)(&module, text));
  OK(CU(cuModuleGetFunction)(&twice, module, "twice"));
  ANSWERS(500, CU(cuModuleGetFunction)(&twice, module, "thrice"));
  OK(CU(cuMemAlloc_v2)(&memory, sizeof host));
  OK(CU(cuMemcpyHtoD_v2)(memory, host, sizeof host));
  void *arguments[] = {&memory, &count};
  OK(CU(cuLaunchKernel)(twice, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
  OK(CU(cuCtxSynchronize)());
  OK(CU(cuMemcpyDtoH_v2)(host, memory, sizeof host));
  for (int i = 0; i < 32; i++)
    EXPECT(host[i] == (uint32_t)(i < 20 ? 2 * i + 7 : i));
  OK(CU(cuModuleGetGlobal_v2)(&where, &size, module, "seen"));
  OK(CU(cuMemcpyDtoH_v2)(&seen, where, size));
  EXPECT(size == 4 && seen == 20);

  /* The arguments as one buffer; the variables of a second module are its own. */
  struct {
    u64 p;
    uint32_t n;
  } buffer = {memory, 32};

  size_t bytes = sizeof buffer;
  void *extra[] = {(void *)1, &buffer, (void *)2, &bytes, NULL};
  void *library_, *kernel;
  OK(CU(cuLibraryLoadData)(&library_, text, NULL, NULL, 0, NULL, NULL, 0));
  OK(CU(cuLibraryGetKernel)(&kernel, library_, "twice"));
  OK(CU(cuMemsetD32_v2)(memory, 5, (size_t)32));
  OK(CU(cuLaunchKernel)(kernel, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, extra));
  OK(CU(cuMemcpyDtoH_v2)(host, memory, sizeof host));
  EXPECT(host[0] == 17 && host[31] == 17);
  OK(CU(cuMemcpyDtoH_v2)(&seen, where, size));
  EXPECT(seen == 20);
  OK(CU(cuLibraryGetGlobal)(&where, &size, library_, "seen"));
  OK(CU(cuMemcpyDtoH_v2)(&seen, where, size));
  EXPECT(seen == 32);
  OK(CU(cuLibraryUnload)(library_));
  return 0;
}

static int clusters(void) {
  void *rank;

  struct {
    uint32_t id, padding;
    uint32_t value[16];
  } attribute = {4, 0, {4, 1, 1}};

  struct {
    uint32_t grid[3], block[3], smem, padding;
    void *stream, *attributes;
    uint32_t count;
  } config = {{8, 1, 1}, {32, 1, 1}, 0, 0, NULL, &attribute, 1};

  void *arguments[] = {&memory};
  int number;
  OK(CU(cuModuleGetFunction)(&rank, module, "rank"));
  OK(CU(cuLaunchKernelEx)(&config, rank, arguments, NULL));
  OK(CU(cuMemcpyDtoH_v2)(host, memory, sizeof host));
  for (uint32_t i = 0; i < 8; i++)
    EXPECT(host[i] == i % 4);
  OK(CU(cuOccupancyMaxActiveClusters)(&number, rank, &config));
  EXPECT(number == 32 * 148 / 4);
  attribute.value[0] = 16; /* more than 8 CTAs have to be allowed */
  config.grid[0] = 16;
  ANSWERS(1, CU(cuLaunchKernelEx)(&config, rank, arguments, NULL));
  OK(CU(cuFuncSetAttribute)(rank, 14, 1));
  OK(CU(cuLaunchKernelEx)(&config, rank, arguments, NULL));
  ANSWERS(1, CU(cuFuncSetAttribute)(rank, 8, 300000));
  ANSWERS(1, CU(cuLaunchKernel)(rank, 1, 1, 1, 2000, 1, 1, 0, NULL, arguments, NULL));
  OK(CU(cuFuncGetAttribute)(&number, 0, rank));
  EXPECT(number == 1024);
  return 0;
}

static int memories(void) {
  u64 managed, reserved, device, pool, pitch, rows;
  uint32_t *pinned, values[4] = {1, 2, 3, 4}, back[4] = {0};
  void *physical;
  size_t granularity;
  OK(CU(cuMemAllocManaged)(&managed, (size_t)16, 1));
  *(uint32_t *)managed = 9; /* the host may touch it */
  OK(CU(cuMemcpyDtoH_v2)(back, managed, (size_t)4));
  EXPECT(back[0] == 9);
  OK(CU(cuMemHostAlloc)(&pinned, sizeof values, 0));
  memcpy(pinned, values, sizeof values);
  OK(CU(cuMemHostGetDevicePointer_v2)(&device, pinned, 0));
  EXPECT(device == (u64)pinned);
  OK(CU(cuDeviceGetDefaultMemPool)(&pool, 0));
  OK(CU(cuMemAllocFromPoolAsync)(&device, sizeof values, pool, NULL));
  OK(CU(cuMemcpyAsync)(device, pinned, sizeof values, NULL));
  OK(CU(cuMemcpyDtoH_v2)(back, device, sizeof back));
  EXPECT(!memcmp(values, back, sizeof back));
  ANSWERS(1, CU(cuMemcpyDtoH_v2)(back, device, sizeof back + 1));
  ANSWERS(1, CU(cuMemsetD8_v2)(device + 8, 1, (size_t)16));
  OK(CU(cuMemFreeAsync)(device, NULL));
  ANSWERS(1, CU(cuMemFree_v2)(device));

  /* Registered host memory has a copy, which is brought up to date around launches. */
  uint32_t count = 4;
  OK(CU(cuMemHostRegister_v2)(values, sizeof values, 0));
  OK(CU(cuMemHostGetDevicePointer_v2)(&device, values, 0));
  void *arguments[] = {&device, &count};
  OK(CU(cuLaunchKernel)(twice, 1, 1, 1, 32, 1, 1, 0, NULL, arguments, NULL));
  EXPECT(values[0] == 9 && values[3] == 15);
  OK(CU(cuMemHostUnregister)(values));

  /* Addresses and memory apart. */
  uint64_t properties[4] = {1, 1, 0, 1 /* compressible */}, given[4] = {0};
  OK(CU(cuMemGetAllocationGranularity)(&granularity, properties, 0));
  OK(CU(cuMemAddressReserve)(&reserved, 2 * granularity, (size_t)0, (u64)0, (u64)0));
  ANSWERS(1, CU(cuMemsetD8_v2)(reserved, 1, (size_t)16));
  OK(CU(cuMemCreate)(&physical, granularity, properties, (u64)0));
  OK(CU(cuMemGetAllocationPropertiesFromHandle)(given, physical));
  EXPECT(!memcmp(properties, given, sizeof given));
  OK(CU(cuMemMap)(reserved, granularity, (size_t)0, physical, (u64)0));
  OK(CU(cuMemsetD8_v2)(reserved, 1, granularity));
  ANSWERS(1, CU(cuMemsetD8_v2)(reserved, 1, granularity + 1));
  OK(CU(cuMemUnmap)(reserved, granularity));
  OK(CU(cuMemRelease)(physical));
  OK(CU(cuMemAddressFree)(reserved, 2 * granularity));

  /* Rows. */
  OK(CU(cuMemAllocPitch_v2)(&rows, &pitch, (size_t)8, (size_t)2, 4));
  OK(CU(cuMemsetD2D32_v2)(rows, pitch, 7, (size_t)2, (size_t)2));

  struct {
    size_t x, y;
    uint32_t kind;
    void *host;
    u64 device;
    void *array;
    size_t pitch;
  } sides[2] = {{0, 1, 2, NULL, rows, NULL, pitch}, {4, 0, 1, back, 0, NULL, 8}};

  struct {
    char sides[sizeof sides];
    size_t width, height;
  } copy = {.width = 4, .height = 1};

  memcpy(copy.sides, sides, sizeof sides);
  memset(back, 0, sizeof back);
  OK(CU(cuMemcpy2D_v2)(&copy));
  EXPECT(back[0] == 0 && back[1] == 7 && back[2] == 0);
  return 0;
}

static void called(void *data) {
  ++*(int *)data;
}

static int streams(void) {
  void *stream, *events[2], *graph, *program, *node, *second;
  uint32_t count = 32, status;
  int calls = 0;
  float milliseconds = -1;
  void *arguments[] = {&memory, &count};
  OK(CU(cuStreamCreate)(&stream, 1));
  OK(CU(cuEventCreate)(&events[0], 0));
  OK(CU(cuEventCreate)(&events[1], 0));
  OK(CU(cuEventRecord)(events[0], stream));
  OK(CU(cuMemsetD32Async)(memory, 1, (size_t)32, stream));
  OK(CU(cuLaunchHostFunc)(stream, called, &calls));
  OK(CU(cuEventRecord)(events[1], stream));
  OK(CU(cuStreamSynchronize)(stream));
  EXPECT(calls == 1);
  OK(CU(cuEventElapsedTime)(&milliseconds, events[0], events[1]));
  EXPECT(milliseconds > 0);

  OK(CU(cuStreamBeginCapture_v2)(stream, 0));
  OK(CU(cuLaunchKernel)(twice, 1, 1, 1, 32, 1, 1, 0, stream, arguments, NULL));
  OK(CU(cuMemcpyDtoHAsync_v2)(host, memory, sizeof host, stream));
  OK(CU(cuStreamIsCapturing)(stream, &status));
  EXPECT(status == 1 && host[0] != 9);
  OK(CU(cuStreamEndCapture)(stream, &graph));
  OK(CU(cuGraphInstantiateWithFlags)(&program, graph, (u64)0));
  OK(CU(cuGraphLaunch)(program, stream));
  EXPECT(host[0] == 9);
  OK(CU(cuGraphLaunch)(program, stream));
  EXPECT(host[0] == 25);

  /* The order is that of the edges, not that of the additions. */
  struct {
    void *function;
    uint32_t extents[7], padding;
    void *arguments, *extra, *kernel, *context;
  } launch = {twice, {1, 1, 1, 32, 1, 1, 0}, 0, arguments, NULL, NULL, NULL};

  struct {
    u64 target, pitch;
    uint32_t value, size;
    size_t width, height;
  } fill = {memory, 0, 3, 4, 32, 1};

  OK(CU(cuGraphCreate)(&graph, 0));
  OK(CU(cuGraphAddKernelNode_v2)(&node, graph, NULL, (size_t)0, &launch));
  OK(CU(cuGraphAddMemsetNode)(&second, graph, NULL, (size_t)0, &fill, NULL));
  OK(CU(cuGraphAddDependencies)(graph, &second, &node, (size_t)1));
  OK(CU(cuGraphInstantiateWithFlags)(&program, graph, (u64)0));
  OK(CU(cuGraphLaunch)(program, stream));
  OK(CU(cuMemcpyDtoH_v2)(host, memory, sizeof host));
  EXPECT(host[0] == 13);

  /* Other work for an instantiated graph. */
  void *launch_graph = graph;
  fill.value = 4;
  OK(CU(cuGraphExecMemsetNodeSetParams)(program, second, &fill, NULL));
  OK(CU(cuGraphLaunch)(program, stream));
  OK(CU(cuMemcpyDtoH_v2)(host, memory, sizeof host));
  EXPECT(host[0] == 15);
  count = 0;
  OK(CU(cuGraphExecKernelNodeSetParams_v2)(program, node, &launch));
  OK(CU(cuGraphLaunch)(program, stream));
  OK(CU(cuMemcpyDtoH_v2)(host, memory, sizeof host));
  EXPECT(host[0] == 4);
  OK(CU(cuGraphDestroyNode)(second));
  OK(CU(cuGraphExecUpdate_v2)(program, launch_graph, &status));
  OK(CU(cuMemsetD32_v2)(memory, 6, (size_t)32));
  OK(CU(cuGraphLaunch)(program, stream));
  OK(CU(cuMemcpyDtoH_v2)(host, memory, sizeof host));
  EXPECT(host[0] == 19);

  /* Memory of graphs: theirs from the first launch on, until it is freed and they are trimmed. */
  struct {
    uint32_t type, handles, location, device;
    u64 unused[9];
    void *access;
    size_t n_access, bytes;
    u64 address;
  } room = {.type = 1, .location = 1, .bytes = 4096};

  u64 held = 1, none = 0;
  _Static_assert(sizeof room == 120, "CUDA_MEM_ALLOC_NODE_PARAMS");
  for (int freed = 0; freed < 2; freed++) {
    OK(CU(cuGraphCreate)(&graph, 0));
    OK(CU(cuGraphAddMemAllocNode)(&node, graph, NULL, (size_t)0, &room));
    if (freed)
      OK(CU(cuGraphAddMemFreeNode)(&second, graph, &node, (size_t)1, room.address));
    OK(CU(cuGraphInstantiateWithFlags)(&program, graph, (u64)0));
    OK(CU(cuDeviceGetGraphMemAttribute)(0, 0, &held));
    EXPECT(held == 0);
    OK(CU(cuGraphLaunch)(program, stream));
    if (freed)
      OK(CU(cuGraphLaunch)(program, stream));
    OK(CU(cuDeviceGetGraphMemAttribute)(0, 0, &held));
    EXPECT(held == 4096);
    if (!freed) {
      OK(CU(cuDeviceGraphMemTrim)(0));
      OK(CU(cuDeviceGetGraphMemAttribute)(0, 2, &held));
      EXPECT(held == 4096);
      OK(CU(cuMemFree_v2)(room.address));
    }
    OK(CU(cuDeviceGraphMemTrim)(0));
    OK(CU(cuDeviceGetGraphMemAttribute)(0, 2, &held));
    EXPECT(held == 0);
  }
  OK(CU(cuDeviceGetGraphMemAttribute)(0, 1, &held));
  EXPECT(held == 4096);
  ANSWERS(1, CU(cuDeviceSetGraphMemAttribute)(0, 1, &held));
  OK(CU(cuDeviceSetGraphMemAttribute)(0, 3, &none));
  OK(CU(cuDeviceGetGraphMemAttribute)(0, 3, &held));
  EXPECT(held == 0);

  /* Values in memory. */
  OK(CU(cuStreamWriteValue32_v2)(stream, memory, 8, 0));
  OK(CU(cuStreamWaitValue32_v2)(stream, memory, 7, 0)); /* at least */
  OK(CU(cuStreamWaitValue32_v2)(stream, memory, 8, 1));
  OK(CU(cuStreamWaitValue32_v2)(stream, memory, 12, 2)); /* a common bit */
  OK(CU(cuStreamWaitValue32_v2)(stream, memory, 8, 3));  /* a bit that neither has */
  ANSWERS(702, CU(cuStreamWaitValue32_v2)(stream, memory, 9, 0));
  ANSWERS(702, CU(cuStreamWaitValue32_v2)(stream, memory, ~8, 3));
  OK(CU(cuStreamDestroy_v2)(stream));
  ANSWERS(400, CU(cuStreamSynchronize)(stream));
  return 0;
}

static int linked(void) {
  static const char other[] = ".version 8.7\n.target sm_100a\n.address_size 64\n.visible .entry other() { ret; }";
  void *state, *image, *again, *function;
  size_t size;
  OK(CU(cuLinkCreate_v2)(0, NULL, NULL, &state));
  OK(CU(cuLinkAddData_v2)(state, 1, text, sizeof text, "text", 0, NULL, NULL));
  OK(CU(cuLinkAddData_v2)(state, 1, text, sizeof text, "text", 0, NULL, NULL));
  ANSWERS(218, CU(cuLinkComplete)(state, &image, &size)); /* everything is defined twice */
  OK(CU(cuLinkDestroy)(state));
  OK(CU(cuLinkCreate_v2)(0, NULL, NULL, &state));
  OK(CU(cuLinkAddData_v2)(state, 1, text, sizeof text, "text", 0, NULL, NULL));
  OK(CU(cuLinkAddData_v2)(state, 1, other, sizeof other, "other", 0, NULL, NULL));
  ANSWERS(209, CU(cuLinkAddData_v2)(state, 4, other, sizeof other, "library", 0, NULL, NULL));
  ANSWERS(301, CU(cuLinkAddFile_v2)(state, 4, "/nowhere/libcudadevrt.a", 0, NULL, NULL));
  OK(CU(cuLinkComplete)(state, &image, &size));
  OK(CU(cuModuleLoadData)(&again, image));
  OK(CU(cuModuleGetFunction)(&function, again, "other"));
  OK(CU(cuModuleGetFunction)(&function, again, "twice"));
  OK(CU(cuLinkDestroy)(state));
  OK(CU(cuModuleUnload)(again));
  ANSWERS(209, CU(cuModuleLoadData)(&again, "\177ELF            "));
  ANSWERS(218, CU(cuModuleLoadData)(&again, ".version 8.7 .target sm_100a what"));
  return 0;
}

/* A kernel leaves the address of a table of functions in memory, as a constructor does; another one calls through it. */
static int pointers_to_functions(void) {
  static const char methods[] =
      ".version 8.7\n.target sm_100a\n.address_size 64\n"
      ".func (.param .b32 r) five() { st.param.b32 [r], 5; ret; }\n"
      ".global .align 8 .u64 table[2] = {0, five};\n"
      ".visible .entry construct(.param .u64 p) { .reg .u64 %d<4>;\n"
      " ld.param.u64 %d0, [p]; mov.u64 %d1, table; cvta.global.u64 %d2, %d1; st.global.u64 [%d0], %d2; ret; }\n"
      ".visible .entry call(.param .u64 p) { .reg .u64 %d<4>; .reg .b32 %r<2>; .param .b32 out;\n"
      " ld.param.u64 %d0, [p]; ld.global.u64 %d1, [%d0]; ld.u64 %d2, [%d1+8];\n"
      " kind: .callprototype (.param .b32 _) _ ();\n"
      " call (out), %d2, (), kind; ld.param.b32 %r1, [out]; st.global.u32 [%d0], %r1; ret; }\n";
  void *loaded, *construct, *call;
  void *arguments[] = {&memory};
  OK(CU(cuModuleLoadData)(&loaded, methods));
  OK(CU(cuModuleGetFunction)(&construct, loaded, "construct"));
  OK(CU(cuModuleGetFunction)(&call, loaded, "call"));
  OK(CU(cuLaunchKernel)(construct, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
  OK(CU(cuLaunchKernel)(call, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
  OK(CU(cuMemcpyDtoH_v2)(host, memory, 4));
  EXPECT(host[0] == 5);
  OK(CU(cuModuleUnload)(loaded));
  return 0;
}

/* A part of a pool, which `beyond` leaves although it stays in the pool. */
static int pooled(void) {
  u64 pool;
  OK(CU(cuMemAlloc_v2)(&pool, (size_t)1 << 20));
  memory = pool + 4096;
  OK(CU(sm100sim_register)(memory, (size_t)128, "weights"));
  ANSWERS(1, CU(sm100sim_register)(pool, (size_t)(1 << 20) + 1, "too much"));
  ANSWERS(1, CU(sm100sim_unregister)(pool));
  return 0;
}

static int fault(void) {
  void *beyond;
  void *arguments[] = {&memory};
  OK(CU(cuModuleGetFunction)(&beyond, module, "beyond"));
  ANSWERS(700, CU(cuLaunchKernel)(beyond, 1, 1, 1, 1, 1, 1, 0, NULL, arguments, NULL));
  ANSWERS(700, CU(cuCtxSynchronize)());
  ANSWERS(700, CU(cuMemAlloc_v2)(&memory, (size_t)4));
  return 0;
}

int main(int count, char **words) {
  library = dlopen("libcuda.so.1", RTLD_NOW);
  if (!library) {
    printf("%s\n", dlerror());
    return 1;
  }
  if (begin() || entry_points() || run_once() || clusters() || memories() || streams() || linked() ||
      pointers_to_functions())
    return 1;
  if (count > 1 && !strcmp(words[1], "pool") && pooled())
    return 1;
  if (count > 1 && fault())
    return 1;
  printf("right\n");
  return 0;
}
