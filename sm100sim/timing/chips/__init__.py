"""Chips as data: one TOML file each, every value with its unit, status and source."""

from .load import Chip, Draw, Parameter, chip_names, load_chip

__all__ = ["Chip", "Draw", "Parameter", "chip_names", "load_chip"]
