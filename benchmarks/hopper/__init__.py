"""Programs of the simulator that a Hopper GPU runs too: recorded, replayed there, compared."""
