from __future__ import annotations

import pytest

from fa4_cute.plan.facts.architectures import ARCHITECTURES, architecture_of


@pytest.mark.parametrize(
    ("capability", "name"),
    [((9, 0), "sm_90a"), ((10, 0), "sm_100a"), ((10, 3), "sm_100a"), ((8, 0), None),
     ((12, 0), None), ((9, 1), None)],
)  # fmt: skip
def test_devices_belong_to_an_architecture(capability: tuple[int, int], name: str | None) -> None:
    assert architecture_of(capability) == name


def test_a_binary_runs_where_it_was_compiled_for() -> None:
    assert {name: arch.cubin for name, arch in ARCHITECTURES.items()} == {
        "sm_100a": (10, 0), "sm_90a": (9, 0)
    }  # fmt: skip
