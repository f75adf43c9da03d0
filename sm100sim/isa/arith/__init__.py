"""Arithmetic, comparison, conversion and moves of registers."""
