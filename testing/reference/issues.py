"""The accumulations of a persistent CTA: those of one query tile behind another, as they run on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fa4_cute.plan.spec.issue_order import Issue, IssueOrder


def issues_in_turn(
    order: IssueOrder, query_tiles: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, Issue]]:
    """Yield (number of the query tile, accumulation) of those that a persistent CTA takes.

    ``query_tiles``: of each, how many key tiles it has and how many are hidden from chain 0.
    """
    held: list[tuple[int, Issue]] = []
    for number, (num_key_tiles, num_hidden) in enumerate(query_tiles):
        issues = [(number, issue) for issue in order.issues(num_key_tiles, num_hidden)]
        first, rest = issues[: len(held)], issues[len(held) :]
        yield from [*first, *held]
        held = rest[-1:] if order.runs_on else []
        yield from rest[: len(rest) - len(held)]
    yield from held
