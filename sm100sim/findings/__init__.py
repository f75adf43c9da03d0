"""Findings after the run: which of them are known and accepted."""
