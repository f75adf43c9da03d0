"""The drawn tree is the real one."""

from __future__ import annotations

from testing import tree

PAGE = tree.ROOT / "docs" / "architecture.md"


def test_the_page_draws_the_tree() -> None:
    page = PAGE.read_text()
    assert tree.BEGIN in page
    assert page == tree.page_with(page, tree.drawing()), f"run {tree.BEGIN[10:-4]}"


def test_every_module_is_drawn() -> None:
    drawn = set(tree.drawing().split())
    missing = [n for n in tree.modules("fa4_cute") if n.rpartition(".")[2] not in drawn]
    assert not [n for n in missing if f"{n.rpartition('.')[2]}.py" not in drawn]


def test_floors_grow_along_imports() -> None:
    graph = tree.rooms(tree.import_graph("fa4_cute"))
    floors = tree.floors(graph)
    assert all(floors[room] > floors[other] for room in graph for other in graph[room])


def test_rooms_of_one_level() -> None:
    graph = {"p.a.b.m": {"p.a.c.n", "p.d"}, "p.a.c.n": set(), "p.d": set()}
    assert tree.rooms(graph) == {"p.a.b": {"p.a.c", "p.d"}, "p.a.c": set(), "p.d": set()}
    assert tree.rooms(graph, depth=1) == {"p.a": {"p.d"}, "p.d": set()}
