"""Barriers, mbarriers, fences and clusters."""
