"""What the page on a B200 says beside its tables."""

from __future__ import annotations

from typing import Final

REASONS: Final = """
What is known of the misses:

* **Which build.** The issue does not say it. The tables above the last are of today's release,
  whose PTX the DSL's libraries for CUDA 12 write. Release b15, written by those for CUDA 13 of DSL
  4.4.2, has the published instructions: work of XU, FMA and issue is 0.999 to 1.001 of what was
  counted in bf16 and in fp8, where today's fp8 has 1.20 for FMA. Its period in bf16 is 2,349 cycles
  of at most 2,335, and the shares of tensor, XU, FMA and issue are within 0.5 points.
* **ALU** had 7 % less work than published, in bf16, and 6 % less in this build's fp8: 26.3 and 24.1
  instructions a key tile and sub-partition. It has 25.9 and 23.4 of R2UR, VOTE and ELECT, which the
  machine issues and gives to no pipe. With them the work is 0.999 and 0.998. So Nsight Compute
  counts them for ALU. They are 7 % of a pipe that is free for 70 % of the time; the machine leaves
  them out.
* **fp8**: the period of this build is 2,017 cycles (2,028 to 2,062 by which lengths it is taken
  from) and the published one 2,349, as long as that of bf16 (2,335) within 1 %. The instructions
  are the same to 0.1 %. The issue's B300 columns are of this build too: for sm_103a, with the
  registers and without the polynomials of its B300 table, it has 1.000 of the work of XU, FMA and
  issue and 0.998 of ALU with what is beside. There the published period is 1,855 in fp8, the
  machine's 1,677 (1,720 to 1,803 in three draws); in bf16 they are 2,050 and 2,097 (to 2,128). So
  it is a wait that the machine lacks, 330
  cycles a key tile on a B200 and 180 on a B300, where an exponential takes half the time. It is no
  start or end of a launch, if the columns are of one shape: a B300's tensor core is busy for
  99.9 % in bf16. Which wait is not known. The trace, replayed with one thing changed at a time
  (from 2,030 to 2,062 as it is; bf16 2,349, which must not get longer):

  | changed | fp8 | bf16 | what is known of it |
  |---|---|---|---|
  | conversion 4 cycles, not 2 | 2,105 | 2,349 | an H200: 2.0, as to bf16; a B300: 2 or 4 |
  | conversion 8 cycles | 2,323 | 2,341 | refuted by both |
  | it takes the MUFU too, 2 cycles | 2,353 | 2,587 | an H200: 0.5 to 1.1, bf16 more than e4m3 |
  | the same of e4m3 alone | 2,352 | 2,349 | refuted by that; no source has it for Blackwell |
  | result of e4m3 2, 4 cycles later | 2,230, 2,308 | 2,349 | a B300's takes 4, as ptxas has it |
  | store to Tensor Memory 160 later | 2,421 | 2,693 | refuted by bf16, unless of 8 bits only |
  | load from Tensor Memory 120 later | 2,394 | 2,549 | refuted by bf16 |
  | multiplications twice as long | 2,382 | 4,096 | refuted by the tensor core's share |
  | operands of all MMAs read twice | 2,219 | 2,399 | no source |
  | of P V only, as for V across | 2,062 | 2,348 | closes nothing |
  | hand-over to another warp 40 later | 2,073 | 2,406 | refuted by bf16 |
  | an exponential 9, 10 cycles | 2,115, 2,240 | 2,375, 2,508 | 8 is published; refuted by bf16 |

  Ends of ranges move it from 2,033 to 2,109. No single change that bf16 allows and a probe or a
  source supports closes it. The order in which the two softmax warps of a sub-partition issue is
  worth as much: without the 64 PRMT, less work, the machine takes 2,273 cycles; with one chain
  100 to 1,500 cycles late 1,976 to 1,992; and the draws' 2,023 to 2,197. Those two alternate in
  each of these, half a period apart.
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
LADDER_KNOWN: Final = """
What is known of the misses:

