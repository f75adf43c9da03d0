"""What a call costs on the host, measured; ``python -m benchmarks.call_cost``."""
