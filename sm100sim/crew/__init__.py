"""A launch on the engine: machines, the threads they run in, and what they tell together."""
