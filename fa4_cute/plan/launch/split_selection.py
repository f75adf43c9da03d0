"""Where the partial results of splits that a caller asked for meet: rules, tried from the top.

A workspace takes any number of splits and every kernel, and costs a write and a read of float32
partial results and a second kernel. Where CTAs have one Q tile with few rows, the last CTA of a
query tile reads them instead: the same bits without a second launch. The CTAs of a cluster exchange
their results through shared memory, but must run at the same time and on SMs of one GPC, where
clusters of more than two leave SMs idle (``plan.facts.clusters``).

A cluster's results differ from the others' by rounding, and those of a number of splits that a
caller asked for are to be the same in any batch. So without a request for it a cluster is taken
only at the sizes that leave no SM idle, however many there are. Where the number is open too,
predicted times decide (``sm100_splits``), with clusters of four and eight as well.
Source: ``docs/sources.md`` section 9.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ..config.reduce_scatter import MAX_CLUSTER
from ..facts.clusters import clusters_at_once
from ..facts.hardware import SM_COUNT, TMEM_LANES
from ..spec.variant import Partition

CLUSTER_SIZES: Final = tuple(
    size
    for size in range(2, MAX_CLUSTER + 1)
    if clusters_at_once(SM_COUNT, size) * size == SM_COUNT
)
"""Clusters that leave none of ``SM_COUNT`` SMs idle."""
CLUSTER_DEPTHS: Final = (64, 128)
"""Smallest and largest head dimension of O for which a cluster is taken without a request."""
PLACES: Final = {
    Partition.CLUSTER: "in a cluster",
    Partition.LAST: "by the last CTA",
    Partition.WORKSPACE: "in a workspace",
}
"""Where partial results meet, in words; what comes first is taken where cycles are equal."""
FEW_ROWS: Final = 16
"""Rows up to which the last CTA of a query tile joins them sooner than a second launch, whatever
the number of splits: two rows a warp, by the costs of ``plan.config.predicted``."""


@dataclass(frozen=True)
class SplitWork:
    """Split keys as the rules see them.

    Attributes:
        num_splits: partitions of the keys, 2 or more.
        depth: columns of O.
        rows: rows of O that a CTA has, of all heads of its query tile.
        num_qo: Q tiles per CTA; None for a kernel without a choice.
        persistent: whether a CTA takes one query tile after the other.
        asked: what the caller insists on, or None.
    """

    num_splits: int
    depth: int
    rows: int = TMEM_LANES
    num_qo: int | None = None
    persistent: bool = False
    asked: Partition | None = None


@dataclass(frozen=True)
class SplitRule:
    """A row of the table.

    Attributes:
        name: what the rule looks at.
        partition: what it chooses.
        applies: whether it decides.
        reason: says why, in a sentence.
    """

    name: str
    partition: Partition
    applies: Callable[[SplitWork], bool]
    reason: Callable[[SplitWork], str]


def _fits_cluster(work: SplitWork) -> bool:
    """Whether O is as deep as clusters are taken for without a request."""
    return CLUSTER_DEPTHS[0] <= work.depth <= CLUSTER_DEPTHS[1]


def _told_idle(size: int) -> str:
    """Say how many SMs clusters of a size may take, of those that hold some."""
    if size > MAX_CLUSTER:
        return f"a cluster has at most {MAX_CLUSTER} CTAs"
    taken = clusters_at_once(SM_COUNT, size) * size
    return f"clusters of {size} may fill no more than {taken} of {SM_COUNT} SMs"


SPLIT_RULES: Final = (
    SplitRule(
        "cluster on request",
        Partition.CLUSTER,
        lambda work: work.asked is Partition.CLUSTER,
        lambda _: "as asked for",
    ),
    SplitRule(
        "last CTA on request",
        Partition.LAST,
        lambda work: work.asked is Partition.LAST,
        lambda _: "as asked for",
    ),
    SplitRule(
        "workspace on request",
        Partition.WORKSPACE,
        lambda work: work.asked is Partition.WORKSPACE,
        lambda _: "as asked for",
    ),
    SplitRule(
        "kernel",
        Partition.WORKSPACE,
        lambda work: work.num_qo != 1 or work.persistent,
        lambda _: "a cluster shares the keys of one Q tile, in a kernel that is not persistent",
    ),
    SplitRule(
        "size that fills",
        Partition.CLUSTER,
        lambda work: work.num_splits in CLUSTER_SIZES and _fits_cluster(work),
        lambda work: f"clusters of {work.num_splits} fill {SM_COUNT} SMs",
    ),
    SplitRule(
        "few rows",
        Partition.LAST,
        lambda work: work.rows <= FEW_ROWS,
        lambda work: f"{work.rows} rows a CTA are not worth a second launch",
    ),
    SplitRule(
        "depth",
        Partition.WORKSPACE,
        lambda work: not _fits_cluster(work),
        lambda work: (
            f"head dimension {work.depth} is not from {CLUSTER_DEPTHS[0]} to {CLUSTER_DEPTHS[1]}"
        ),
    ),
    SplitRule(
        "other sizes",
        Partition.WORKSPACE,
        lambda _: True,
        lambda work: _told_idle(work.num_splits),
    ),
)
"""The first rule that applies decides."""


@dataclass(frozen=True)
class SplitChoice:
    """The decision: where partial results meet, and why."""

    partition: Partition
    num_splits: int
    reason: str

    @property
    def text(self) -> str:
        """The decision in words."""
        return f"keys split in {self.num_splits}, joined {PLACES[self.partition]}: {self.reason}"


def choose_split(work: SplitWork) -> SplitChoice:
    """Return where the partial results of ``work`` meet."""
    rule = next(rule for rule in SPLIT_RULES if rule.applies(work))
    return SplitChoice(rule.partition, work.num_splits, rule.reason(work))
