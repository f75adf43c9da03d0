"""What the kernels write: O and the log-sum-exp, whole, in shares, or across a cluster."""
