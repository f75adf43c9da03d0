"""The page "why PTX by text", made from the device code.

    python -m testing.why_ptx docs/why_ptx.md

A function of ``fa4_cute/device`` that emits text says in a paragraph ``DSL: ...`` of its docstring
what the DSL has instead and why it is not used. Of a function that calls the DSL the page shows
what it is compiled to: ``testing.dsl_trials`` traces it in a kernel of its own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from testing.site.target import target

DEVICE: Final = Path(__file__).resolve().parent.parent / "fa4_cute" / "device"
_MARK: Final = "DSL: "
_PUBLIC: Final = re.compile(r"(?:cute\.(?:arch|math)|tcgen05|cpasync)\.\w+|cute\.make_tensor")
_OPCODE: Final = re.compile(r"^(?:@\S+ )?([a-z]\w*(?:\.[\w:{}]+)+)")
_HEAD: Final = """# Why PTX by text

*Made by `python -m testing.why_ptx docs/why_ptx.md`; a test compares it with the code.*

The kernels are CuTe DSL kernels: the DSL traces them, its compiler allocates registers and
schedules, and its operations are used wherever they emit the instruction that is wanted (the first
table). Some instructions are stated as PTX text instead, through one function,
`fa4_cute.device.ptx.emit` (the second table). Three reasons lead there.

* **Exact instructions.** A waiting rule, a memory order or a scope is part of the kernel's
  argument. Text fixes the qualifiers; an operation of the DSL may add or drop one. The checker of
  `sm100sim` reads the same PTX, so that what is argued, checked and run is one text.
* **One lane, no branch.** Several operations must be issued by one elected lane. The DSL branches
  around each; text predicates the instruction, and a stage of MMAs is one straight block.
* **Fast tracing.** A mask over 128 columns is one operation for the compiler, not 256.

What the text costs: the compiler can neither fold an address into it nor merge two of them. That is
why it is the exception. `fa4_cute.device.dsl` is the only file that imports what the DSL keeps
private: inline assembly with its constraints, and the address of a tensor map. The public
`cute.arch.inline_ptx` copies every float operand by a `mov.f32` and knows no operand that shares
its register with a result.
"""


@dataclass(frozen=True)
class Primitive:
    """One device function.

    Attributes:
        name: module and function.
        opcodes: instructions that its text names.
        reason: why the DSL's operation is not used; empty where nothing is emitted as text.
        operations: the DSL's operations that it calls.
    """

    name: str
    opcodes: tuple[str, ...]
    reason: str
    operations: tuple[str, ...]

    @property
    def emits(self) -> bool:
        """Whether the function states text."""
        return bool(self.opcodes)


def primitives(folder: Path = DEVICE) -> Iterator[Primitive]:
    """Yield the device functions that emit text or call the DSL, file by file.

    Raises:
        ValueError: naming the function that emits text and does not say why, or the reverse.
    """
    for path in sorted(folder.rglob("*.py")):
        module = ".".join(path.relative_to(folder).with_suffix("").parts)
        if module in ("dsl", "ptx", "pointers"):
            continue
        tree = ast.parse(path.read_text())
        constants = _module_constants(tree)
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                found = _primitive(module, node, constants)
                if found.emits or found.operations:
                    yield found


def _primitive(module: str, node: ast.FunctionDef, constants: str) -> Primitive:
    name = f"{module}.{node.name}"
    code = [n for statement in node.body[1:] for n in ast.walk(statement)]
    emits = any(isinstance(n, ast.Call) and ast.unparse(n.func) == "emit" for n in code)
    calls = [ast.unparse(n.func) for n in code if isinstance(n, ast.Call)]
    paragraphs = (ast.get_docstring(node) or "").split("\n\n")
    reasons = [p.removeprefix(_MARK) for p in paragraphs if p.startswith(_MARK)]
    if emits != (len(reasons) == 1):
        raise ValueError(f"{name}: emits text: {emits}; paragraphs '{_MARK}...': {len(reasons)}")
    reason = " ".join(reasons[0].split()) if emits else ""
    opcodes = tuple(dict.fromkeys(_opcodes(code, constants))) if emits else ()
    operations = tuple(dict.fromkeys(c for c in calls if _PUBLIC.fullmatch(c)))
    return Primitive(name, opcodes, reason, operations)


def _module_constants(tree: ast.Module) -> str:
    """Return the text constants of a module, which functions put into their text by name."""
    found = [n.value for n in tree.body if isinstance(n, ast.Assign)]
    return "\n".join(_texts(found))


def _texts(nodes: Iterable[ast.AST]) -> list[str]:
    """Return the text constants among ``nodes``."""
    found = [n.value for n in nodes if isinstance(n, ast.Constant)]
    return [value for value in found if isinstance(value, str)]


def _opcodes(code: list[ast.AST], constants: str) -> Iterator[str]:
    pieces = [_text_of(n) for n in code if isinstance(n, ast.JoinedStr)]
    inner = {id(v) for n in code if isinstance(n, ast.JoinedStr) for v in n.values}
    pieces += _texts(n for n in code if id(n) not in inner)
    if any(isinstance(n, ast.Name) and n.id == "_ELECT" for n in code):
        pieces.append(constants)
    for piece in pieces:
        for line in re.split(r"[;\n{]\s*(?![^{}\s]*\})", piece):
            if found := _OPCODE.match(line.strip()):
                yield found[1]


def _text_of(node: ast.JoinedStr) -> str:
    parts = []
    for value in node.values:
        if isinstance(value, ast.Constant):
            parts.append(str(value.value))
        elif isinstance(value, ast.FormattedValue):
            parts.append("{" + ast.unparse(value.value).rpartition(".")[2] + "}")
    return "".join(parts)


def page() -> str:
    """Return the page."""
    from testing.dsl_trials import compiled_to

    found = list(primitives())
    used = [p for p in found if p.operations]
    lines = [_HEAD, "## Operations of the DSL", ""]
    lines += [
        f"{len(used)} functions of `fa4_cute.device` call the DSL. The right column is what each "
        "is compiled to.",
        "",
        "| function | DSL | PTX |",
        "|---|---|---|",
    ]
    for p in used:
        ptx = tuple(line.replace("|", "\\|") for line in compiled_to(p.name))
        lines.append(f"| `{p.name}` | {_code(p.operations)} | {_code(ptx)} |")
    text = [p for p in found if p.emits]
    lines += ["", "## Text", "", f"{len(text)} functions state PTX.", ""]
    lines += ["| function | PTX | DSL, and why it is not used |", "|---|---|---|"]
    lines += [f"| `{p.name}` | {_code(p.opcodes)} | {_single(p.reason)} |" for p in text]
    return "\n".join(lines) + "\n"


def _code(names: tuple[str, ...]) -> str:
    return "<br>".join(f"`{name}`" for name in names)


def _single(reason: str) -> str:
    text = re.sub(r":func:`([^`]*)`", r"`\1`", reason).replace("``", "`").replace("|", "\\|")
    return text[0].upper() + text[1:]


if __name__ == "__main__":
    target(__doc__).write_text(page())
