// Forward attention by the kernel of CUTLASS's example 77 (77_blackwell_fmha), on random numbers.
//
//   cutlass_fmha HEADS HEADS_KV LENGTH...
//
// One length a sequence; q, k, v and o are (batch, length, heads, DIM), with PACKED one sequence
// behind another. Of the program: -D DIM, CAUSAL (0 or 1), PACKED (0 or 1), ELEMENT. As the example
// has it without options: tiles of 256 queries and 128 keys, one CTA a tile.
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#include "cute/tensor.hpp"

#include "cutlass/cutlass.h"
#include "cutlass/kernel_hardware_info.h"

#include "device/fmha.hpp"
#include "collective/fmha_fusion.hpp"
#include "collective/sm100_fmha_fwd_epilogue_tma_warpspecialized.hpp"
#include "collective/sm100_fmha_fwd_mainloop_tma_warpspecialized.hpp"
#include "kernel/fmha_options.hpp"
#include "kernel/fmha_tile_scheduler.hpp"
#include "kernel/sm100_fmha_fwd_kernel_tma_warpspecialized.hpp"

using namespace cute;
namespace fmha = cutlass::fmha;
using Element = cutlass::ELEMENT;
using Out = cutlass::bfloat16_t;
using Length = std::conditional_t<PACKED, fmha::collective::VariableLength, int>;
using Mask = std::conditional_t<CAUSAL, fmha::collective::CausalMask<false>, fmha::collective::NoMask>;
using Heads = cute::tuple<cute::tuple<int, int>, int>;
using Problem = cute::tuple<Length, Length, int, Heads>;
using StrideQ = cute::tuple<int, _1, Heads>;
using StrideK = cute::tuple<int, _1, cute::tuple<cute::tuple<_0, int>, int>>;
using StrideSum = cute::tuple<_1, Heads>;
using Mainloop = fmha::collective::Sm100FmhaFwdMainloopTmaWarpspecialized<
    Element, float, float, Shape<_256, _128, Int<DIM>>, StrideQ, StrideK, StrideK, Mask>;
using Epilogue = fmha::collective::Sm100FmhaFwdEpilogueTmaWarpspecialized<
    Out, float, typename Mainloop::TileShapePV, StrideQ, StrideSum>;
using Operation = fmha::device::FMHA<fmha::kernel::Sm100FmhaFwdKernelTmaWarpspecialized<
    Problem, Mainloop, Epilogue, fmha::kernel::IndividualTileScheduler>>;

template <class T>
T *device(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<T> some(1 << 16), all(count);
  for (auto &value : some) value = T(normal(random));
  for (size_t k = 0; k < count; ++k) all[k] = some[random() % some.size()];
  T *found = nullptr;
  if (cudaMalloc(&found, count * sizeof(T))) std::exit(1);
  if (cudaMemcpy(found, all.data(), count * sizeof(T), cudaMemcpyHostToDevice)) std::exit(1);
  return found;
}

template <class T>
T length_of(int longest, int total, int *starts) {
  if constexpr (PACKED) return {longest, starts, total};
  else return longest;
}

int main(int count, char **words) {
  const int heads = std::atoi(words[1]), heads_kv = std::atoi(words[2]), group = heads / heads_kv;
  std::vector<int> ends{0};
  int longest = 0;
  for (int k = 3; k < count; ++k) {
    ends.push_back(ends.back() + std::atoi(words[k]));
    longest = std::max(longest, std::atoi(words[k]));
  }
  const int total = ends.back(), batch = int(ends.size()) - 1;
  const int rows = heads * DIM, rows_kv = heads_kv * DIM, apart = PACKED ? 0 : longest;
  auto *q = device<Element>(size_t(total) * rows, 1);
  auto *k = device<Element>(size_t(total) * rows_kv, 2);
  auto *v = device<Element>(size_t(total) * rows_kv, 3);
  // Packed sequences: what the last tile has beyond its sequence lies before the tensor's start.
  auto *o = device<Out>(size_t(total + longest) * rows, 4) + (PACKED ? size_t(longest) * rows : 0);
  auto *sums = device<float>(size_t(total) * heads, 5);
  int *starts = nullptr;
  if (cudaMalloc(&starts, ends.size() * sizeof(int))) return 1;
  if (cudaMemcpy(starts, ends.data(), ends.size() * sizeof(int), cudaMemcpyHostToDevice)) return 1;

  const Length length = length_of<Length>(longest, total, starts);
  const Problem problem{length, length, DIM, {{group, heads_kv}, batch}};
  const StrideQ of_q{rows, _1{}, {{DIM, group * DIM}, rows * apart}};
  const StrideK of_k{rows_kv, _1{}, {{_0{}, DIM}, rows_kv * apart}};
  const int sums_apart = PACKED ? total : longest;
  const StrideSum of_sums{_1{}, {{sums_apart, sums_apart * group}, heads * apart}};
  cutlass::KernelHardwareInfo hardware;
  hardware.sm_count = 148;
  typename Operation::Arguments arguments{
      problem, {q, of_q, k, of_k, v, of_k}, {o, of_q, sums, of_sums}, hardware};
  Operation operation;
  if (operation.can_implement(arguments) != cutlass::Status::kSuccess) return 2;
  if (operation.run(arguments) != cutlass::Status::kSuccess) return 3;
  return cudaDeviceSynchronize();
}
