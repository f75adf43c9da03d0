"""Attention of several packages on the same problems: rows of predictions, and their page."""
