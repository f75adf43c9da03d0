"""The rules of CONTRIBUTING.md that a machine can check: sizes, layers, leftovers."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from testing.tree import circle, import_graph, imports, modules, rooms

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("fa4_cute", "sm100sim")
MAX_MODULES = 15
STOREYS = (
    *("plan.facts", "plan.masks", "plan.barriers", "plan.config", "plan.memory", "plan.compute"),
    *("plan.spec", "plan.launch", "plan.ranks"),
    *("device", "device.sync", "device.memory", "device.math"),
    *("tma", "sync", "pipelines", "smem", "work", "operands", "output", "roles"),
    *("kernel_base", "kernel_sm90", "kernel_sm100", "depth512", "masks", "score_mods"),
    *("host.ask", "host.choose", "host.compile", "host.run", "host"),
    *("compat", "integrations", "distributed"),
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


def test_files_stay_readable() -> None:
    lengths = {
        relative(path): len(path.read_text().splitlines())
        for path in SOURCES + C_SOURCES + TESTS + TOOLS
    }
    assert len(lengths) > 500
    assert not {path: lines for path, lines in lengths.items() if lines > MAX_FILE_LINES}


def test_lines_of_c_stay_short() -> None:
    """``clang-format`` breaks code at this column, and leaves comments as they are."""
    columns = re.search(r"ColumnLimit: (\d+)", (ROOT / ".clang-format").read_text())
    assert columns is not None
    limit = int(columns[1])
    found = [(relative(p), line) for p in C_SOURCES for line in p.read_text().splitlines()]
    assert not [(path, line) for path, line in found if len(line) > limit]


def test_functions_stay_short() -> None:
    found = [(relative(path), function) for path in SOURCES for function in functions(path)]
    assert len(found) > 1000
    long, wide = {}, {}
    for path, function in found:
        limit = MAX_DEVICE_FUNCTION_LINES if is_device(function) else MAX_FUNCTION_LINES
        if code_lines(function) > limit:
            long[f"{path}: {function.name}"] = code_lines(function)
        positional = function.args.posonlyargs + function.args.args
        count = len([a for a in positional if a.arg not in ("self", "cls")])
        if count > MAX_ARGUMENTS:
            wide[f"{path}: {function.name}"] = count
    assert not long, "lines"
    assert not wide, "positional arguments"


def test_no_leftovers() -> None:
    left = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
    found = {relative(path): left.findall(path.read_text()) for path in SOURCES + C_SOURCES}
    assert not {path: words for path, words in found.items() if words}
    # A checker is told to look away in one line, with a code and a reason.
    bare = re.compile(r"# type: [i]gnore(?!\[[\w-]+\]  # \w).*")
    silent = {relative(path): bare.findall(path.read_text()) for path in SOURCES + TESTS + TOOLS}
    assert not {path: lines for path, lines in silent.items() if lines}


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
    assert readers == ["fa4_cute/host/compile/settings.py"]


def storey(module: str) -> int:
    """Number of the storey of a module of fa4_cute, by its dotted name."""
    inner = module.removeprefix("fa4_cute.")
    return max(
        (len(name), number)
        for number, name in enumerate(STOREYS)
        if inner == name or inner.startswith(f"{name}.")
    )[1]


def test_a_circle_is_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ["a", "b", "c", "a"]
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_no_import_circle(package: str) -> None:
    graph = import_graph(package)
    assert not circle(graph)
    assert not circle(rooms(graph))


def test_no_upward_import() -> None:
    graph = import_graph("fa4_cute")
    upward = [(a, b) for a, others in graph.items() for b in others if storey(b) > storey(a)]
    assert not upward


@pytest.mark.parametrize("package", PACKAGES)
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


ONLY_TESTS_USE = {
    "support_table": "makes the table of docs/features.md, which a test compares",
    "is_read": "says which memory of a launch tests must not fill with NaN",
    "files": "field of the public CacheInfo",
    "in_memory": "field of the public CacheInfo",
    "render_named_barriers": "draws them for people, as render_barriers does the mbarriers",
    "remove": "torch's registry calls it to deactivate an implementation",
}
"""Names that no module needs, and why they stay."""


def definitions(tree: ast.Module) -> set[str]:
    """Names that a module and its classes define, but for those that a decorator registers."""
    names: set[str] = set()
    for scope in ast.walk(tree):
        for node in scope.body if isinstance(scope, ast.Module | ast.ClassDef) else ():
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                registered = any(".register" in ast.unparse(d) for d in node.decorator_list)
                names |= set() if registered else {node.name}
            elif isinstance(node, ast.Assign):
                names |= {n.id for n in node.targets if isinstance(n, ast.Name)}
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names.add(node.target.id)
    return {name for name in names if not name.startswith("__")}


def uses(tree: ast.Module) -> set[str]:
    """Names that a module reads, also as attributes or, for ``getattr``, as whole strings."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            names.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)
    return names


def test_a_name_that_nothing_reads_is_found() -> None:
    tree = ast.parse("A = 1\nclass B:\n    c: int = A\n    def d(self): return self.c\n")
    assert definitions(tree) - uses(tree) == {"B", "d"}
    assert "d" in uses(ast.parse("x.d")) & uses(ast.parse("getattr(x, 'd')"))


def test_only_tests_use_nothing() -> None:
    """Dead code goes. Members of the seeds that no kernel uses are explained on the Mojo page."""
    page = ROOT / "docs" / "mojo.md"
    mirrored = set(re.findall(r"\w+", page.read_text()))
    read: set[str] = set()
    for folder in ("fa4_cute", "benchmarks", "examples"):
        for path in (ROOT / folder).rglob("*.py"):
            read |= uses(ast.parse(path.read_text()))
        for path in (ROOT / folder).rglob("*.ipynb"):
            read |= set(re.findall(r"\w+", path.read_text()))
    dead = {
        (relative(path), name)
        for path in (ROOT / "fa4_cute").rglob("*.py")
        for name in definitions(ast.parse(path.read_text())) - read - mirrored
    }
    assert {name for _, name in dead} >= set(ONLY_TESTS_USE), "an exception that is none"
    found = sorted((path, name) for path, name in dead if name not in ONLY_TESTS_USE)
    assert not found