* **v3 and v4** stood in the other order until 30 November (tau 0.89): each copy was charged as one
  of rows that no other SM reads, 68 bytes a cycle. Each row of A is read by 16 to 32 CTAs, and an
  H200 gives SMs 74 bytes a cycle of such rows where they get 33.5 of their own. How many a B200
  gives no source here says: `l2_shared_bytes` is inferred, 100 of 68 to 120. **These rows had been
  seen with 72, 95, 111 and 120 when it was chosen**, from two shares of an H200's (0.67 of what one
  SM alone gets: 80; 2.2 times own rows: all of the 120). The order holds from 80 to 115; at 120 v4
  is 1.4 % faster than v5, at 68 10 % slower than v3. v4's tiles of 128 x 128 ask for 128 bytes a
  cycle and SM at the rate of their MMAs, so their cycles are those of this value.
* **v1a and v1b, v7a to v7c** are the same work; the README says that runs vary by "quite a bit".
  148 or 128 CTAs share 256 tiles of a pair in four rounds, and stores past the L1 cost no cycle
  here.
* **The last column is a clock**, for what the tensor core or the L2 holds: 1.36 to 1.50 at 1,965
  MHz is 1.31 to 1.45 GHz, where pull request 2605's B200 has 1.31 to 1.37 (above). v1, which waits
  most of the time, has 1.07 and v2 1.20 to 1.24; that fits a chip whose clock falls with its power.
""".strip().split("\n")
KITTENS_HEAD: Final = (
    "The levels with tcgen05 of HazyResearch/ThunderKittens, `kernels/gemm/educational_b200`, at",
    "0b55588d, bf16, 4096 cubed. The lower ones, 6 to 55 TFLOPS, are loops on CUDA cores and wmma;",
    "they are not predicted. Published in that folder's README, for a B200. In level 9 a CTA exits",
    "while its bulk store still reads its shared memory, a finding.",
)
NOT_PREDICTED: Final = """
## Published and not predicted

* **A B300's shares of pipes** (flash-attention issue 2701 of July 10). FlashAttention-4 takes
  `tcgen05.ld.red` there, a load from Tensor Memory with a maximum, since a commit of July 11
  (af049674), so what was timed had none. The programs of this page compile for sm_100a. Once,
  beside them, release b15 with its B300 table was compiled for sm_103a: in bf16 tensor 97.7 (99.9
  published), XU 49.2 (50.3), FMA 12.8 (13.1), ALU and beside 30.3 (31.0), issue 45.2 (46.3), all
  within 3 points; in fp8 61.0 (55.2), 61.5 (55.7), 16.5 (14.9), 45.0 (40.8), 60.4 (54.6).
* **Backward passes** of FlashAttention-4: a GB200's (cudnn-frontend's files), a B200's by pairs and
  by one CTA (pull request 2280, 1.08 to 1.09; the report of July 2026, 1.05 to 1.08), TIRx's beside
  them. The simulator runs them; what spreads tiles over SMs here knows forward kernels only, and
  deterministic ones besides wait for other CTAs.
* **cuDNN's and cuBLAS's kernels** (that report's, cudnn-frontend's and learn-cuda's tables): not
  public, so there is no machine code to replay without them. cudnn-frontend's own open kernel
  (FROST, 1,492 and 1,520 TFLOPS at 32K): not run.
* **Triton's attention in the report of July 2026** (its tutorial, automatic roles, TLX and joint
  schedules, 481 to 871 TFLOPS) and **Triton's pull requests 407, 517, 1521, 1591, 1654, 2799, 3395
  and 3590**, most of them MXFP8: kernels by the compiler of facebookexperimental/triton at that
  time, which is not built here.
* **Sources of a GB300 or SM103**: pull request 2738 (three ratios, 1.06 to 1.19) and vllm's
  flash-attention 131 (a load from Tensor Memory with a maximum, which a B200 does not have).
* **One of a B200 without a row**: pull request 2455 is a mean over 6,135 cases of choices between
  schedulers (1.035).
* **TIRx's other kernels** (TIRx-kernels' baseline): its GEMMs beside DeepGEMM's and cuBLAS's, and
  attention with fewer heads of keys, whose source is another one.
