"""Tiles, staging and budgets: what a kernel is configured to."""
