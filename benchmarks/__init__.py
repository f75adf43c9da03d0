"""Benchmarks: numbers the documentation quotes, each from one command."""
