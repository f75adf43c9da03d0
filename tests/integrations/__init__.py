"""Tests of what registers with other programs."""
