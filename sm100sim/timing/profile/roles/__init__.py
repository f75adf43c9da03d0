"""Roles: warps that run the same code, what they do, and which ones of two kernels correspond.

`groups` finds the roles of a run, `jobs` says what each does, `pairs` holds those of two runs
against each other.
"""

from .groups import Role, Warps, roles_of
from .pairs import Pair, paired

__all__ = ["Pair", "Role", "Warps", "paired", "roles_of"]
