"""The issue order, simulated: nothing is read before it is there or overwritten while needed."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa4_cute.plan.barriers.chains import NUM_CHAINS
from fa4_cute.plan.spec.issue_order import IssueOrder, OneChain
from testing.reference.issues import issues_in_turn

COUNTS = range(10)
BOTH = pytest.mark.parametrize("num_qo", [1, 2])
ORDERS = (IssueOrder(1), IssueOrder(2), IssueOrder(2, crosses=True))
ALL = pytest.mark.parametrize("order", ORDERS, ids=["one", "two", "crossed"])


@ALL
@pytest.mark.parametrize("num_tiles", COUNTS)
def test_every_query_tile_meets_every_key_tile_once(order: IssueOrder, num_tiles: int) -> None:
    for product in "SO":
        met = Counter(
            (i.query_tile, i.key_tile) for i in order.issues(num_tiles) if i.product == product
        )
        assert met == Counter((q, k) for q in range(order.num_qo) for k in range(num_tiles))


@BOTH
@pytest.mark.parametrize("num_tiles", COUNTS)
def test_scores_wait_until_their_chain_is_used_up(num_qo: int, num_tiles: int) -> None:
    """S of a chain is overwritten only after P V that used it, and P V finds the right scores."""
    held: dict[int, tuple[int, int]] = {}
    for issue in IssueOrder(num_qo).issues(num_tiles):
        where = (issue.query_tile, issue.key_tile)
        if issue.product == "S":
            assert issue.chain not in held
            held[issue.chain] = where
        else:
            assert held.pop(issue.chain) == where
    assert not held


@pytest.mark.parametrize("num_tiles", COUNTS)
def test_crossed_scores_wait_until_the_p_in_their_columns_is_used_up(num_tiles: int) -> None:
    """S of a chain, its group's reading of it, and P of the other chain take turns.

    P is stored as late as it can be: in front of its P V. The second S0 follows a reading alone.
    """
    lies: dict[int, tuple[str, int]] = {}
    for issue in ORDERS[2].issues(num_tiles):
        if issue.product == "S":
            if (issue.chain, issue.key_tile) == (0, 1):
                assert lies[0] == ("S", 0)
            elif issue.key_tile:
                assert lies[issue.chain] == ("P", issue.key_tile - 2 + issue.chain)
            lies[issue.chain] = ("S", issue.key_tile)
        else:
            last = num_tiles - 1
            read = min(issue.key_tile + issue.chain, last)
            was_p = issue.chain == 1 and issue.key_tile == last > 0
            expected = ("P", last - 1) if was_p else ("S", read)
            assert lies[1 - issue.chain] == expected
            lies[1 - issue.chain] = ("P", issue.key_tile)


@ALL
@pytest.mark.parametrize("num_tiles", COUNTS)
def test_only_the_first_values_of_a_chain_overwrite(order: IssueOrder, num_tiles: int) -> None:
    outputs = [i for i in order.issues(num_tiles) if i.product == "O"]
    for chain in range(NUM_CHAINS):
        flags = [i.accumulate for i in outputs if i.chain == chain]
        assert flags == [n > 0 for n in range(len(flags))]


@ALL
@pytest.mark.parametrize("num_tiles", COUNTS)
def test_a_tile_is_waited_for_first_and_freed_last(order: IssueOrder, num_tiles: int) -> None:
    issues = list(order.issues(num_tiles))
    for product in "SO":
        for tile in range(num_tiles):
            uses = [i for i in issues if (i.product, i.key_tile) == (product, tile)]
            assert [i.waits for i in uses] == [n == 0 for n in range(len(uses))]
            is_freed = (product, tile) != ("O", num_tiles - 1)
            last = len(uses) - 1
            assert [i.releases for i in uses] == [is_freed and n == last for n in range(len(uses))]


def left_in_ring(
    order: IssueOrder, num_slots: int, num_tiles: int, lead: int = 0
) -> list[tuple[str, int]]:
    """Load and use all tiles, each of which has to be there when it is used; return what stays."""
    pending = list(order.loads(num_tiles, lead=lead))
    ring: list[tuple[str, int] | None] = [None] * num_slots
    slot = 0
    for issue in order.issues(num_tiles, lead=lead):
        while pending and ring[slot] is None:
            ring[slot], slot = pending.pop(0), (slot + 1) % num_slots
        tile = ("K" if issue.product == "S" else "V", issue.key_tile)
        assert tile in ring
        if issue.releases:
            ring[ring.index(tile)] = None
    assert not pending
    return [tile for tile in ring if tile]


@ALL
@pytest.mark.parametrize("num_slots", [2, 3, 5])
@pytest.mark.parametrize("num_tiles", COUNTS)
def test_a_shared_ring_never_blocks(order: IssueOrder, num_slots: int, num_tiles: int) -> None:
    """Loads take slots in ring order as they come free; the MMA role finds each tile loaded."""
    assert left_in_ring(order, num_slots, num_tiles) == [("V", num_tiles - 1)] * bool(num_tiles)


APART = IssueOrder(2, crosses=True, ends_apart=True)


@pytest.mark.parametrize("num_tiles", COUNTS)
def test_an_order_that_ends_apart_is_the_crossed_one_where_nothing_is_hidden(
    num_tiles: int,
) -> None:
    assert list(APART.issues(num_tiles)) == list(ORDERS[2].issues(num_tiles))


@pytest.mark.parametrize("num_tiles", range(2, 10))
def test_the_first_chain_leaves_out_the_hidden_tile(num_tiles: int) -> None:
    issues = list(APART.issues(num_tiles, 1))
    for product in "SO":
        met = Counter((i.chain, i.key_tile) for i in issues if i.product == product)
        assert met == Counter(
            (chain, tile) for chain in range(NUM_CHAINS) for tile in range(num_tiles)
        ) - Counter([(0, num_tiles - 1)])
        uses = [i for i in issues if (i.product, i.key_tile) == (product, num_tiles - 1)]
        assert [(i.waits, i.releases) for i in uses] == [(True, product == "S")]
    assert [APART.num_tiles(chain, num_tiles, 1) for chain in range(NUM_CHAINS)] == [
        num_tiles - 1, num_tiles
    ]  # fmt: skip


LEADING = IssueOrder(2, crosses=True, ends_apart=True, starts_apart=True)


@pytest.mark.parametrize("num_tiles", COUNTS)
def test_where_the_second_chain_leads_each_leaves_out_a_tile(num_tiles: int) -> None:
    """The same products in the same order, chain 1 with the key tile after."""
    issues = list(LEADING.issues(num_tiles, lead=1))
    together = list(LEADING.issues(num_tiles))
    assert [(i.product, i.chain, i.key_tile - i.chain, i.accumulate) for i in issues] == [
        (i.product, i.chain, i.key_tile, i.accumulate) for i in together
    ]
    assert list(LEADING.loads(num_tiles, lead=1)) == list(LEADING.loads(num_tiles + 1))[
        : 2 * (num_tiles + 1) * bool(num_tiles)
    ]


@pytest.mark.parametrize("num_tiles", range(1, 10))
def test_a_chain_that_leads_reads_first_and_the_other_frees(num_tiles: int) -> None:
    issues = list(LEADING.issues(num_tiles, lead=1))
    for product in "SO":
        for tile in range(num_tiles + 1):
            uses = [i for i in issues if (i.product, i.key_tile) == (product, tile)]
            assert [i.chain for i in uses] == [1] * (tile > 0) + [0] * (tile < num_tiles)
            assert [i.waits for i in uses] == [n == 0 for n in range(len(uses))]
            is_freed, last = (product, tile) != ("O", num_tiles), len(uses) - 1
            assert [i.releases for i in uses] == [is_freed and n == last for n in range(len(uses))]


@pytest.mark.parametrize("num_slots", [3, 4, 5])
@pytest.mark.parametrize("num_tiles", range(1, 10))
def test_a_shared_ring_never_blocks_a_chain_that_leads(num_slots: int, num_tiles: int) -> None:
    assert left_in_ring(LEADING, num_slots, num_tiles, lead=1) == [("V", num_tiles)]


@pytest.mark.parametrize("num_hidden", [0, 1])
@pytest.mark.parametrize("num_tiles", range(2, 10))
def test_nothing_lies_where_the_last_p_of_the_first_chain_does(
    num_tiles: int, num_hidden: int
) -> None:
    """It has half of its own S, P of chain 1 the other half; the last S1 meets no P at all."""
    low, high = ("S", 0), ("S", 0)
    second: tuple[str, int] = ("S", 0)
    last = num_tiles - 1 - num_hidden
    for issue in APART.issues(num_tiles, num_hidden):
        what = (issue.product, issue.key_tile)
        if what[0] == "S" and issue.chain == 0:
            assert high == (("S", issue.key_tile - 1) if issue.key_tile else high)
            low = high = what
        elif what[0] == "S":
            is_alone = issue.key_tile > last
            assert second[0] == ("S" if is_alone or not issue.key_tile else "P")
            second = what
        elif issue.chain == 0 and issue.key_tile == last:
            assert high == ("S", last)
            high = ("P", last)
        elif issue.chain == 0:
            assert second == ("S", issue.key_tile)
            second = ("P", issue.key_tile)
        else:
            read = min(issue.key_tile + 1, last)
            assert low in (("S", read), ("P", issue.key_tile - 1))
            low = ("P", issue.key_tile)


@pytest.mark.parametrize(
    ("num_tiles", "text"),
    [
        (2, "S0(0) S1(0) S1(1) O0(0) O1(0) O1(1)"),
        (3, "S0(0) S1(0) S0(1) O0(0) S1(1) O1(0) S1(2) O0(1) O1(1) O1(2)"),
    ],
)
def test_the_order_with_a_hidden_tile(num_tiles: int, text: str) -> None:
    issues = APART.issues(num_tiles, 1)
    assert " ".join(f"{i.product}{i.chain}({i.key_tile})" for i in issues) == text


@pytest.mark.parametrize(
    ("order", "longest", "may_lack"),
    [(ORDERS[0], 0, [1]), (ORDERS[1], 0, []), (ORDERS[2], 0, []), (APART, 1, [0])],
)
def test_which_chain_may_lack_a_key_tile(
    order: IssueOrder, longest: int, may_lack: list[int]
) -> None:
    assert order.longest == longest
    assert [chain for chain in range(NUM_CHAINS) if order.may_lack_one(chain)] == may_lack
    assert [order.ends_early(chain) for chain in (0, 1)] == [order.ends_apart, False]


@BOTH
@pytest.mark.parametrize("num_tiles", range(1, 10))
def test_two_products_lie_between_scores_and_their_use(num_qo: int, num_tiles: int) -> None:
    """One P V and one S, of the other chain: except at the ends, where there is none."""
    issues = list(IssueOrder(num_qo).issues(num_tiles))
    for at, issue in enumerate(issues):
        if issue.product == "S" and 0 < at < len(issues) - 2:
            use = next(
                i for i in range(at, len(issues))
                if issues[i].product == "O" and issues[i].chain == issue.chain
            )  # fmt: skip
            between = issues[at + 1 : use]
            assert all(i.chain != issue.chain for i in between)
            assert [i.product for i in between] == (["O", "S"] if use < len(issues) - 1 else ["O"])


def test_counts_of_a_single_query_tile() -> None:
    order = IssueOrder(1)
    for num_tiles in COUNTS:
        counts = [order.num_tiles(chain, num_tiles) for chain in range(NUM_CHAINS)]
        assert counts == [(num_tiles + 1) // 2, num_tiles // 2]
        found = [order.key_tile(c, n) for c in range(NUM_CHAINS) for n in range(counts[c])]
        assert sorted(found) == list(range(num_tiles))


@pytest.mark.parametrize(
    ("which", "num_tiles", "text"),
    [
        (1, 1, "S0(0) O0(0)"),
        (1, 2, "S0(0) S1(1) O0(0) O1(1)"),
        (1, 3, "S0(0) S1(1) O0(0) S0(2) O1(1) O0(2)"),
        (1, 4, "S0(0) S1(1) O0(0) S0(2) O1(1) S1(3) O0(2) O1(3)"),
        (2, 1, "S0(0) S1(0) O0(0) O1(0)"),
        (2, 2, "S0(0) S1(0) O0(0) S0(1) O1(0) S1(1) O0(1) O1(1)"),
        (3, 1, "S0(0) S1(0) O0(0) O1(0)"),
        (3, 3, "S0(0) S1(0) S0(1) O0(0) S1(1) O1(0) S0(2) O0(1) S1(2) O1(1) O0(2) O1(2)"),
    ],
)
def test_the_order_of_the_design(which: int, num_tiles: int, text: str) -> None:
    """Sections 5.5 of the design, written out; the third order is the crossed one."""
    issues = ORDERS[which - 1].issues(num_tiles)
    assert " ".join(f"{i.product}{i.chain}({i.key_tile})" for i in issues) == text


@BOTH
def test_every_chain_belongs_to_one_query_tile(num_qo: int) -> None:
    order = IssueOrder(num_qo)
    assert [order.chains_of(tile) for tile in range(2)] == (
        [(0,), (1,)] if num_qo == 2 else [(0, 1), ()]
    )


@pytest.mark.parametrize("num_tiles", COUNTS)
def test_one_chain_takes_every_key_tile_in_order(num_tiles: int) -> None:
    order = OneChain()
    taken = [order.key_tile(0, n) for n in range(order.num_tiles(0, num_tiles))]
    assert taken == list(range(num_tiles))
    assert (order.deals_out, order.query_tile(0)) == (False, 0)


Run = tuple[IssueOrder, list[tuple[int, int]]]


def runs(order: IssueOrder) -> st.SearchStrategy[Run]:
    """Return query tiles of a CTA: key tiles of each, and which are hidden from chain 0."""
    of_tile = st.integers(0, 5).flatmap(
        lambda n: st.tuples(st.just(n), st.integers(0, int(order.ends_apart and n > 1)))
    )
    return st.tuples(st.just(order), st.lists(of_tile, max_size=5))


RUNS = st.one_of(*map(runs, (replace(ORDERS[2], runs_on=True), replace(APART, runs_on=True))))
running = settings(deadline=None, max_examples=200)


@running
@given(RUNS)
def test_query_tiles_that_run_on_have_the_accumulations_of_each(run: Run) -> None:
    """In the same order but for the first S0 of the next one, which the last O1 follows."""
    order, taken = run
    found = list(issues_in_turn(order, taken))
    for number, (num_tiles, num_hidden) in enumerate(taken):
        own = [issue for n, issue in found if n == number]
        assert own == list(order.issues(num_tiles, num_hidden))
    with_keys = [number for number, (n, _) in enumerate(taken) if n]
    numbers = [number for number, _ in found]
    for before, number in pairwise(with_keys):
        end = len(numbers) - 1 - numbers[::-1].index(before)
        between = [(issue.product, issue.chain) for _, issue in found[numbers.index(number) : end]]
        # A query tile without key tiles lets the last one come alone.
        assert between == ([("S", 0)] if number == before + 1 else [])


@running
@given(RUNS)
def test_no_score_of_the_next_query_tile_overwrites_a_p_that_is_needed(run: Run) -> None:
    """P lies in the low half of the other S, the last one in the high half of its own."""
    order, taken = run
    waiting: dict[tuple[int, str], tuple[int, int, int]] = {}
    for number, issue in issues_in_turn(order, taken):
        key = number, issue.chain, issue.key_tile
        is_last = issue.key_tile == order.num_tiles(issue.chain, *taken[number]) - 1
        place = (issue.chain, "high") if is_last else (1 - issue.chain, "low")
        if issue.product == "S":
            # All of S is written: nothing that waits for its P V may lie there.
            assert not {(issue.chain, half) for half in ("low", "high")} & waiting.keys()
            # The last P is stored at once, another over an S that has been read: before its P V.
            if is_last:
                waiting[place] = key
        elif is_last:
            assert waiting.pop(place) == key
        else:
            assert place not in waiting
    assert not waiting


def test_query_tiles_that_do_not_run_on_follow_one_another() -> None:
    order = ORDERS[2]
    found = [issue for _, issue in issues_in_turn(order, [(2, 0), (0, 0), (3, 0), (1, 0)])]
    assert found == [*order.issues(2), *order.issues(3), *order.issues(1)]
