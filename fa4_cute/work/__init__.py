"""Whose turn it is: the work tile of a CTA, its sequence, its rows, and what roles share."""
