"""Tests of ``fa4_cute.distributed``."""
