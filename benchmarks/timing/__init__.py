"""What the clocked machine is held to: programs that ask a chip for latencies and rates."""
