"""What the page on a B200 says beside its tables."""

from __future__ import annotations

from typing import Final

REASONS: Final = """
What is known of the misses:

* **Which build.** The issue does not say it. The tables above the last are of today's release,
  whose PTX the DSL's libraries for CUDA 12 write. Release b15, written by those for CUDA 13 of DSL
  4.4.2, has the published instructions: work of XU, FMA and issue is 0.999 to 1.001 of what was
  counted in bf16 and in fp8, where today's fp8 has 1.19 for FMA. Its period in bf16 is 2,349 cycles
  of at most 2,335, and the shares of tensor, XU, FMA and issue are within 0.5 points.
* **ALU** had 7 % less work than published, in bf16, and 6 % less in this build's fp8: 26.3 and 24.1
  instructions a key tile and sub-partition. It has 25.9 and 23.4 of R2UR, VOTE and ELECT, which the
  machine issues and gives to no pipe. With them the work is 0.999 and 0.998. So Nsight Compute
  counts them for ALU. They are 7 % of a pipe that is free for 70 % of the time; the machine leaves
  them out.
* **fp8**: the period of this build is 2,017 cycles and the published one 2,349, as long as that of
  bf16 (2,335) within 1 %. The machine is 14 % too fast: its MUFU is taken 83 % of the time, the
  chip's 72 %. As the instructions are the same to 0.1 %, it is either a wait of 330 cycles a key
  tile that only half the multiplications uncover, or a shorter launch: the issue does not say
  whether both were of one shape, and a start and an end of a tenth of the time would do.
* **Which assembler** is a question of today's rows only: by ptxas 13.4 a tile takes 2,365 cycles,
  by 12.9 2,494. That 13.4 is 5 % faster was known when its rows were added.
* **Two CTAs of a pair hand S and P to one another** through barriers of the other CTA. How long an
  arrival takes there was a range from 0 to 200 cycles, 100 taken, and it moved the period most (7 %
  down, 8 % up). An H200 and an H100 were asked: 70. A B300's loads of the other CTA's memory are
  published, an H200's are alike, and an arrival is taken to be the same share of one: 76, 56 to 76.
  How it is inferred was committed before the chips were asked
  ([timing_probes.md](timing_probes.md)), with these rows known at 0, 100 and 200. At 100 the period
  by 12.9 was 2,537.
* **A wait sees an arrival later on Hopper than here**: 50 cycles on an H100 and an H200, 28 here
  (`wake_latency`, 5 to 43). It was found after the B200's values had been fixed for this round of
  predictions, and moves no row of this page by 2 %.
* **The latency of exponentials was mended after these rows had been seen.** Sources say 18 cycles
  from issue to result. The machine adds a latency to the 8 cycles of the unit; it had 18 as that
  latency, and has 10. A chain on an H200 takes 17.1 cycles each; its file has 8 + 9. Before, the
  period of FlashAttention-4 was 2,673 cycles.
"""
RATIOS_HEAD: Final = (
    "The time of one call over that of another on the same machine. Both are predicted with the",
    "same draws by `python -m benchmarks.timing.claims`. Each ratio is that of the build that was",
    "timed, as far as its source says it: PyPI's release of FlashAttention-4 of that week, the",
    "release of the CuTe DSL that it pins or asks for at least, with the libraries for the CUDA",
    "that the source names, and the assembler in them; another row has today's. The claims where",
    "that is not known have today's only, with the knob of the row changed. How a build is had is",
    "written in `benchmarks/timing/claims/builds.py`; the simulator runs all of them.",
    "",
    "The compiler is most of what \"another build\" was. The pair of CTAs of release b15 has 57",
    "loads from and stores to local memory when the DSL's libraries for CUDA 12 write its PTX, and",
    "none by those for CUDA 13, with the same ptxas: 1.235 of the cycles at 16K. So has DSL",
    "4.5.2 (61 and none); 4.6.0.dev0 has 73 by those for CUDA 13. Issue 2729 found the same.",
    "A machine that ran all keys at 1,374 TFLOPS (TIRx's) or 1,401 (pull request 2605's) had no",
    "spills: a pair that spills reaches 1,012 at 1,800 MHz (2869).",
)
LADDER_HEAD: Final = (
    "The kernels of gau-nernst/learn-cuda, `02e_matmul_sm100` at 1454f8b, bf16, 4096 cubed,",
    "predicted by `python -m benchmarks.timing.ladder` with nvcc 13.0. Published on a rented B200.",
)
KITTENS_HEAD: Final = (
    "The levels with tcgen05 of HazyResearch/ThunderKittens, `kernels/gemm/educational_b200`, at",
    "0b55588d, bf16, 4096 cubed. The lower ones, 6 to 55 TFLOPS, are loops on CUDA cores and wmma;",
    "they are not predicted. Published in that folder's README, for a B200. Level 9 is stopped: a",
    "CTA exits while its bulk store still reads its shared memory.",
)
NOT_PREDICTED: Final = """
## Published and not predicted

* **A B300's shares of pipes** (flash-attention issue 2701 of July 10). FlashAttention-4 takes
  `tcgen05.ld.red` there, a load from Tensor Memory with a maximum, since a commit of July 11
  (af049674), so what was timed had none; but it is code for sm_103, and the programs of this page
  compile for sm_100a.
* **A GB200's backward passes** (cudnn-frontend's files). What spreads tiles over SMs here knows
  forward kernels only; deterministic ones besides wait for other CTAs. cuDNN's own are not public.
* **TIRx's attention beside FlashAttention-4** (TIRx-kernels' baseline, 0.94 to 1.01). PyPI's
  `tirx-kernels` 0.1.2 with `apache-tvm` 0.27 writes its CUDA source without a GPU and nvcc 13.0
  takes it, but no column of this page asks for it yet. Its machine code is built with a register
  level of ptxas of its own for each problem. Its GEMMs, DeepGEMM's and cuBLAS's: not run.
* **The first machine of pull request 2605** is a GB300, as its own table says; its seven ratios
  stood here as a B200's. The code for its sm_103 is other code, and a B300's exponentials take half
  the time.
* **DSL 4.5.2 beside 4.4.2** (pull request 2605, B200: 1.23, 1.12, 1.07, 1.04 and 1.06 at 1K to
  16K): its libraries for CUDA 13 make code that takes the same time, 1.001, and those for CUDA 12
  one that spills and takes 1.2 at every length. What was timed takes 51 to 69 microseconds more
  at each length up to 8K, with as many CTAs in each.
* **Grouped heads**: the GB200's rows have 8 heads of keys for 64, FlashAttention-4 packs the
  queries that share one, and here each head has its own.
* **ThunderKittens' full kernel** (1,540 TFLOPS at 4096 cubed) and its blog's charts: not run.
"""
