"""The search for free choices of kernels, ``fa4_cute.plan.config.tuning``, in the timing model."""
