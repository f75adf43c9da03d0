"""Why ratios are missed: what they have in common, their names, what is known."""

from __future__ import annotations

from typing import Final

CAUSES: Final = (
    ("Two builds of one CTA",
     "registers 200|stages|columns|pair of CTAs (that|over)|8K, one CTA",
     "MMAs of one CTA read both operands of Q K' at the whole rate of the shared memory's port, 64 "
     "wavefronts in 64 cycles, and go first. So in the machine a load of the correction warps "
     "stands until a chain of MMAs ends, 266 to 355 cycles each, on the critical path, and the "
     "order of ptxas's instructions decides which loads fall into one. Registers 200/88/24: the "
     "work of each pipe is the same to 0.1 %, the longest wait of the softmax warps grows by a "
     "third. That MMAs leave nothing is no drawn value. Its source has four of them take 627 "
     "cycles alone and 645 beside loads: 3 % for the loads. An experiment, replays of the same "
     "traces, left them that: found is that these ratios hang on it. The unchanged kernel takes "
     "5.1 % less, registers 1.035 instead of 1.089 of it, stages 1.210 (1.148), P after 64, 32 and "
     "0 columns 1.029 (0.999), 1.123 (1.142) and 1.143 (1.097), a pair that spills 1.332 (1.264). "
     "So what is not modelled is worth -5 to +7 % here. Stages, P after 0 columns and the pair "
     "go further off by it and the sign of the registers stays wrong, so how a B200 shares the "
     "port, and whether that is all, is a hypothesis. "
     "Two stages spill 15 and these registers 4 words by ptxas 13.3, the unchanged kernel none. "
     "Causal over all keys, both with one CTA: it moves that ratio of today's build, 32 heads at "
     "8K, from 0.544 to 0.573, and as much makes the predicted 0.515 of b11 0.543: a hypothesis."),
    ("Polynomials in fp8", "fp8",
     "by ptxas 13.1 the kernel with one of 8 spills, 80 loads and stores, with one of 10 none. The "
     "last number of the DSL's own assembler is another one (13.1.66 and 13.1.80), and what was "
     "timed cannot have lost 38 %. The spill here is found; that what was timed has none is a "
     "hypothesis."),
    ("A cell that its neighbours contradict", "1K.*b1 h32$|1K over 8K, b1 h32, all",
     "a disturbed one: TIRx's file has 33.1 us for all keys at 1K and 32 heads of keys, its file "
     "of August 7 (f495258) 20.7 for the same cell, and both have 20.0, 20.1 and 20.2 for 4, 8 and "
     "16 of them, which is as much work: found. With 20.7 the mask's ratio is 1.041 and the "
     "length's 1.686 (of 784.8 us at 8K): predicted 3.7 % below and 14 % above, the last as the "
     "clocks below have it. The rows of 32/16 heads are those of the other cells."),
    ("Clocks", "b1 h32|causal over all keys, [124]K$|32K over 8K|4K over (16|8)K",
     "the table of clocks below. TIRx's falls from 1.59 GHz at 1K to 1.35 at 8K, by as much with a "
     "mask as without, to 2 %: the masks of a build without spills are hit, the lengths are "
     "not. Pull request 2605's B200 "
     "has one clock for all keys at all lengths, and a higher one where a mask leaves much of the "
     "time to starts and ends: its lengths are hit and its masks are not. The GB200's falls at 32K "
     "by 15 %. That clocks are it is a hypothesis: no source gives its own by length. What holds "
     "one down is not modelled. That no launch or start of a CTA makes up for it is found: the low "
     "ends of their ranges are worth 4 and 3 % at 1K and 1 % at 4K."),
    ("Polynomials at d256", "d256",
     "two misses in one. The sign hangs on the order in which warps issue, found by the end of a "
     "range: `greedy` 0 alone leaves no loss, at each length; which of the two a B200 does "
     "is not known. The published gain grows from 0.7 to 7.4 % between 16K and 128K, where one "
     "loop takes all the time and the machine has the same gain at each length. A clock that "
     "falls less beside polynomials would do that: a hypothesis, and one that fails if the 1,755 "
     "MHz that pull request 2488 names were held."),
    ("A mask", "causal over all keys",
     "a causal launch has one CTA where the other has a pair, and short CTAs, so what begins and "
     "ends one counts: `cta_cycles`, 1,200 of one source, 300 to 1,300, and the low end alone "
     "would close it: a hypothesis."),
    ("An older source", "degree 2",
     "the pull request is of March 7 and changes what was then: other registers, and shares that "
     "are tuned since March 25 (b2176fd3). Its figure is a mean over masks and groups of heads. "
     "A hypothesis: that source was not run."),
    ("The spill fix", "spilling over",
     "it is the same spill, found: pull request 2869 counts 21 LDL and 18 STL a key tile and warp "
     "with 176/88/72 registers (DSL 4.6.2), and so does the loop here (4.8.1, ptxas 13.4: stack of "
     "112 bytes, 128 bytes of stores, 152 of loads; 63 instructions in all); with 184/80/64 both "
     "have none. So another spill, which stood here as the reason, is refuted. What is short is "
     "what 39 of them cost: 4 to 5 % of the ratio, which `branch_cycles` 8 instead of 12 alone "
     "would close. That it is this one is a hypothesis."),
    ("Near", "O by bulk",
     "60 shapes gave 1.171 to 1.264 for O by bulk copy, which both rows are within: found. The "
     "published value is their mean, and that of this shape is not known."),
    ("The LSE", "O alone over",
     "that a kernel which also writes the LSE is faster is found: no kernel here touches local "
     "memory, and by ptxas 13.3 O alone takes 5.09 million cycles for 32 x 16K, as O by bulk copy "
     "does for 128 x 8K (5.10), which is as much work; with the LSE 4.05, and O from registers "
     "4.10. So two changes at the end of a query tile leave the same slow schedule of its loop, "
     "and with 13.4 it is gone (0.94 to 0.96). Issue 2729 and pull request 2809 are 3.8 % apart at "
     "16K, and the second names no DSL: that of the first is taken. The schedule costs 5 to "
     "10 % too much here; `mufu_latency` 12 instead of 10 would close most: a hypothesis."),
)  # fmt: skip
