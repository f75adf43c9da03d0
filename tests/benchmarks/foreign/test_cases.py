from __future__ import annotations

import math

import torch

from benchmarks.foreign.cases import Outcome, poisoned


def test_an_element_that_was_never_written_is_an_infinite_error() -> None:
    outcome = Outcome(poisoned(2, 2, dtype=torch.bfloat16), torch.ones(2, 2))
    assert math.isinf(outcome.max_error())
    assert not outcome.relative_error() <= 1e9


def test_the_worst_of_several_outputs_counts_and_equal_infinities_do_not_differ() -> None:
    infinite = torch.tensor([math.inf, 1.0])
    good = Outcome(infinite, infinite)
    assert (good.max_error(), good.relative_error()) == (0.0, 0.0)
    both = Outcome(infinite, infinite, (Outcome(torch.tensor([2.0]), torch.tensor([1.0])),))
    assert (both.max_error(), both.relative_error()) == (1.0, 1.0)


def test_errors_are_measured_against_the_reference() -> None:
    outcome = Outcome(torch.tensor([3.0, 4.5]), torch.tensor([3.0, 4.0]))
    assert outcome.max_error() == 0.5
    assert outcome.relative_error() == 0.1
