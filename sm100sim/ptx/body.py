"""A kernel's body: scopes, labels, declarations and instructions in source order."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import lru_cache

from .calls import Table, call_site, is_table, table
from .declarations import variable
from .errors import PtxError
from .lexer import Source
from .operands import OperandError, operand, split_top
from .program import GlobalVar, Guard, Instr, Operand, Param, Reg, Signature, Symbol, Vector
from .scopes import Registers, Scope
from .types import TYPES

_NAME = r"(?:[a-zA-Z][\w$]*|[_$%][\w$]+)"
_LABEL = re.compile(rf"({_NAME})\s*:(?!:)", re.ASCII)
_INSTRUCTION = re.compile(
    rf"(?:@\s*(!?)\s*({_NAME})\s+)?([a-z][a-z0-9_]*(?:\s*\.[\w:]+)*)(?:\s+|(?=[\[{{])|\Z)(.*)\Z",
    re.S | re.ASCII,
)  # fmt: skip
_PLAIN = re.compile(
    rf"\s*((?:@\s*(!?)\s*({_NAME})\s+)?([a-z][a-z0-9_]*(?:\s*\.[\w:]+)*)"
    r"(?:\s+(?![:\s])([^;{}\"]*(?:\{[^{};\"]*\}[^;{}\"]*)*))?)\s*;",
    re.ASCII,
)
"""An instruction and the space before it: what most of a body is, in one match."""
_REGISTERS = re.compile(r"\.reg\s*(?:\.v([24])\s*)?\.(\w+)\s+([^;{}]*);\Z", re.ASCII)
_REGISTER = re.compile(rf"\s*({_NAME})(?:<\s*([1-9]\d{{0,7}})\s*>)?\s*\Z", re.ASCII)
_PRAGMA = re.compile(r'\.pragma\s+"[^"]*"\s*(?:,\s*"[^"]*"\s*)*;\Z')
_CALL_PARAM = re.compile(
    r"\.param\s*(?:\.align\s+(\d+)\s*)?\.(\w+)\s+([$_a-zA-Z][\w$]*)\s*(?:\[\s*(\d+)\s*\]\s*)?;\Z",
    re.ASCII,
)  # fmt: skip
_VARIABLE_START = re.compile(r"\.(?:extern\s+\.)?(?:shared|local)\b")


@lru_cache(maxsize=4096)
def _components(full: str) -> tuple[str, tuple[str, ...]]:
    """Opcode and modifiers of a dotted instruction name."""
    opcode, *mods = "".join(full.split()).split(".")
    return opcode, tuple(mods)


class Body:
    """Reads one body; afterwards `out` holds its instructions with branch targets resolved.

    Attributes:
        registers: every register that an instruction names.
        shared, local: variables declared inside the function.
        call_params: see `Function`.
    """

    def __init__(self, source: Source, visible: Collection[str]) -> None:
        """`visible`: names of the module's variables and the kernel's parameters."""
        self.source = source
        self.registers = Registers()
        self.out: list[Instr] = []
        self.shared: list[GlobalVar] = []
        self.local: list[GlobalVar] = []
        self._module = Scope(None)
        self._module.symbols = {name: Symbol(name) for name in visible}
        self._variables = set(visible)
        self._scope = Scope(self._module)
        self.call_params: dict[str, tuple[int, int]] = {}
        self._branches: list[tuple[Instr, str, Scope]] = []
        self._jumps: list[tuple[Instr, str, Scope]] = []
        self._tables: list[tuple[int, Scope, Table]] = []
        self._table_name = ""
        self._call_bytes = 0

    def with_registers(self, kind: Signature) -> Signature:
        """Declare the registers of a function's `.reg` parameters."""

        def declared(one: Param) -> Param:
            if one.reg is None:
                return one
            self.registers.declare(self._scope, one.name, one.type)
            reg = self.registers.find(self._scope, one.name)
            return replace(one, reg=reg) if isinstance(reg, Reg) else one

        return Signature(tuple(map(declared, kind.results)), tuple(map(declared, kind.params)))

    def read(self, brace: int) -> int:
        """Read from the opening brace; returns the position after the closing one.

        Raises:
            PtxError: anything that is not understood.
        """
        source = self.source
        text, skip = source.text, source.skip_space
        position, opened = brace + 1, [brace]
        bytes_before = []
        while opened:
            plain = _PLAIN.match(text, position)
            if plain:
                self._one(plain.start(1), plain.group(1).rstrip(), plain.groups("")[1:])
                position = plain.end()
                continue
            position = skip(position)
            char = text[position : position + 1]
            if char == "{":
                self._scope = Scope(self._scope)
                opened.append(position)
                bytes_before.append(self._call_bytes)
                position += 1
            elif char == "}":
                opened.pop()
                assert self._scope.parent is not None  # the module's scope is outermost
                self._scope = self._scope.parent
                self._call_bytes = bytes_before.pop() if bytes_before else 0
                position += 1
            elif char == ";":
                position += 1
            elif char:
                position = self._item(position)
            else:
                raise source.error(opened[-1], "brace is not closed")
        self._resolve()
        return position

    def _item(self, position: int) -> int:
        """Read a label, a directive or an instruction; returns the position after it."""
        source = self.source
        text = source.text
        if text[position] == ".":
            after = source.debug_line(position)
            if after >= 0:
                return after
            statement = source.statement(position)
            self._declaration(position, statement)
            return position + len(statement)
        label = _LABEL.match(text, position)
        if label:
            name = label.group(1)
            if name in self._scope.labels:
                raise source.error(position, f"label {name} is declared twice")
            self._scope.labels[name] = len(self.out)
            if is_table(text, source.skip_space(label.end())):
                self._table_name = name
            return label.end()
        statement = source.statement(position)
        self._instruction(position, statement[:-1].rstrip())
        return position + len(statement)

    def _declaration(self, position: int, statement: str) -> None:
        self._scope.read.clear()
        if statement.startswith(".reg"):
            self._registers(position, statement)
        elif _VARIABLE_START.match(statement):
            var = variable(self.source, position, statement)
            (self.local if var.space == "local" else self.shared).append(var)
            self._symbol(position, var.name, unique=True)
        elif statement.startswith(".param"):
            self._call_param(position, statement)
        elif is_table(statement, 0):
            known = table(self.source, position, statement)
            self._scope.tables[self._table_name] = known
            self._tables.append((position, self._scope, known))
        elif not _PRAGMA.match(statement):
            what = statement.split(None, 1)[0]
            raise self.source.unsupported(position, f"{what} has no meaning in a kernel here", what)

    def _call_param(self, position: int, statement: str) -> None:
        """A parameter or result of the next call; its name repeats in other call sequences."""
        found = _CALL_PARAM.match(statement)
        kind = TYPES.get(found.group(2)) if found else None
        if not found or kind is None or not kind.size:
            raise self.source.error(position, "parameter declaration is not understood")
        written, _, name, count = found.groups()
        align, size = int(written or kind.size), kind.size * int(count or 1)
        self._symbol(position, name, unique=False)
        symbol = f"{name}.{len(self.call_params)}"
        self._scope.symbols[name] = Symbol(symbol)
        start = (self._call_bytes + align - 1) // align * align
        self.call_params[symbol] = start, size
        self._call_bytes = start + size

    def _symbol(self, position: int, name: str, *, unique: bool) -> None:
        """Declare a variable; storage is per function, so its name must not be used twice."""
        if self._scope.declares(name):
            raise self.source.error(position, f"{name} is declared twice", name)
        if unique and name in self._variables:
            raise self.source.unsupported(position, f"{name} hides another variable", name)
        if unique:
            self._variables.add(name)
        self._scope.symbols[name] = Symbol(name)

    def _registers(self, position: int, statement: str) -> None:
        found = _REGISTERS.match(statement)
        if not found:
            raise self.source.error(position, "register declaration is not understood")
        width, type_name, names = found.groups()
        kind = TYPES.get(type_name)
        if kind is None:
            token = f".{type_name}"
            raise self.source.error(position, f"register type {token} is not understood", token)
        for declared in names.split(","):
            one = _REGISTER.match(declared)
            name = declared.strip()
            if not one or (width and one.group(2)):
                raise self.source.error(position, f"register name {name!r} is not understood", name)
            prefix, count = one.groups()
            try:
                if count:
                    self.registers.declare_range(self._scope, prefix, int(count), kind)
                elif width:
                    self.registers.declare_vector(self._scope, prefix, int(width), kind)
                else:
                    self.registers.declare(self._scope, prefix, kind)
            except KeyError:
                raise self.source.error(position, f"{name} is declared twice", name) from None

    def _lookup(self, name: str) -> Reg | Symbol | Vector | None:
        return self.registers.find(self._scope, name)

    def _guard(self, position: int, negated: str, name: str) -> Guard:
        reg = self._lookup(name)
        if not isinstance(reg, Reg) or reg.type.bits != 1:
            raise self.source.error(position, f"guard {name} is not a declared predicate", name)
        return Guard(reg, negated == "!")

    def _instruction(self, position: int, statement: str) -> None:
        found = _INSTRUCTION.match(statement)
        if not found:
            raise self.source.error(position, "instruction is not understood")
        self._one(position, statement, found.groups(""))

    def _one(self, position: int, statement: str, parts: Sequence[str]) -> None:
        """An instruction of these parts: "!", guard, dotted name, operands."""
        negated, guard_name, full, rest = parts
        rest = rest.rstrip()
        guard = self._guard(position, negated, guard_name) if guard_name else None
        opcode, mods = _components(full)
        ins = Instr(len(self.out), self.source.line(position), statement, opcode, mods, guard, ())
        if opcode == "bra":
            self._branches.append((ins, rest, self._scope))
        elif opcode in ("call", "brx"):
            if not rest:
                raise self.source.error(position, f"{opcode} names no target", opcode)
            self._indirect(position, ins, rest)
        elif rest:
            ins.operands = self._operands(position, rest)
        self.out.append(ins)

    def _indirect(self, position: int, ins: Instr, rest: str) -> None:
        if ins.opcode == "call":
            try:
                ins.call = call_site(rest, self._lookup, self._scope.find_table)
            except OperandError as error:
                raise self.source.error(position, str(error), error.token) from None
            return
        index, _, name = rest.partition(",")
        ins.operands = self._operands(position, index.strip())
        self._jumps.append((ins, name.strip(), self._scope))

    def _operands(self, position: int, rest: str) -> tuple[Operand, ...]:
        lookup, known = self._lookup, self._scope.read
        found = []
        try:
            for part in split_top(rest):
                value = known.get(part)
                if value is None:
                    value = lookup(part) if part[:1] == "%" else None
                    value = known[part] = operand(part, lookup) if value is None else value
                found.append(value)
            return tuple(found)
        except OperandError as error:
            raise self.source.error(position, str(error), error.token) from None

    def _resolve(self) -> None:
        for ins, label, scope in self._branches:
            ins.target = scope.find_label(label)
            if ins.target is None:
                raise PtxError(ins.line, ins.text, f"label {label!r} is not declared")
        for position, scope, known in self._tables:
            for label in () if known.signature else known.names:
                if label not in self._variables and scope.find_label(label) is None:
                    raise self.source.error(position, f"label {label!r} is not declared", label)
        for ins, name, scope in self._jumps:
            labels = scope.find_table(name)
            found = [scope.find_label(label) for label in labels.names] if labels else []
            ins.table = tuple([at for at in found if at is not None])
            if not found or len(ins.table) < len(found):
                raise PtxError(ins.line, ins.text, f"{name!r} is not a list of branch targets")
