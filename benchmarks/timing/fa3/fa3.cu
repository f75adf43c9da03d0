// Forward attention by FlashAttention-3 (`hopper` in Dao-AILab/flash-attention), on random numbers.
//
//   fa3 HEADS LENGTH CTAS
//
// One sequence, fp16; of the program: -D DIM, CAUSAL (0 or 1). CTAS is what the kernel takes for
// the number of SMs: its persistent CTAs share all tiles. Two to a cluster where its own dispatch
// has them: d128 without a mask.
#include <cuda_runtime.h>

#include <cmath>
#include <cstdlib>
#include <random>
#include <vector>

#include "flash_fwd_launch_template.h"

using Half = cutlass::half_t;

// Of packed sequences only, which are none of the cases.
void prepare_varlen_num_blocks(Flash_fwd_params &, cudaStream_t, bool, int, int, bool) {
}

template <class T> T *device(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<T> some(1 << 16), all(count);
  for (auto &value : some)
    value = T(normal(random));
  for (size_t k = 0; k < count; ++k)
    all[k] = some[random() % some.size()];
  T *found = nullptr;
  if (cudaMalloc(&found, count * sizeof(T)))
    std::exit(1);
  if (cudaMemcpy(found, all.data(), count * sizeof(T), cudaMemcpyHostToDevice))
    std::exit(1);
  return found;
}

int main(int, char **words) {
  const int heads = std::atoi(words[1]), length = std::atoi(words[2]), ctas = std::atoi(words[3]);
  const size_t count = size_t(heads) * length * DIM;
  Flash_fwd_params p{};
  p.q_ptr = device<Half>(count, 1);
  p.k_ptr = device<Half>(count, 2);
  p.v_ptr = device<Half>(count, 3);
  p.o_ptr = device<Half>(count, 4);
  p.softmax_lse_ptr = device<float>(size_t(heads) * length, 5);
  p.q_batch_stride = p.k_batch_stride = p.v_batch_stride = p.o_batch_stride = count;
  p.q_row_stride = p.k_row_stride = p.v_row_stride = p.o_row_stride = int64_t(heads) * DIM;
  p.q_head_stride = p.k_head_stride = p.v_head_stride = p.o_head_stride = DIM;
  p.v_dim_stride = 1;
  p.h = p.h_k = heads;
  p.b = p.b_k = 1;
  p.seqlen_q = p.seqlen_k = p.seqlen_q_rounded = p.seqlen_k_rounded = length;
  p.total_q = p.total_k = length;
  p.d = p.dv = p.d_rounded = p.dv_rounded = DIM;
  p.scale_softmax = 1.0f / std::sqrt(float(DIM));
  p.window_size_left = -1;
  p.window_size_right = CAUSAL ? 0 : -1;
  p.is_causal = CAUSAL;
  p.num_splits = 1;
  p.arch = 90;
  p.num_sm = ctas;
  int *taken = nullptr;
  if (cudaMalloc(&taken, 64) || cudaMemset(taken, 0, 64))
    return 1;
  p.tile_count_semaphore = taken;
  constexpr int pair = DIM >= 128 && !CAUSAL ? 2 : 1;
  run_flash_fwd<90, DIM, DIM, pair, Half, Half, bool(CAUSAL), false, false, false, false, false, false, false, false,
                false>(p, nullptr);
  return cudaDeviceSynchronize();
}
