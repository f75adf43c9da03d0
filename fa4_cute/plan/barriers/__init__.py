"""Barriers: one table of who arrives and who waits, and pipelines over it."""
