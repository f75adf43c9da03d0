"""The rules of CONTRIBUTING.md that a machine can check: sizes, layers, leftovers."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("fa4_cute", "sm100sim")
MAX_MODULES = 15
STOREYS = (
    *("plan.facts", "plan.masks", "plan.barriers", "plan.config", "plan.memory", "plan.compute"),
    *("plan.spec", "plan.launch", "device", "device.sync", "device.memory", "device.math"),
    *("tma", "pipelines", "smem", "work", "operands", "output", "roles"),
    *("kernel_base", "kernel_sm100", "depth512", "masks", "score_mods", "settings"),
    *("host.ask", "host.choose", "host.compile", "host.run", "host"),
)
"""Folders and top-level modules of fa4_cute, lowest first: each imports only what comes before."""
MAX_FILE_LINES = 350
MAX_DEVICE_FUNCTION_LINES = 120
MAX_FUNCTION_LINES = 80
MAX_ARGUMENTS = 8

SOURCES = sorted(p for package in PACKAGES for p in (ROOT / package).rglob("*.py"))
C_SOURCES = sorted(p for p in (ROOT / "sm100sim").rglob("*.[ch]"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
TOOLS = sorted(
    p for folder in ("testing", "benchmarks", "examples") for p in (ROOT / folder).rglob("*.py")
)


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def functions(path: Path) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    tree = ast.parse(path.read_text())
    return [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    assert function.end_lineno is not None
    total = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and first.end_lineno:
        total -= first.end_lineno - first.lineno + 1
    return total


def is_device(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any(
        "cute.jit" in ast.unparse(d) or "cute.kernel" in ast.unparse(d)
        for d in function.decorator_list
    )


@pytest.mark.parametrize("path", SOURCES + C_SOURCES + TESTS + TOOLS, ids=relative)
def test_file_stays_readable(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= MAX_FILE_LINES


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_functions_stay_short(path: Path) -> None:
    for function in functions(path):
        limit = MAX_DEVICE_FUNCTION_LINES if is_device(function) else MAX_FUNCTION_LINES
        assert code_lines(function) <= limit, f"{function.name} has {code_lines(function)} lines"
        arguments = function.args
        count = len(
            [a for a in arguments.posonlyargs + arguments.args if a.arg not in ("self", "cls")]
        )
        assert count <= MAX_ARGUMENTS, f"{function.name} takes {count} positional arguments"


@pytest.mark.parametrize("path", SOURCES + C_SOURCES, ids=relative)
def test_no_leftovers(path: Path) -> None:
    found = re.findall(r"\b(TODO|FIXME|XXX|HACK)\b", path.read_text())
    assert not found


def imports(path: Path) -> set[str]:
    """Absolute dotted names that a module imports, relative imports resolved."""
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


FORBIDDEN = {
    "testing": ("tests", "benchmarks", "examples"),
    "examples": ("tests", "benchmarks"),
    "benchmarks": ("tests",),
    "tests": ("benchmarks",),
}
"""Folder -> what it does not import. What tests, benchmarks and examples share is in testing."""


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_tests_and_benchmarks_do_not_import_each_other(folder: str) -> None:
    for path in (ROOT / folder).rglob("*.py"):
        # The tests of the benchmark programs themselves.
        if path.is_relative_to(ROOT / "tests" / "benchmarks"):
            continue
        wrong = [name for name in imports(path) if name.split(".")[0] in FORBIDDEN[folder]]
        assert not wrong, f"{relative(path)} imports {wrong}"


def test_folders_of_tests_stay_small() -> None:
    sizes: dict[str, int] = {}
    for path in (*TESTS, *TOOLS):
        # The instruction families of the simulator are many.
        if path.stem != "__init__" and not path.is_relative_to(ROOT / "tests" / "sim" / "isa"):
            sizes[relative(path.parent)] = sizes.get(relative(path.parent), 0) + 1
    assert not {folder: n for folder, n in sizes.items() if n > MAX_MODULES}


def test_plan_layer_is_pure() -> None:
    for path in (ROOT / "fa4_cute" / "plan").rglob("*.py"):
        heavy = [
            n
            for n in imports(path)
            if n.split(".")[0] in ("cutlass", "torch", "cuda", "sm100sim", "numpy")
        ]
        assert not heavy, f"{relative(path)} imports {heavy}"


def test_simulator_knows_nothing_of_attention() -> None:
    for path in (ROOT / "sm100sim").rglob("*.py"):
        assert not [n for n in imports(path) if n.startswith("fa4_cute")], relative(path)
        assert not re.search(r"\b(softmax|attention)\b", path.read_text(), re.IGNORECASE), relative(
            path
        )


def test_one_place_reaches_the_simulator() -> None:
    users = [
        relative(p) for p in (ROOT / "fa4_cute").rglob("*.py")
        if any(n == "sm100sim" or n.startswith("sm100sim.") for n in imports(p))
    ]  # fmt: skip
    assert users == ["fa4_cute/host/run/simulator.py"]


def test_roles_do_not_import_one_another() -> None:
    roles = ROOT / "fa4_cute" / "roles"
    names = {p.stem for p in roles.glob("*.py")} - {"__init__"}
    for path in roles.glob("*.py"):
        if path.stem == "__init__":
            continue
        others = {f"fa4_cute.roles.{n}" for n in names - {path.stem}}
        assert not imports(path) & others, relative(path)


def test_one_reader_of_environment_variables() -> None:
    readers = [
        relative(p) for p in (ROOT / "fa4_cute").rglob("*.py")
        if re.search(r"os\.(environ|getenv)", p.read_text())
    ]  # fmt: skip
    assert readers == ["fa4_cute/settings.py"]


def storey(module: str) -> int:
    """Number of the storey of a module of fa4_cute, by its dotted name."""
    inner = module.removeprefix("fa4_cute.")
    return max(
        (len(name), number)
        for number, name in enumerate(STOREYS)
        if inner == name or inner.startswith(f"{name}.")
    )[1]


def modules(package: str) -> dict[str, Path]:
    """Modules of a package by dotted name, without the packages' own files."""
    return {
        ".".join(p.relative_to(ROOT).with_suffix("").parts): p
        for p in (ROOT / package).rglob("*.py")
        if p.stem != "__init__"
    }


