"""FlashAttention-3 on an H100: predicted beside what FlashGPU-Sim's repository says was timed."""
