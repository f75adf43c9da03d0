"""Attention in float64, and how results are held against it."""
