"""What the kernels write: O and the log-sum-exp, whole, in splits, or across a cluster."""
