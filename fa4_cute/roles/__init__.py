"""Warp roles of the attention kernel, one file and one function each."""
