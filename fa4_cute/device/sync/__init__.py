"""Waiting and arriving: mbarriers, named barriers, fences, and the same in a pair of CTAs."""
