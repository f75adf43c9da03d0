"""Tests of what the benchmarks promise."""
