// Compiled to calls.ptx by `nvcc -arch=sm_100a -ptx calls.cu` of CUDA 13.0.88.
#include <cassert>
#include <cstdio>

__device__ __noinline__ float poly(float x, int n) {
  float s = 0;
  for (int k = 0; k < n; k++)
    s = s * x + k;
  return s;
}
__device__ __noinline__ unsigned fib(unsigned n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }

struct Pair {
  int a;
  double b;
  char c[12];
};
__device__ __noinline__ Pair make(int i, Pair p) {
  p.a += i;
  p.b *= 2;
  p.c[i % 12] = (char)i;
  return p;
}
__device__ __noinline__ int early(int *p, int n) {
  for (int i = 0; i < n; i++)
    if (p[i] > 5)
      return i;
  return -1;
}

typedef int (*Op)(int, int);
__device__ __noinline__ int add(int a, int b) { return a + b; }
__device__ __noinline__ int sub(int a, int b) { return a - b; }
__device__ __noinline__ int mul(int a, int b) { return a * b; }
__device__ Op table[3] = {add, sub, mul};

struct Base {
  __device__ virtual int f(int x) const { return x; }
};
struct Twice : Base {
  __device__ int f(int x) const override { return 2 * x; }
};
struct Thrice : Base {
  __device__ int f(int x) const override { return 3 * x; }
};

extern "C" __global__ void direct(float *o, unsigned *u, int *q, Pair *pairs) {
  int i = threadIdx.x, v[8];
  o[i] = poly(i * 0.25f, i % 5 + 1);
  u[i] = fib(i % 9);
  Pair p{i, i * 0.5, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}};
  pairs[i] = make(i, p);
  for (int k = 0; k < 8; k++)
    v[k] = (k * i) % 7;
  q[i] = early(v, 8);
}

extern "C" __global__ void indirect(int *q) {
  int i = threadIdx.x;
  q[i] = table[i % 3](i, 7);
  Base b;
  Twice t;
  Thrice h;
  const Base *z = i % 3 == 0 ? &b : i % 3 == 1 ? (Base *)&t : (Base *)&h;
  q[i + 32] = z->f(i);
}

extern "C" __global__ void say(int n) {
  int i = threadIdx.x;
  if (i < n)
    printf("thread %d of %u: %5.2f %s %c %lld %%\n", i, blockDim.x, i * 0.5, "word", 'x', 1ll << 40);
  if (i == 0)
    printf("plain\n");
}

extern "C" __global__ void check(int n) { assert(threadIdx.x < n && "too many"); }

extern "C" __global__ void heap(int *o, int mode) {
  int i = threadIdx.x;
  int *p = (int *)malloc(64);
  for (int k = 0; k < 16; k++)
    p[k] = i * k;
  if (mode == 1)
    p[16] = 1;
  int s = 0;
  for (int k = 0; k < 16; k++)
    s += p[k];
  o[blockIdx.x * blockDim.x + i] = s;
  free(p);
  if (mode == 2)
    o[0] = p[i & 7];
  if (mode == 3)
    free(p);
  if (mode == 4)
    o[i] = malloc(9 << 20) == nullptr;
}