* **The first machine of pull request 2605** is a GB300, as its own table says; its seven ratios
  stood here as a B200's. The code for its sm_103 is other code, and a B300's exponentials take half
  the time.
* **DSL 4.5.2 beside 4.4.2** (pull request 2605, B200: 1.23, 1.12, 1.07, 1.04 and 1.06 at 1K to
  16K): its libraries for CUDA 13 make code that takes the same time, 1.001, and those for CUDA 12
  one that spills and takes 1.2 at every length. What was timed takes 51 to 69 microseconds more
  at each length up to 8K, with as many CTAs in each.
* **Grouped heads**: the GB200's rows have 8 heads of keys for 64, FlashAttention-4 packs the
  queries that share one, and here each head has its own.
* **ThunderKittens' full kernel** (1,540 TFLOPS at 4096 cubed) and its blog's charts: not run. Nor
  were learn-cuda's kernels at 2048 and 8192 cubed and its two timelines of a kernel's roles, nor
  the ladders of Modular's matmul series (Mojo), of the TIRx course (its ends only) and of CUTLASS's
  notebook (450 to 880 with prefetch).
"""

TIRX_KNOWN: Final = """
PyPI's `tirx-kernels` 0.1.2 with `apache-tvm` 0.27.0 writes CUDA source without a GPU, another for
each length, number of heads and mask, and nvcc 13.0 makes PTX of it; `SM100SIM_TIRX` names their
Python (`benchmarks/timing/side_by_side/tirx.py`). In the simulator 512 queries and keys of two
heads are within 0.0003 of float64 over all keys, causal within 0.0008, with one finding: a warp
loads from Tensor Memory with an address that names lane 0 and not its own first.

* **What was timed.** The file of August 7 names FlashAttention-4 at 00756db9 (after b21), DSL
  4.6.1, CUDA 13.2, and TIRx-kernels f9ca43d5. Neither is on PyPI: rows are of release 0.1.2, of
  September, by ptxas 13.4, beside today's FlashAttention-4 and b15, which do not spill. b22 with
  DSL 4.6.1 for CUDA 13 was tried and asks for a driver here. Timed was fp16; TIRx's is fp16 here
  too, FlashAttention-4's bf16. Another file (02e874f) repeats some cells: its 1K without a mask and
  2K with one take 1.6 times as long in both kernels, and the ratios are the same to 1.2 %.
* **Registers decide the causal rows: found.** The level of register usage that TIRx asks ptxas for
  is part of its source. That of August asks for 4 at 1K and 5 beyond, which take the same cycles
  here; 0.1.2 asks for 2. With 2 a key tile takes 2,454 cycles and not 2,253, and the rows would be
  1.006, 1.007, 1.028 and 1.047 over today's. The causal rows have the levels of August, the column
  of [side_by_side.md](side_by_side.md) has those of 0.1.2. At 1K its causal kernel has other stages
  than that of 2,048 keys, which says what start and keys cost.
* **All keys at 4K and 8K: a hypothesis.** A key tile of TIRx's one CTA takes 2,420 cycles, one of
  FlashAttention-4's pair 2,367. Operands of a CTA alone take the whole port of shared memory, and
  loads of its correction warps wait for them, as below. Were 3 % of the port left for loads, as a
  published probe suggests, TIRx's tile would take 2,205, the pair's as before, and the rows would
  be 0.927, 0.933, 0.934 and 0.933: at 4K and 8K too low by more than they are too high now. A
  share between would hit them; no source has it, and nothing was taken over.
* **An older figure had an error of its own.** These ratios once stood here as 1.033 at 4K and 1.048
  at 8K over b15: three CTAs of 512 and 2,048 keys had told what start, tiles and keys cost. Those
  of now, with up to four query tiles, agree to 0.1 % with the first CTA of 4,096 and 8,192 keys of
  its own source.
* By ptxas 13.2 all keys take 0.4 % less and causal 0.1 %. By 13.4 there are 3 to 7 loads from and
  stores to local memory over all keys, by 13.2 and 13.0 none: no cause of anything here.
""".strip()
"""What stands below the table of TIRx's attention."""
