"""Tests of flash-attn's names and of SDPA's layout."""
