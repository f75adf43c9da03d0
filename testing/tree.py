"""The tree of fa4_cute as docs/architecture.md draws it, from the sources.

    python -m testing.tree                        print the tree, and the import graph in numbers
    python -m testing.tree docs/architecture.md   rewrite the drawing in the page

A folder is a room; files at the top of the package are rooms of their own. A room's floor is one
more than the highest floor of the rooms that it imports.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGE: Final = "fa4_cute"
BEGIN: Final = "<!-- tree: python -m testing.tree docs/architecture.md -->"
END: Final = "<!-- end -->"
Graph = dict[str, set[str]]


def modules(package: str) -> dict[str, Path]:
    """Return the modules of a package by dotted name, without the packages' own files."""
    return {
        ".".join(p.relative_to(ROOT).with_suffix("").parts): p
        for p in (ROOT / package).rglob("*.py")
        if p.stem != "__init__"
    }


def imports(path: Path) -> set[str]:
    """Return the absolute dotted names that a module imports, late imports included."""
    names: set[str] = set()
    package = list(path.relative_to(ROOT).with_suffix("").parts[:-1])
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            names.add(module)
            names.update(f"{module}.{alias.name}" for alias in node.names)
    return names


def import_graph(package: str) -> Graph:
    """Return which module imports which; imports for type checkers count."""
    found = modules(package)
    return {name: {n for n in imports(path) if n in found} for name, path in found.items()}


def rooms(graph: Graph, depth: int | None = None) -> Graph:
    """Return the same graph between folders, at most ``depth`` levels below the package.

    Files at the top of a package are rooms of their own.
    """

    def room(name: str) -> str:
        if name.count(".") == 1:
            return name
        return ".".join(name.split(".")[:-1][: None if depth is None else depth + 1])

    between: Graph = {room(name): set() for name in graph}
    for name, others in graph.items():
        between[room(name)] |= {room(n) for n in others} - {room(name)}
    return between


def circle(graph: Graph) -> list[str]:
    """Return one circle of a graph, or nothing."""
    done: set[str] = set()

    def visit(node: str, way: list[str]) -> list[str]:
        if node in way:
            return [*way[way.index(node) :], node]
        if node not in done:
            for other in sorted(graph[node]):
                if found := visit(other, [*way, node]):
                    return found
            done.add(node)
        return []

    return next((found for node in sorted(graph) if (found := visit(node, []))), [])


def floors(graph: Graph) -> dict[str, int]:
    """Return the floor of every node of a graph without circles."""
    found: dict[str, int] = {}

    def floor(node: str) -> int:
        if node not in found:
            found[node] = 1 + max((floor(other) for other in graph[node]), default=-1)
        return found[node]

    for node in graph:
        floor(node)
    return found


def first_sentence(path: Path) -> str:
    """Return the first line of a module's docstring, without its markup."""
    text = ast.get_docstring(ast.parse(path.read_text())) or ""
    return text.split("\n")[0].replace("``", "")


def drawing(package: str = PACKAGE) -> str:
    """Return the tree, lowest floor first: rooms, what they are, and their modules."""
    graph = rooms(import_graph(package))
    level = floors(graph)
    lines = []
    for room in sorted(graph, key=lambda name: (level[name], name)):
        path = ROOT / room.replace(".", "/")
        inner = room.removeprefix(f"{package}.")
        if path.is_dir():
            about = first_sentence(path / "__init__.py")
            lines.append(f"{inner.replace('.', '/') + '/':<18} {about}")
            names = sorted(p.stem for p in path.glob("*.py") if p.stem != "__init__")
            lines.extend(_wrapped(names))
        else:
            lines.append(f"{inner + '.py':<18} {first_sentence(path.with_suffix('.py'))}")
    return "\n".join(lines)


def _wrapped(names: list[str], width: int = 96, indent: str = " " * 21) -> list[str]:
    lines, line = [], indent
    for name in names:
        if len(line) + len(name) > width:
            lines.append(line.rstrip())
            line = indent
        line += f"{name}  "
    return [*lines, line.rstrip()]


def page_with(page: str, tree: str) -> str:
    """Return ``page`` with ``tree`` between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n```\n{tree}\n```\n{END}{after}"


def numbers(package: str = PACKAGE, depth: int | None = None) -> str:
    """Return the import graph in numbers; ``depth`` as for :func:`rooms`."""
    graph = rooms(import_graph(package), depth)
    edges = sum(len(others) for others in graph.values())
    return f"{len(graph)} rooms, {max(floors(graph).values()) + 1} floors, {edges} edges"


def main() -> None:
    """Print the numbers, or rewrite the drawing of a page."""
    if len(sys.argv) > 1:
        page = Path(sys.argv[1])
        page.write_text(page_with(page.read_text(), drawing()))
        return
    print(drawing())
    print(f"folders of one level: {numbers(depth=1)}; all folders: {numbers()}")


if __name__ == "__main__":
    main()
