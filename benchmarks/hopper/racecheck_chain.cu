// Rounds of one shared slot that a warp fills and two warps read. Which orders does compute-sanitizer's
// racecheck follow? Build and run, with ARRIVE and FILL as in the tables of main:
//
//     nvcc -gencode=arch=compute_90a,code=sm_90a -o racecheck_chain racecheck_chain.cu
//     compute-sanitizer --tool racecheck ./racecheck_chain ARRIVE FILL
//
// Only "half" is wrong: the slot is filled again when the first of the two warps has read it. The second one sleeps
// first, so that it is the last reader, and the one of which the tool knows.
#include <cstdint>
#include <cstdio>
#include <cstring>

constexpr int WORDS = 64, READERS = 2, LANES = 32, ROUNDS = 6;
constexpr int BYTES = WORDS * sizeof(int), NAMED_BARRIER = 1, SLEEP_NS = 20000;

enum Arrive { EVERY_LANE, ONE_LANE, NAMED, HALF };

enum Fill { COPY, STORES, ZEROS };

__device__ uint32_t at(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

__device__ void start(uint64_t *bar, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(bar)), "r"(arrivals) : "memory");
}

__device__ void arrive(uint64_t *bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(at(bar)) : "memory");
}

__device__ void wait(uint64_t *bar, int parity) {
  asm volatile("{\n.reg .pred done;\nAGAIN%=:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n@!done bra AGAIN%=;\n}" ::"r"(at(bar)),
               "r"(parity)
               : "memory");
}

__device__ void copy(int *to, const int *from, uint64_t *bar) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(bar)), "n"(BYTES) : "memory");
  asm volatile("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(at(to)),
               "l"(from), "n"(BYTES), "r"(at(bar))
               : "memory");
}

__device__ void meet() {
  asm volatile("bar.sync %0, %1;" ::"n"(NAMED_BARRIER), "n"(READERS * LANES) : "memory");
}

__device__ void store(int *to, const int *from, int lane) {
  for (int k = lane; k < WORDS; k += LANES)
    reinterpret_cast<volatile int *>(to)[k] = from ? from[k] : 0;
}

// The warp that fills: by a bulk copy, by stores, or (ZEROS) by a word that the readers may, who then store zeros.
template <Arrive WHO, Fill HOW> __device__ void fill(int *slot, const int *in, uint64_t *full, uint64_t *empty) {
  const int lane = threadIdx.x % LANES;
  for (int i = 0; i < ROUNDS; ++i) {
    if (i > 0)
      wait(empty, (i - 1) & 1);
    if (HOW == STORES)
      store(slot, in + i * WORDS, lane);
    if (HOW != COPY)
      arrive(full);
    else if (lane == 0)
      copy(slot, in + i * WORDS, full);
    __syncwarp();
  }
}

template <Arrive WHO, Fill HOW> __device__ int read(int *slot, uint64_t *full, uint64_t *empty) {
  const int warp = threadIdx.x / LANES, lane = threadIdx.x % LANES;
  int sum = 0;
  for (int i = 0; i < ROUNDS; ++i) {
    wait(full, i & 1);
    if (HOW == ZEROS && warp == 0)
      store(slot, nullptr, lane);
    meet();
    if (warp > 0)
      __nanosleep(SLEEP_NS);
    for (int k = lane; k < WORDS; k += LANES)
      sum += reinterpret_cast<volatile int *>(slot)[k];
    if (WHO == NAMED)
      meet();
    else
      __syncwarp();
    if (WHO == EVERY_LANE || (lane == 0 && (WHO != HALF || warp == 0)))
      arrive(empty);
  }
  return sum;
}

template <Arrive WHO, Fill HOW> __global__ void rounds(const int *in, int *out) {
  __shared__ alignas(128) int slot[WORDS];
  __shared__ uint64_t full, empty;
  if (threadIdx.x == 0) {
    start(&full, HOW == COPY ? 1 : LANES);
    start(&empty, WHO == EVERY_LANE ? READERS * LANES : WHO == HALF ? 1 : READERS);
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  if (threadIdx.x / LANES == READERS)
    fill<WHO, HOW>(slot, in, &full, &empty);
  else
    out[threadIdx.x] = read<WHO, HOW>(slot, &full, &empty);
}

template <Arrive WHO> void launch(const char *how, const int *in, int *out) {
  constexpr int THREADS = (READERS + 1) * LANES;
  if (!strcmp(how, "copy"))
    rounds<WHO, COPY><<<1, THREADS>>>(in, out);
  if (!strcmp(how, "stores"))
    rounds<WHO, STORES><<<1, THREADS>>>(in, out);
  if (!strcmp(how, "zeros"))
    rounds<WHO, ZEROS><<<1, THREADS>>>(in, out);
}

int main(int count, char **words) {
  if (count != 3)
    return 2;
  int *in, *out, host[ROUNDS * WORDS], sum = 0;
  for (int i = 0; i < ROUNDS * WORDS; ++i)
    host[i] = i + 1;
  cudaMalloc(&in, sizeof host);
  cudaMalloc(&out, READERS * LANES * sizeof(int));
  cudaMemcpy(in, host, sizeof host, cudaMemcpyHostToDevice);
  const char *who = words[1], *how = words[2];
  if (!strcmp(who, "every"))
    launch<EVERY_LANE>(how, in, out);
  if (!strcmp(who, "one"))
    launch<ONE_LANE>(how, in, out);
  if (!strcmp(who, "named"))
    launch<NAMED>(how, in, out);
  if (!strcmp(who, "half"))
    launch<HALF>(how, in, out);
  cudaMemcpy(host, out, READERS * LANES * sizeof(int), cudaMemcpyDeviceToHost);
  for (int i = 0; i < READERS * LANES; ++i)
    sum += host[i];
  const int whole = strcmp(how, "zeros") ? READERS * (ROUNDS * WORDS) * (ROUNDS * WORDS + 1) / 2 : 0;
  printf("%s %s: %s, sum %d of %d\n", who, how, cudaGetErrorString(cudaGetLastError()), sum, whole);
}
