"""Facts of the machine code of every kernel of ``testing.kernels``, and how they changed.

    python -m benchmarks.kernel_facts --json FILE [NAME ..]     write them
    python -m benchmarks.kernel_facts --against FILE [NAME ..]  print them beside those of FILE

Run the first before a change of machine code and the second after it. Spills are local loads and
stores; registers, the highest that is named; budgets, what each role asks for; stalls, the sum over
all instructions; T1, as in ``benchmarks.static_t1``, and turn, the stalls of one turn, of the
shorter of a kernel's softmax loops. They are properties of the compiled code, not measurements.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from fa4_cute.host.compile.compiler import compile_kernel
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from testing.kernels import KERNELS
from testing.sass import (
    Instruction,
    SoftmaxLoop,
    disassemble,
    pair_loop,
    softmax_loops,
    spills,
)

REGISTER = re.compile(r"\bR(\d+)\b")
BUDGET = re.compile(r"USETMAXREG\.\S+ (?:UP\d, )?(0x[0-9a-f]+)")


@dataclass(frozen=True)
class Facts:
    """Facts of one kernel; ``t1`` and ``turn`` are 0 where there is no softmax loop."""

    instructions: int
    spills: int
    registers: int
    budgets: str
    stalls: int
    t1: int
    turn: int


def facts_of(name: str) -> Facts:
    """Compile kernel ``name`` and return its facts."""
    spec = KERNELS[name]
    code = disassemble(compile_kernel(spec).cubin)
    loops = [pair_loop(code)] if isinstance(spec, Depth512Spec) else list(softmax_loops(code))
    return facts_of_code(code, loops)


def facts_of_code(code: list[Instruction], loops: list[SoftmaxLoop]) -> Facts:
    """Return the facts of machine code whose softmax loops are ``loops``."""
    budgets = [int(n, 16) for i in code for n in BUDGET.findall(i.text)]
    return Facts(
        instructions=len(code),
        spills=spills(code),
        registers=max(int(n) for i in code for n in REGISTER.findall(i.text)) + 1,
        budgets=" ".join(map(str, budgets)),
        stalls=sum(i.stall for i in code),
        t1=min((loop.three_quarters for loop in loops), default=0),
        turn=min((loop.turn for loop in loops), default=0),
    )


def change(before: int | str, now: int | str) -> str:
    """Return a figure, and the one before where it differs."""
    return str(now) if before == now else f"{before} → {now}"


def row(name: str, now: Facts, before: Facts | None) -> str:
    """Return a row of the table."""
    old = asdict(before or now)
    cells = [change(old[key], value) for key, value in asdict(now).items()]
    return f"| {name} | {' | '.join(cells)} |"


def main() -> None:
    """Write or compare the facts."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of the names of kernels; none takes all")
    parser.add_argument("--json", type=Path, help="file to write")
    parser.add_argument("--against", type=Path, help="file of facts to compare with")
    given = parser.parse_args()
    before = json.loads(given.against.read_text()) if given.against else {}
    print(f"| kernel | {' | '.join(Facts.__dataclass_fields__)} |")
    print("|---" * (1 + len(Facts.__dataclass_fields__)) + "|")
    found = {}
    for name in KERNELS:
        if given.names and not any(part in name for part in given.names):
            continue
        found[name] = facts_of(name)
        old = Facts(**before[name]) if name in before else None
        print(row(name, found[name], old), flush=True)
    if given.json:
        given.json.write_text(json.dumps({n: asdict(f) for n, f in found.items()}, indent=1))


if __name__ == "__main__":
    main()
