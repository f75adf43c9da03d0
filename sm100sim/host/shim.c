/* The library that stands where libcute_dsl_runtime.so stands under a compiled CuTe DSL program.
 *
 * It exports the names which the jitted host code resolves and forwards those that matter to
 * function pointers registered from Python (runtime.py).  Names of calls with nothing to do on a
 * machine whose launches are synchronous (streams, device selection) succeed here; names whose
 * effect is not modelled answer cudaErrorNotSupported after telling Python, so that the error
 * names the call.  Before registration every forwarding call answers cudaErrorInitializationError.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum {
  CUDA_SUCCESS_ = 0,
  CUDA_INVALID_VALUE = 1,
  CUDA_OUT_OF_MEMORY = 2,
  CUDA_NOT_INITIALIZED = 3,
  CUDA_NOT_SUPPORTED = 801
};

typedef struct {
  int32_t (*load_library)(void **library, const void *image);
  int32_t (*unload_library)(void *library);
  int32_t (*get_kernel)(void **kernel, void *library, const char *name);
  int32_t (*kernel_attribute)(int32_t *value, int32_t attribute, void *kernel);
  int32_t (*set_kernel_attribute)(void *kernel, int32_t attribute, int32_t value);
  int32_t (*device_attribute)(int32_t *value, int32_t attribute);
  int32_t (*launch)(const void *config, void *kernel, void **args);
  int32_t (*allocate)(void **pointer, uint64_t bytes);
  int32_t (*release)(void *pointer);
  int32_t (*encode_tensor_map)(void *map, int32_t type, uint32_t rank, uint64_t address, const uint64_t *sizes,
                               const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,
                               int32_t interleave, int32_t swizzle, int32_t l2_promotion, int32_t nan_fill);
  int32_t (*unsupported)(const char *name);
  int32_t (*assertion_failed)(int32_t code);
  int32_t (*describe)(int32_t code, char *text, uint64_t capacity);
} Callbacks;

static Callbacks host;
static int registered;

EXPORT void sm100sim_register(const Callbacks *callbacks) {
  if (callbacks)
    host = *callbacks;
  registered = callbacks != NULL;
}

#define FORWARD(call) (registered ? (call) : CUDA_NOT_INITIALIZED)

/* ---- libraries, kernels, launches --------------------------------------------------------- */

EXPORT int32_t _cudaLibraryLoadData(void **library, const void *image) {
  return FORWARD(host.load_library(library, image));
}

EXPORT int32_t _cuLibraryLoadData(void **library, const void *image) {
  return FORWARD(host.load_library(library, image));
}

/* Unloading happens in destructors too, when Python may be gone: then there is nothing to free. */
EXPORT int32_t _cudaLibraryUnload(void *library) {
  return registered ? host.unload_library(library) : CUDA_SUCCESS_;
}

EXPORT int32_t _cuLibraryUnload(void *library) {
  return _cudaLibraryUnload(library);
}

EXPORT int32_t _cudaLibraryGetKernel(void **kernel, void *library, const char *name) {
  return FORWARD(host.get_kernel(kernel, library, name));
}

EXPORT int32_t _cuLibraryGetKernel(void **kernel, void *library, const char *name) {
  return FORWARD(host.get_kernel(kernel, library, name));
}

EXPORT int32_t _cuKernelGetAttribute(int32_t *value, int32_t attribute, void *kernel) {
  return FORWARD(host.kernel_attribute(value, attribute, kernel));
}

EXPORT int32_t _cudaFuncSetAttribute(void *kernel, int32_t attribute, int32_t value) {
  return FORWARD(host.set_kernel_attribute(kernel, attribute, value));
}

EXPORT int32_t _cudaKernelSetAttributeForDevice(void *kernel, int32_t attribute, int32_t value) {
  return FORWARD(host.set_kernel_attribute(kernel, attribute, value));
}

EXPORT int32_t _cudaLaunchKernelEx(const void *config, void *kernel, void **args) {
  return FORWARD(host.launch(config, kernel, args));
}

EXPORT int32_t _cuTensorMapEncodeTiled(void *map, int32_t type, uint32_t rank, uint64_t address, const uint64_t *sizes,
                                       const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,
                                       int32_t interleave, int32_t swizzle, int32_t l2_promotion, int32_t nan_fill) {
  return FORWARD(host.encode_tensor_map(map, type, rank, address, sizes, strides, box, element_strides, interleave,
                                        swizzle, l2_promotion, nan_fill));
}

/* ---- one device, one stream order --------------------------------------------------------- */

EXPORT int32_t _cudaGetDevice(int32_t *device) {
  *device = 0;
  return CUDA_SUCCESS_;
}

