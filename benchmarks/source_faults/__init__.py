"""The faults of ``benchmarks.source_mutants``, by the storey of the source they are planted in."""

from __future__ import annotations

from typing import Final

from benchmarks.source_anchors import Fault
from benchmarks.source_faults.device import DEVICE
from benchmarks.source_faults.operands import OPERANDS
from benchmarks.source_faults.output import OUTPUT
from benchmarks.source_faults.plan import PLAN
from benchmarks.source_faults.roles import ROLES
from benchmarks.source_faults.roles_depth512 import ROLES_DEPTH512
from benchmarks.source_faults.work import WORK

FAULTS: Final[tuple[Fault, ...]] = (
    *PLAN, *DEVICE, *OUTPUT, *OPERANDS, *WORK, *ROLES, *ROLES_DEPTH512
)  # fmt: skip
