"""PTX text -> `Module`.

The text is cut into statements (`...;`), scope braces and labels; each statement is read with a few
compiled patterns.  Debug directives are skipped; everything else that is not understood stops with
its line (PTX ISA, "Syntax" and "State Spaces, Types, and Variables").
"""

from __future__ import annotations

import re
from bisect import bisect_right

from .errors import PtxError
from .operands import OperandError, operand, split_top
from .program import GlobalVar, Guard, Instr, Kernel, Module, Operand, Param, Reg
from .scopes import Registers, Scope
from .types import TYPES

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_SPACE = re.compile(r"\s+")
_LABEL = re.compile(r"([%$_a-zA-Z][\w$%]*)\s*:(?!:)")
_STATEMENT = re.compile(r'(?:[^;{}"]|"[^"]*")+(?:\{[^{}]*\}[^;{}]*)*;')
_INSTRUCTION = re.compile(r"(?:@\s*(!?)\s*([%$_\w]+)\s+)?([a-z][a-z0-9_]*)((?:\.[\w:]+)*)\s*(.*)\Z", re.S)
_HEADER = re.compile(r"\.(version|target|address_size)\s+([^\n]+)")
_ENTRY = re.compile(r"((?:\.(?:visible|weak|extern)\s+)*)\.(entry|func)\b")
_ENTRY_NAME = re.compile(r"\.entry\s+([$_a-zA-Z][\w$]*)\s*")
_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+((?:\.\w+(?:\s+\d+)?\s+)*)([$_a-zA-Z][\w$]*)\s*(?:\[(\d+)\])?\Z"
)
_DIRECTIVE = re.compile(r"\.(\w+)\s*([\d,\s]*)")
_VARIABLE = re.compile(
    r"((?:\.(?:visible|extern|weak|common)\s+)*)\.(shared|global|const)\s+(?:\.attribute\([^)]*\)\s+)?"
    r"(?:\.align\s+(\d+)\s+)?\.(\w+)\s+([$_a-zA-Z][\w$]*)\s*((?:\[\d*\])*)\s*(?:=\s*(.*))?;\Z", re.S,
)  # fmt: skip
_REGISTER = re.compile(r"([%$_a-zA-Z][\w$%]*?)(?:<(\d+)>)?\Z")
_KNOWN_DIRECTIVES = {
    "reqntid", "maxntid", "minnctapersm", "maxnctapersm", "maxnreg", "reqnctapercluster", "explicitcluster",
    "maxclusterrank", "noreturn", "blocksareclusters",
}  # fmt: skip


class _Text:
    """The source without comments, and the line of every position in it."""

    def __init__(self, source: str) -> None:
        self.text = _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), source)
        self.starts = [0] + [m.end() for m in re.finditer("\n", self.text)]
        self.lines = source.split("\n")

    def line(self, position: int) -> int:
        return bisect_right(self.starts, position)

    def error(self, position: int, what: str) -> PtxError:
        line = self.line(position)
        return PtxError(line, self.lines[line - 1] if line <= len(self.lines) else "", what)

    def skip_space(self, position: int) -> int:
        found = _SPACE.match(self.text, position)
        return found.end() if found else position

    def closing(self, position: int) -> int:
        """Position behind the brace that closes the one at `position`."""
        depth = 0
        for found in re.finditer(r"[{}]", self.text[position:]):
            depth += 1 if found.group() == "{" else -1
            if depth == 0:
                return position + found.end()
        raise self.error(position, "brace is not closed")


def parse(source: str) -> Module:
    """Read a PTX module.

    Raises:
        PtxError: anything that is not understood, with its line.
    """
    text = _Text(source)
    head = dict(_HEADER.findall(text.text))
    if "version" not in head or "target" not in head:
        raise PtxError(1, text.lines[0], "not PTX: .version or .target is missing")
    module = Module(head["version"].strip(), head["target"].strip(), int(head.get("address_size", "64")), [], {}, text.lines)
    position = text.skip_space(0)
    while position < len(text.text):
        position = text.skip_space(_top_level(text, position, module))
    return module