EXPORT int32_t _cuDeviceGet(int32_t *device, int32_t ordinal) {
  *device = ordinal;
  return ordinal ? CUDA_INVALID_VALUE : CUDA_SUCCESS_;
}

EXPORT int32_t _cudaGetDeviceCount(int32_t *count) {
  *count = 1;
  return CUDA_SUCCESS_;
}

EXPORT int32_t _cudaSetDevice(int32_t device) {
  return device ? CUDA_INVALID_VALUE : CUDA_SUCCESS_;
}

EXPORT int32_t _cudaDeviceGetAttribute(int32_t *value, int32_t attribute, int32_t device) {
  (void)device;
  return FORWARD(host.device_attribute(value, attribute));
}

EXPORT int32_t _cudaDeviceSynchronize(void) {
  return CUDA_SUCCESS_;
}

EXPORT int32_t _cudaStreamCreate(void **stream) {
  *stream = NULL;
  return CUDA_SUCCESS_;
}

EXPORT int32_t _cudaStreamDestroy(void *stream) {
  (void)stream;
  return CUDA_SUCCESS_;
}

EXPORT int32_t _cudaStreamSynchronize(void *stream) {
  (void)stream;
  return CUDA_SUCCESS_;
}

/* ---- memory: the device's memory is the host's --------------------------------------------- */

EXPORT int32_t _cudaMalloc(void **pointer, uint64_t bytes) {
  return FORWARD(host.allocate(pointer, bytes));
}

EXPORT int32_t _cudaMallocAsync(void **pointer, uint64_t bytes, void *stream) {
  (void)stream;
  return FORWARD(host.allocate(pointer, bytes));
}

EXPORT int32_t _cudaMallocHost(void **pointer, uint64_t bytes) {
  return FORWARD(host.allocate(pointer, bytes));
}

EXPORT int32_t _cudaMallocManaged(void **pointer, uint64_t bytes) {
  return FORWARD(host.allocate(pointer, bytes));
}

EXPORT int32_t _cudaFree(void *pointer) {
  return FORWARD(host.release(pointer));
}

EXPORT int32_t _cudaFreeAsync(void *pointer, void *stream) {
  (void)stream;
  return FORWARD(host.release(pointer));
}

EXPORT int32_t _cudaFreeHost(void *pointer) {
  return FORWARD(host.release(pointer));
}

EXPORT int32_t _cudaMemcpy(void *to, const void *from, uint64_t bytes) {
  memcpy(to, from, bytes);
  return CUDA_SUCCESS_;
}

EXPORT int32_t _cudaMemcpyAsync(void *to, const void *from, uint64_t bytes) {
  return _cudaMemcpy(to, from, bytes);
}

EXPORT int32_t _cudaMemset(void *to, int32_t byte, uint64_t bytes) {
  memset(to, byte, bytes);
  return CUDA_SUCCESS_;
}

EXPORT int32_t _cudaMemsetAsync(void *to, int32_t byte, uint64_t bytes) {
  return _cudaMemset(to, byte, bytes);
}

/* ---- errors -------------------------------------------------------------------------------- */

EXPORT const char *cuda_dialect_get_error_name(int32_t code) {
  switch (code) {
    case CUDA_SUCCESS_:
      return "cudaSuccess";
    case CUDA_INVALID_VALUE:
      return "cudaErrorInvalidValue";
    case CUDA_OUT_OF_MEMORY:
      return "cudaErrorMemoryAllocation";
    case CUDA_NOT_INITIALIZED:
      return "cudaErrorInitializationError";
    case CUDA_NOT_SUPPORTED:
      return "cudaErrorNotSupported";
    case 719:
      return "cudaErrorLaunchFailure";
    default:
      return "cudaErrorUnknown";
  }
}

static void explain(int32_t code, char *text, uint64_t capacity) {
  if (!registered || host.describe(code, text, capacity))
    snprintf(text, capacity, "%s (sm100sim is not active)", cuda_dialect_get_error_name(code));
}

EXPORT void cuda_dialect_print_on_error(int32_t code) {
  if (!code)
    return;
  char text[4096];
  explain(code, text, sizeof text);
  fprintf(stderr, "sm100sim: %s: %s\n", cuda_dialect_get_error_name(code), text);
}

/* The generated code goes on after this call.  Python keeps the error, refuses the launches that
 * follow and raises when the call returns; without Python the process ends, as in the real one. */
EXPORT void cuda_dialect_assert_success(int32_t code) {
  if (!code || (registered && host.assertion_failed(code)))
    return;
  cuda_dialect_print_on_error(code);
  abort();
}

/* ---- programs compiled with TVM-FFI -------------------------------------------------------- */

