"""Tests of ``fa4_cute.plan.ranks``."""
