// The other file of separate.cu; its `own` is another function.
__device__ int factor = 3;
static __device__ __noinline__ int own(int x) { return x + 40; }
__device__ int scaled(int x) { return own(factor * x); }
