"""Why an instruction that can be read is not executed, in words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..ptx.errors import Unsupported
from ..ptx.program import Address, Instr, Symbol

_CALLEES = {
    "vprintf": "no printing from a kernel; compile it without printf",
    "__assertfail": "a device assertion failed; its text is not printed",
}


def no_family(ins: Instr) -> Unsupported:
    """The reason for an instruction whose opcode nothing here lowers."""
    if ins.opcode == "brx":
        return Unsupported(ins, "indirect branches are not supported", "brx")
    if ins.opcode != "call":
        return Unsupported(ins, f"opcode {ins.opcode!r} is not in the instruction set here")
    for callee, reason in _CALLEES.items():
        if re.search(rf"(?<![\w$]){callee}(?![\w$])", ins.text):
            return Unsupported(ins, f"{callee}: {reason}", callee)
    return Unsupported(ins, "calls are not supported: every function must be inlined", "call")


def explained(body: Sequence[Instr], ins: Instr, error: Unsupported) -> Unsupported:
    """`error`, or the reason of the call for which `ins` stores an argument."""
    address = ins.operands[0] if ins.operands else None
    named = isinstance(address, Address) and isinstance(address.base, Symbol)
    to_parameter = any(mod.split("::")[0] == "param" for mod in ins.mods)
    if not (ins.opcode == "st" and named and to_parameter):
        return error
    call = next((other for other in body[ins.index :] if other.opcode == "call"), None)
    if call is None:
        return error
    return Unsupported(ins, f"argument of a call: {no_family(call).what}")
