/* Two PTX texts, linked by nvJitLink, and what it answers to wrong ones.  The names are those of its header. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int (*Call)();

static Call of(const char *library, const char *name) {
  void *found = dlsym(dlopen(library, RTLD_NOW), name);
  if (!found) {
    printf("no %s\n", name);
    exit(1);
  }
  return (Call)found;
}

#define CU(name) of("libcuda.so.1", #name)
#define LINK(name) of("libnvJitLink.so.13", "__nvJitLink" #name "_13_0")
#define ANSWERS(code, call)                                             \
  do {                                                                  \
    int got = call;                                                     \
    if (got != code) {                                                  \
      printf("line %d: %d, expected %d\n", __LINE__, got, (int)(code)); \
      return 1;                                                         \
    }                                                                   \
  } while (0)

#define HEAD ".version 8.7\n.target sm_100a\n.address_size 64\n"
static const char kernel[] = HEAD ".extern .func (.param .b32 r) six();\n.visible .entry store(.param .u64 out) {\n"
                                  ".reg .b64 %rd<2>; .reg .b32 %r<2>; .param .b32 p; ld.param.u64 %rd1, [out];\n"
                                  "call (p), six; ld.param.b32 %r1, [p]; st.global.b32 [%rd1], %r1; ret; }\n";
static const char function[] = HEAD ".visible .func (.param .b32 r) six() { st.param.b32 [r], 6; ret; }\n";

static int linked(void **image) {
  const char *options[] = {"-arch=sm_100a", "-O3"}, *wide[] = {"-lto", "-arch=sm_100a"};
  void *handle;
  size_t size = 0;
  /* A library with this function is given LTO-IR. */
  ANSWERS(0, dlsym(dlopen("libnvJitLink.so.13", RTLD_NOW), "nvJitLinkVersion") != NULL);
  ANSWERS(2, LINK(Create)(&handle, 1, options + 1));
  ANSWERS(1, LINK(Create)(&handle, 2, wide));
  ANSWERS(0, LINK(Create)(&handle, 2, options));
  ANSWERS(3, LINK(Complete)(handle));
  ANSWERS(0, LINK(AddData)(handle, 2, kernel, sizeof kernel, "kernel"));
  ANSWERS(0, LINK(AddData)(handle, 10, function, sizeof function, "function"));
  ANSWERS(12, LINK(AddData)(handle, 3, function, sizeof function, "bitcode"));
  ANSWERS(3, LINK(AddFile)(handle, 2, "/nowhere.ptx"));
  ANSWERS(3, LINK(GetLinkedCubinSize)(handle, &size));
  ANSWERS(0, LINK(Complete)(handle));
  ANSWERS(0, LINK(GetLinkedCubinSize)(handle, &size));
  *image = malloc(size);
  ANSWERS(0, LINK(GetLinkedCubin)(handle, *image));
  ANSWERS(0, LINK(Destroy)(&handle));
  ANSWERS(0, LINK(Create)(&handle, 1, options));
  ANSWERS(0, LINK(AddData)(handle, 2, function, sizeof function, "once"));
  ANSWERS(0, LINK(AddData)(handle, 2, function, sizeof function, "twice"));
  ANSWERS(4, LINK(Complete)(handle));
  ANSWERS(0, LINK(GetErrorLogSize)(handle, &size));
  char *log = malloc(size);
  ANSWERS(0, LINK(GetErrorLog)(handle, log));
  ANSWERS(1, strstr(log, "six") != NULL);
  ANSWERS(0, LINK(Destroy)(&handle));
  return 0;
}

int main(void) {
  void *context, *image, *module, *entry, *out;
  int device, value = 0;
  ANSWERS(0, CU(cuInit)(0));
  ANSWERS(0, CU(cuDeviceGet)(&device, 0));
  ANSWERS(0, CU(cuDevicePrimaryCtxRetain)(&context, device));
  ANSWERS(0, CU(cuCtxSetCurrent)(context));
  if (linked(&image))
    return 1;
  ANSWERS(0, CU(cuModuleLoadData)(&module, image));
  ANSWERS(0, CU(cuModuleGetFunction)(&entry, module, "store"));
  ANSWERS(0, CU(cuMemAlloc_v2)(&out, (size_t)4));
  void *words[] = {&out};
  ANSWERS(0, CU(cuLaunchKernel)(entry, 1, 1, 1, 1, 1, 1, 0, NULL, words, NULL));
  ANSWERS(0, CU(cuMemcpyDtoH_v2)(&value, out, (size_t)4));
  ANSWERS(6, value);
  puts("right");
  return 0;
}
