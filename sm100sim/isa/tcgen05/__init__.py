"""Tensor Memory and the 5th generation tensor cores."""