def _top_level(text: _Text, position: int, module: Module) -> int:
    """Read one top-level item; returns the position behind it."""
    header = _HEADER.match(text.text, position)
    if header:
        return header.end()
    entry = _ENTRY.match(text.text, position)
    if entry:
        if entry.group(2) == "func":
            raise text.error(position, "device functions (.func) are not supported; everything must be inlined")
        kernel, end = _kernel(text, position)
        module.kernels[kernel.name] = kernel
        return end
    if text.text.startswith((".file", ".loc"), position):
        return text.text.index("\n", position)
    if text.text.startswith(".section", position):
        return text.closing(text.text.index("{", position))
    statement = _STATEMENT.match(text.text, position)
    if statement:
        module.globals.append(_variable(text, position, statement.group()))
        return statement.end()
    raise text.error(position, "top-level directive is not understood")


def _variable(text: _Text, position: int, statement: str) -> GlobalVar:
    found = _VARIABLE.match(statement.strip())
    if not found or found.group(4) not in TYPES:
        raise text.error(position, "variable declaration is not understood")
    linkage, space, align, kind, name, dims, init = found.groups()
    element = TYPES[kind].size
    count, open_ended = 1, False
    for size in re.findall(r"\[(\d*)\]", dims):
        open_ended |= size == ""
        count *= int(size or 0)
    data = None
    if init is not None:
        data = b"".join(_initial_value(text, position, v, element) for v in re.findall(r"[^\s{},]+", init))
        if open_ended:
            count, open_ended = len(data) // element, False
    if space == "shared":
        return GlobalVar(name, "shared", int(align or element), element * count, ".extern" in linkage or open_ended, data, text.line(position))
    if open_ended:
        raise text.error(position, f"{name}: an array of unknown size outside of shared memory")
    return GlobalVar(name, "global" if space == "global" else "const", int(align or element), element * count, False, data, text.line(position))


