"""Into how many splits keys fall that a call leaves open: what all architectures have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WORTH: Final = 0.95
"""Keys are split where the grid ends after this share of the time at the latest."""
MOST_ROUNDS: Final = 4
"""Beyond so many CTAs on each SM, nothing becomes more even."""


@dataclass(frozen=True)
class KeySplits:
    """The decision for splits: how many, and why."""

    num_splits: int
    reason: str

    @property
    def text(self) -> str:
        """The decision in words."""
        count = "1 split" if self.num_splits == 1 else f"{self.num_splits} splits"
        return f"{count} of the keys: {self.reason}"


def split_candidates(units: int, num_sms: int, most: int) -> tuple[int, ...]:
    """Return numbers of splits up to ``most`` that give all SMs as many CTAs, and 1.

    Args:
        units: CTAs when keys are not split.
        num_sms: SMs of the device.
        most: splits that are allowed.
    """
    full = (ctas * num_sms // units for ctas in range(1, MOST_ROUNDS + 1))
    return (1, *dict.fromkeys(min(count, most) for count in full if min(count, most) > 1))
