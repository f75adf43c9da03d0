"""Which kernel serves a problem, or why none does."""
