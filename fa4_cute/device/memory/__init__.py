"""Loads, stores and copies: global, shared, distributed and Tensor Memory."""
