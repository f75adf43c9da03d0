"""Attention over several ranks: who holds which rows, and what a rank computes in which step."""
