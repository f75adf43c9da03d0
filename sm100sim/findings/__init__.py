"""Findings after the run: which are known and accepted, and in which formats they are written."""
