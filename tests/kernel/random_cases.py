"""What only widens the search, and how it is searched: each case compiles a kernel, for seconds."""

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

EXAMPLES = "FA4_CUTE_COMBINATIONS"
"""Environment variable with the number of cases; with it, other cases every time."""


def also(*rows: Any) -> list[Any]:
    """Return parameters that only widen the search."""
    return [
        pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.exhaustive)
        for row in rows
    ]


def searched(few: int, variable: str = EXAMPLES) -> settings:
    """Return the settings of a search, of ``few`` cases unless the environment says otherwise."""
    return settings(
        max_examples=int(os.environ.get(variable, few)),
        deadline=None,
        derandomize=variable not in os.environ,
        database=None,
        # Shrinking would compile a hundred kernels; the first failing case says enough.
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