def import_graph(package: str) -> dict[str, set[str]]:
    """Which module imports which, late imports and those of type checkers included."""
    found = modules(package)
    return {name: {n for n in imports(path) if n in found} for name, path in found.items()}


def circle(graph: dict[str, set[str]]) -> list[str]:
    """One circle of a graph, or nothing."""
    done: set[str] = set()

    def visit(node: str, way: list[str]) -> list[str]:
        if node in way:
            return [*way[way.index(node) :], node]
        if node in done:
            return []
        for other in sorted(graph[node]):
            found = visit(other, [*way, node])
            if found:
                return found
        done.add(node)
        return []

    return next((found for node in sorted(graph) if (found := visit(node, []))), [])


def folders(graph: dict[str, set[str]]) -> dict[str, set[str]]:
    """The same graph between folders; files at the top of a package stand for themselves."""

    def room(name: str) -> str:
        return name if name.count(".") == 1 else name.rpartition(".")[0]

    rooms: dict[str, set[str]] = {room(name): set() for name in graph}
    for name, others in graph.items():
        rooms[room(name)] |= {room(n) for n in others} - {room(name)}
    return rooms


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["a", "b", "c", "a"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize("package", ["fa4_cute"])
def test_no_import_circle(package: str) -> None:
    graph = import_graph(package)
    assert not circle(graph)
    assert not circle(folders(graph))


def test_no_upward_import() -> None:
    graph = import_graph("fa4_cute")
    upward = [(a, b) for a, others in graph.items() for b in others if storey(b) > storey(a)]
    assert not upward


@pytest.mark.parametrize("package", ["fa4_cute"])
def test_folders_stay_small(package: str) -> None:
    sizes: dict[str, int] = {}
    for path in modules(package).values():
        sizes[relative(path.parent)] = sizes.get(relative(path.parent), 0) + 1
    large = {folder: n for folder, n in sizes.items() if n > MAX_MODULES}
    assert not large


def test_top_level_holds_the_cards_files_and_the_public_vocabulary() -> None:
    names = {path.name for path in (ROOT / "fa4_cute").glob("*.py")}
    card = {"smem.py", "pipelines.py", "tma.py", "kernel_sm100.py", "depth512.py"}
    public = {"__init__.py", "masks.py", "score_mods.py"}
    assert len(names - card - public) <= 2
    assert card | public <= names
