"""Masks as intervals, and the key tiles that a query tile visits."""