typedef int32_t (*InitFn)(void **library);
typedef int32_t (*LoadFn)(void **library, int32_t device);
typedef void (*SetErrorFn)(const char *kind, const char *message);
typedef void (*SetErrorPartsFn)(const char *kind, const char **parts, int32_t count);

static void error_message(int32_t code, char *message, uint64_t capacity) {
  int used = snprintf(message, capacity, "CUDA Error Code: %d ", code);
  explain(code, message + used, capacity - (uint64_t)used);
}

EXPORT int32_t cuda_dialect_init_library_once(void **state, InitFn init, LoadFn load, SetErrorFn set_error) {
  if (*state)
    return CUDA_SUCCESS_;
  void *library = NULL;
  int32_t code = init(&library);
  if (!code && load)
    code = load(&library, 0);
  if (code) {
    char message[4096];
    error_message(code, message, sizeof message);
    set_error("CUDADialectError", message);
    return -1;
  }
  *state = library;
  return CUDA_SUCCESS_;
}

EXPORT void cuda_dialect_unload_library_once(void **state) {
  if (*state)
    _cudaLibraryUnload(*state);
  *state = NULL;
}

EXPORT void CuteDSLRT_TVMFFISetRaisedCudaError(SetErrorPartsFn set_error, int32_t code) {
  char message[4096];
  error_message(code, message, sizeof message);
  const char *parts[1] = {message};
  set_error("CUDADialectError", parts, 1);
}

EXPORT void CuteDSLRT_TVMFFISetRaisedCudaLaunchError(SetErrorPartsFn set_error, int32_t grid_x, int32_t grid_y,
                                                     int32_t grid_z, int32_t block_x, int32_t block_y, int32_t block_z,
                                                     int32_t block_threads, int64_t dynamic_smem, int32_t device,
                                                     int32_t max_threads, int32_t max_block_x, int32_t max_block_y,
                                                     int32_t max_block_z, int32_t max_grid_x, int32_t max_grid_y,
                                                     int32_t max_grid_z, int32_t max_smem, int32_t max_smem_optin,
                                                     const char *violation) {
  (void)block_threads, (void)device, (void)max_threads, (void)max_block_x, (void)max_block_y;
  (void)max_block_z, (void)max_grid_x, (void)max_grid_y, (void)max_grid_z, (void)max_smem;
  char message[1024];
  snprintf(message, sizeof message,
           "CUDA Error Code: 1 launch refused (%s): grid (%d, %d, %d), block (%d, %d, %d), dynamic "
           "shared memory %lld of at most %d bytes",
           violation, grid_x, grid_y, grid_z, block_x, block_y, block_z, (long long)dynamic_smem, max_smem_optin);
  const char *parts[1] = {message};
  set_error("CUDADialectError", parts, 1);
}

/* ---- calls without a model here ------------------------------------------------------------ */

#define UNSUPPORTED(name)                                               \
  EXPORT int32_t name(void) {                                           \
    return registered ? host.unsupported(#name) : CUDA_NOT_INITIALIZED; \
  }
UNSUPPORTED(_cudaLaunchKernel)
UNSUPPORTED(_cudaLibraryGetGlobal)
UNSUPPORTED(_cudaLibraryGetManaged)
UNSUPPORTED(_cudaLibraryGetKernelCount)
UNSUPPORTED(_cudaLibraryGetUnifiedFunction)
UNSUPPORTED(_cudaLibraryLoadFromFile)
UNSUPPORTED(_cuLibraryGetGlobal)
UNSUPPORTED(_cuLibraryGetManaged)
UNSUPPORTED(_cuLibraryGetKernelCount)
UNSUPPORTED(_cuLibraryGetUnifiedFunction)
UNSUPPORTED(_cuLibraryGetModule)
UNSUPPORTED(_cuLibraryLoadFromFile)
UNSUPPORTED(_cudaGetDeviceProperties)
UNSUPPORTED(_cudaOccupancyMaxActiveBlocksPerMultiprocessor)
UNSUPPORTED(_cudaStreamWaitEvent)
UNSUPPORTED(_cudaStreamAddCallback)
UNSUPPORTED(_cudaStreamBeginCapture)
UNSUPPORTED(_cudaStreamEndCapture)
UNSUPPORTED(_cudaEventCreate)
UNSUPPORTED(_cudaEventDestroy)
UNSUPPORTED(_cudaEventRecord)
UNSUPPORTED(_cudaEventElapsedTime)
UNSUPPORTED(_cudaGraphInstantiate)
UNSUPPORTED(_cudaGraphLaunch)
UNSUPPORTED(_cudaGraphDestroy)
UNSUPPORTED(_cudaGraphExecDestroy)
