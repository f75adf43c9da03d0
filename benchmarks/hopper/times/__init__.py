"""Attention on a Hopper GPU, ours beside others: the problems, what runs them, the clock, the page.

``benchmarks/hopper/attention_times.py`` is the program.
"""