def _initial_value(text: _Text, position: int, value: str, size: int) -> bytes:
    number = operand(value, lambda _: None)
    bits = getattr(number, "value", None)
    if not isinstance(bits, int):
        raise text.error(position, f"initial value {value} is not a literal")
    return (bits & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def _kernel(text: _Text, position: int) -> tuple[Kernel, int]:
    found = _ENTRY_NAME.search(text.text, position)
    if not found:
        raise text.error(position, "entry without a name")
    name, at = found.group(1), found.end()
    params: list[Param] = []
    if text.text[at] == "(":
        end = text.text.index(")", at)
        params = _params(text, at + 1, text.text[at + 1 : end])
        at = end + 1
    brace = text.text.index("{", at)
    directives: dict[str, object] = {}
    for directive in _DIRECTIVE.finditer(text.text, at, brace):
        key, values = directive.group(1), directive.group(2).replace(" ", "").strip().rstrip(",")
        if key not in _KNOWN_DIRECTIVES:
            raise text.error(directive.start(), f"kernel directive .{key} is not understood")
        numbers = tuple(int(v) for v in values.split(",") if v.strip())
        if key in ("reqntid", "maxntid", "reqnctapercluster"):
            directives[key] = (*numbers, 1, 1)[:3]
        else:
            directives[key] = numbers[0] if numbers else True
    body = _Body(text, name)
    end = body.read(brace)
    kernel = Kernel(name, params, directives, body.shared, body.registers.by_id, body.out, text.line(position))
    return kernel, end


def _params(text: _Text, start: int, inner: str) -> list[Param]:
    params: list[Param] = []
    offset = 0
    for declaration in inner.split(",") if inner.strip() else []:
        found = _PARAM.match(declaration.strip())
        if not found or found.group(2) not in TYPES:
            raise text.error(start, f"parameter {declaration.strip()!r} is not understood")
        align_text, kind, _, name, count = found.groups()
        size = TYPES[kind].size * int(count or 1)
        align = int(align_text or TYPES[kind].size)
        offset = (offset + align - 1) // align * align
        params.append(Param(name, TYPES[kind], size, align, offset))
        offset += size
    return params


class _Body:
    """Reads a kernel's body, keeping scopes, labels and forward branches."""

    def __init__(self, text: _Text, name: str) -> None:
        self.text, self.name = text, name
        self.registers = Registers()
        self.scope = Scope(None)
        self.out: list[Instr] = []
        self.shared: list[GlobalVar] = []
        self._branches: list[tuple[Instr, str, Scope]] = []

    def read(self, brace: int) -> int:
        """Read from the opening brace; returns the position behind the closing one."""
        text, position, depth = self.text.text, brace + 1, 0
        while True:
            position = self.text.skip_space(position)
            if position >= len(text):
                raise self.text.error(brace, f"body of {self.name} is not closed")
            char = text[position]
            if char == "{":
                self.scope, depth, position = Scope(self.scope), depth + 1, position + 1
            elif char == "}":
                position += 1
                if depth == 0:
                    break
                assert self.scope.parent is not None
                self.scope, depth = self.scope.parent, depth - 1
            elif char == ";":
                position += 1
            else:
                position = self._item(position)
        self._resolve()
        return position

    def _item(self, position: int) -> int:
        text = self.text.text
        if text.startswith((".loc", ".file"), position):
            return text.index("\n", position)
        label = _LABEL.match(text, position)
        if label:
            if label.group(1) in self.scope.labels:
                raise self.text.error(position, f"label {label.group(1)} is declared twice")
            self.scope.labels[label.group(1)] = len(self.out)
            return label.end()
        statement = _STATEMENT.match(text, position)
        if not statement:
            raise self.text.error(position, "statement is not understood")
        if text[position] == ".":
            self._declaration(position, statement.group())
        else:
            self._instruction(position, statement.group()[:-1])
        return statement.end()

    def _declaration(self, position: int, statement: str) -> None:
        if statement.startswith(".pragma"):
            return
        if statement.startswith(".shared"):
            self.shared.append(_variable(self.text, position, statement))
            return
        if not statement.startswith(".reg"):
            raise self.text.error(position, f"declaration {statement.split()[0]} is not supported")
        _, kind, names = statement[:-1].split(None, 2)
        if kind.lstrip(".") not in TYPES:
            raise self.text.error(position, f"register type {kind} is not understood")
        for name in names.split(","):
            found = _REGISTER.match(name.strip())
            if not found:
                raise self.text.error(position, f"register name {name.strip()!r} is not understood")
            try:
                if found.group(2):
                    self.registers.declare_range(self.scope, found.group(1), int(found.group(2)), TYPES[kind.lstrip(".")])
                else:
                    self.registers.declare(self.scope, found.group(1), TYPES[kind.lstrip(".")])
            except KeyError:
                raise self.text.error(position, f"register {name.strip()} is declared twice") from None

    def _lookup(self, name: str) -> Reg | None:
        return self.registers.find(self.scope, name)

    def _instruction(self, position: int, statement: str) -> None:
        found = _INSTRUCTION.match(statement)
        if not found:
            raise self.text.error(position, "instruction is not understood")
        negated, guard_name, opcode, mods, rest = found.groups()
        guard = None
        if guard_name:
            reg = self._lookup(guard_name)
            if reg is None or reg.type.bits != 1:
                raise self.text.error(position, f"guard {guard_name} is not a declared predicate")
            guard = Guard(reg, negated == "!")
        line = self.text.line(position)
        if opcode in ("call", "brx"):
            raise self.text.error(position, f"{opcode} is not supported: calls and indirect branches must be inlined")
        operands: tuple[Operand, ...] = ()
        if opcode != "bra":
            try:
                operands = tuple(operand(part, self._lookup) for part in split_top(rest)) if rest.strip() else ()
            except OperandError as error:
                raise self.text.error(position, str(error)) from None
        ins = Instr(len(self.out), line, statement.strip(), opcode, tuple(mods.split(".")[1:]), guard, operands)
        if opcode == "bra":
            self._branches.append((ins, rest.strip(), self.scope))
        self.out.append(ins)

    def _resolve(self) -> None:
        for ins, label, scope in self._branches:
            ins.target = scope.find_label(label)
            if ins.target is None:
                raise PtxError(ins.line, ins.text, f"label {label} is not declared")
