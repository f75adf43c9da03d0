"""``Members``: a process group, and this process's place in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..host.ask.checks import kind_of


@dataclass(frozen=True, eq=False)
class Members:
    """The ranks of a process group.

    Attributes:
        group: the process group of ``torch.distributed``.
        rank: this process's rank within the group.
        ranks: how many there are.
    """

    group: Any
    rank: int
    ranks: int

    @classmethod
    def of(cls, group: Any) -> Members:
        """Return the members of ``group``, by default of the default group.

        Raises:
            TypeError: it is no process group.
            ValueError: there is no default group, or this process is not in the group.
        """
        import torch.distributed as dist

        if not dist.is_available() or not dist.is_initialized():
            raise ValueError(
                f"group={group!r}: torch.distributed has no process group yet; nearest supported "
                f"choice: torch.distributed.init_process_group(...) first, also for a single rank"
            )
        if group is dist.GroupMember.NON_GROUP_MEMBER:
            raise ValueError(
                "group: this process is not one of its ranks; nearest supported choice: call on "
                "the ranks of the group only"
            )
        group = dist.group.WORLD if group is None else group
        if not isinstance(group, dist.ProcessGroup):
            raise TypeError(
                f"group={kind_of(group)}: expected a ProcessGroup of torch.distributed, or None "
                f"for the default one"
            )
        return cls(group, dist.get_rank(group), dist.get_world_size(group))

    def global_rank(self, rank: int) -> int:
        """Return the number, in the default group, of rank ``rank`` modulo their number."""
        import torch.distributed as dist

        return int(dist.get_global_rank(self.group, rank % self.ranks))

    def gather_bytes(self, mine: Any) -> Any:
        """Return the bytes of all ranks (ranks, bytes); every rank gives equally many."""
        import torch.distributed as dist

        found = mine.new_empty((self.ranks, mine.numel()))
        # The same collective under its name from torch 2.13 on, and before.
        single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        single(found.view(-1), mine, group=self.group)
        return found

    def gathered(self, value: Any) -> list[Any]:
        """Return the small picklable ``value`` of every rank; waits for all of them."""
        import torch.distributed as dist

        found: list[Any] = [None] * self.ranks
        dist.all_gather_object(found, value, group=self.group)
        return found
