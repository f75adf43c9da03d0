"""Blocks, sides of branches and where they meet."""

from sm100sim.timing.sass.flow import Flow

#     0 -> 1 | 3;  1, 2 -> 5;  3, 4 -> 5;  5: loop to 0 or the end
AFTER = [(1, 3), (2,), (5,), (4,), (5,), (6, 0), (7,)]
LINES = [10, 11, 12, 13, None, 15, 16]


def flow() -> Flow:
    return Flow(AFTER, LINES, {99})


def test_sides_are_what_only_one_way_leads_to() -> None:
    assert flow().sides(0) == [{11, 12}, {13}]


def test_the_way_back_of_a_loop_has_the_body_for_itself() -> None:
    assert flow().sides(5) == [{16, 99}, {10, 11, 12, 13}]


def test_ways_meet_where_all_come_through() -> None:
    assert flow().meeting(0) == 5
    assert flow().meeting(5) == 6


def test_ways_that_end_apart_meet_at_the_end() -> None:
    apart = Flow([(1, 2), (3,), (3,)], [1, 2, 3], set())
    assert apart.meeting(0) == 3
    assert apart.sides(0) == [{2}, {3}]
