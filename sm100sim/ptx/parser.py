"""PTX text -> `Module` (PTX ISA, "PTX Module Directives" and "Linking Directives").

Debug directives are skipped; everything else that is not understood stops with its line.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache, partial

from .body import Body
from .declarations import directives, params, signature, variable
from .lexer import Source
from .program import DeviceFunction, FunctionHead, Kernel, Module, Param, Signature

_VERSION = re.compile(r"\.version\s+(\d+\.\d+)(?![\w.])", re.ASCII)
_TARGET = re.compile(r"\.target\s+(\w+(?:[ \t]*,[ \t]*\w+)*)", re.ASCII)
_ARCHITECTURE = re.compile(r"sm_\d{2,3}[af]?(?![\w.])", re.ASCII)
_ADDRESS_SIZE = re.compile(r"\.address_size\s+(\d+)", re.ASCII)
_LINKAGE = r"(?:\.(?:visible|weak|extern)\s+)*"
_ENTRY = re.compile(rf"{_LINKAGE}\.entry\s+([$_a-zA-Z][\w$]*)\s*", re.ASCII)
_FUNCTION = re.compile(
    rf"{_LINKAGE}\.func\s*(?:\.noreturn\s*)?(?:\(([^()]*)\)\s*)?([$_a-zA-Z][\w$]*)\s*"
    r"(?:\(([^()]*)\)\s*)?(?:\.noreturn\s*)?(;?)", re.ASCII,
)  # fmt: skip
_ALIAS = re.compile(r"\.alias\s+([$_a-zA-Z][\w$]*)\s*,\s*([$_a-zA-Z][\w$]*)\s*;", re.ASCII)
_SECTION = re.compile(r"\.section\s+[.\w]+\s*\{", re.ASCII)
_PARAMETERS = re.compile(r"\(([^()]*)\)")


def parse(source: str, *, bodies: bool = True) -> Module:
    """Read a PTX module.

    Args:
        source: the text of a `.ptx` file.
        bodies: read those of the kernels now; else each is read when somebody asks for it.

    Raises:
        PtxError: anything that is not understood, with its line.
        Unsupported: a construct with no meaning here, such as addresses of 32 bits.
    """
    return _Reader(Source(source), bodies).read()


class _Reader:
    """Reads top-level items one after the other."""

    def __init__(self, source: Source, bodies: bool) -> None:
        self.source = source
        self.bodies = bodies
        self.module = Module("", "", 0, [], {}, source.lines)
        self.functions = self.module.functions

    def read(self) -> Module:
        text = self.source.text
        position = self.source.skip_space(self._header())
        while position < len(text):
            position = self.source.skip_space(self._item(position))
        return self.module

    def _header(self) -> int:
        """`.version`, `.target` and `.address_size`, in this order; returns what follows."""
        position = 0
        values = []
        for pattern, name in (
            (_VERSION, ".version"),
            (_TARGET, ".target"),
            (_ADDRESS_SIZE, ".address_size"),
        ):
            position = self.source.skip_space(position)
            found = pattern.match(self.source.text, position)
            if not found:
                raise self.source.error(position, f"not a PTX module: {name} is expected here")
            values.append(found.group(1))
            if name == ".target" and not _ARCHITECTURE.match(values[-1]):
                raise self.source.error(position, f"{values[-1]} is no architecture", values[-1])
            if name == ".address_size" and values[-1] != "64":
                raise self.source.unsupported(position, f"addresses of {values[-1]} bits")
            position = found.end()
        self.module.version, self.module.target, self.module.address_size = *values[:2], 64
        return position

    def _item(self, position: int) -> int:
        source, text = self.source, self.source.text
        after = source.debug_line(position)
        if after >= 0:
            return after
        section = _SECTION.match(text, position)
        if section:
            return source.closing(section.end() - 1)
        entry = _ENTRY.match(text, position)
        if entry:
            return self._kernel(position, entry.group(1), entry.end())
        function = _FUNCTION.match(text, position)
        if function:
            return self._function(position, function)
        alias = _ALIAS.match(text, position)
        if alias:
            self._alias(position, alias.group(1), alias.group(2))
            return alias.end()
        statement = source.statement(position)
        var = variable(source, position, statement)
        if any(var.name == other.name for other in self.module.globals):
            raise source.error(position, f"{var.name} is declared twice", var.name)
        if var.space == "local":
            raise source.error(position, ".local outside of a function", var.name)
        self.module.globals.append(var)
        return position + len(statement)

    def _function(self, position: int, found: re.Match[str]) -> int:
        """Note a device function and pass over its body, which is read when something calls it."""
        source, name = self.source, found.group(2)

        results, given = ((found.start(k), found.group(k)) for k in (1, 3))

        def read_signature() -> Signature:
            return signature(source, results, given)

        number = len(self.functions)
        head = self.functions.setdefault(name, FunctionHead(name, number, read_signature))
        if found.group(4):
            return found.end()
        brace = source.text.find("{", found.end())
        if brace < 0 or head.body is not None:
            raise source.error(position, f"function {name} has no body or is defined twice", name)
        head.signature = read_signature
        head.body = cache(lambda: self._body(position, name, read_signature(), brace))
        return source.closing(brace)

    def _body(self, position: int, name: str, kind: Signature, brace: int) -> DeviceFunction:
        every = (*kind.results, *kind.params)
        names = [*(v.name for v in self.module.globals), *(p.name for p in every if p.reg is None)]
        body = Body(self.source, [*names, *self.functions])
        kind = body.with_registers(kind)
        body.read(brace)
        return DeviceFunction(
            name, body.shared, body.registers.by_id, body.out, self.source.line(position),
            body.local, body.call_params, kind,
        )  # fmt: skip

    def _alias(self, position: int, name: str, aliasee: str) -> None:
        """`.alias f, g;`: f is declared before, and is g (PTX ISA, ".alias")."""
        if aliasee not in self.functions:
            raise self.source.error(position, f"function {aliasee} is not declared", aliasee)
        known = self.functions[aliasee]
        number = self.functions[name].number if name in self.functions else len(self.functions)
        self.functions[name] = FunctionHead(name, number, known.signature, known.body)

    def _kernel(self, position: int, name: str, at: int) -> int:
        source = self.source
        declared: list[Param] = []
        inner = _PARAMETERS.match(source.text, at)
        if inner:
            declared = params(source, inner.start(1), inner.group(1))
            at = inner.end()
        brace = source.text.find("{", at)
        if brace < 0 or name in self.module.kernels:
            raise source.error(position, f"entry {name} has no body or is declared twice", name)
        settings = directives(source, at, brace)
        names = [*(v.name for v in self.module.globals), *(p.name for p in declared)]
        hidden = next((n for n in names if names.count(n) > 1), None)
        if hidden:
            raise source.unsupported(position, f"{hidden} hides another variable")
        head = Kernel(name, [], {}, [], source.line(position), params=declared, directives=settings)
        visible = [*names, *self.functions]
        if not self.bodies:
            read = partial(_whole, source, head, visible, brace)
            self.module.kernels[name] = Kernel.unread(head, lambda: read()[0])
            return source.closing(brace)
        self.module.kernels[name], end = _whole(source, head, visible, brace)
        return end


def _whole(source: Source, head: Kernel, visible: list[str], brace: int) -> tuple[Kernel, int]:
    """The kernel with its body, and the position after it."""
    body = Body(source, visible)
    end = body.read(brace)
    kernel = replace(
        head, shared=body.shared, regs=body.registers.by_id, body=body.out, local=body.local,
        call_params=body.call_params,
    )  # fmt: skip
    return kernel, end
