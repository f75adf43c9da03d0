"""Launches as people write them: arguments as Python values, packed by the types of the PTX."""
