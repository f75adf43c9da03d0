"""Attention on a Hopper GPU, ours and others': the problems, what runs them, the clock, the page.

``benchmarks/hopper/attention_times.py`` is the program.
"""
