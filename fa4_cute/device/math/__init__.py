"""Arithmetic on registers and tiles: MMAs, exponentials, masks, packing."""
