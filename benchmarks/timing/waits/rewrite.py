"""PTX with the clock read before and behind each wait; one lane of a warp writes what it read.

Of all CTAs every `step`th writes. `records` says what.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.timing.waits.records import BEGIN, END, WORDS

PARAMETER: Final = "records_of_waits"
KINDS: Final = {
    "mbarrier": r"mbarrier\.try_wait", "copies by lanes": r"cp\.async\.wait_(group|all)",
    "bulk copies": r"cp\.async\.bulk\.wait_group", "products": r"wgmma\.wait_group",
    "barrier": r"(bar|barrier(\.cta)?)\.sync",
}  # fmt: skip
"""What waits, by how its instruction begins."""
_ENTRY = re.compile(r"\.entry\s+[\w$.]+\s*\(([^)]*)\)[^{]*\{")
_LABEL = re.compile(r"\s*([\w$]+):\s*$")
_NO_CODE = re.compile(r"\s*(//.*|\.loc\b.*|\.reg\b.*)?$")
_RETURN = re.compile(r"\s*(ret|exit);\s*$")
LOOK: Final = 8
"""Lines in which a loop that tries again ends."""


@dataclass(frozen=True)
class Site:
    """A wait of the PTX: its kind, its line in the text as it was, and that line."""

    kind: str
    line: int
    text: str


@dataclass(frozen=True)
class Rewritten:
    """PTX whose last parameter is the address of records, and its waits by number."""

    ptx: str
    sites: tuple[Site, ...]


def _loop(lines: Sequence[str], at: int) -> tuple[int, int]:
    """First and last line of the loop that tries the wait at `at` again until it succeeds.

    Raises:
        ValueError: the wait stands in no loop of a known form.
    """
    done = re.search(r"try_wait\S*\s+([\w$%]+)", lines[at])
    first = at - 1
    while first >= 0 and _NO_CODE.match(lines[first]):
        first -= 1
    label = _LABEL.match(lines[first])
    after = [k for k in range(at + 1, min(at + LOOK, len(lines))) if not _NO_CODE.match(lines[k])]
    if done and label and after:
        again = rf"\s*@!{re.escape(done[1])}\s+bra(\.uni)?\s+{re.escape(label[1])};\s*$"
        out = re.match(rf"\s*@{re.escape(done[1])}\s+bra(\.uni)?\s+([\w$]+);\s*$", lines[after[0]])
        if re.match(again, lines[after[0]]):
            return first, after[0]
        leave = out[2] if out else ""
        for k in after:
            if (found := _LABEL.match(lines[k])) and found[1] == leave:
                return first, k
    raise ValueError(f"line {at + 1}: {lines[at].strip()}: no loop of a known form is around it")


def _kind(line: str, kinds: Collection[str]) -> str:
    """What waits in a line, or nothing."""
    words = re.sub(r"^\s*(@!?[\w$%]+\s+)?", "", line)
    return next((kind for kind in kinds if re.match(KINDS[kind] + r"\b", words)), "")


def _set_up(step: int, records: int, warps: int) -> str:
    """The first record; %w_to is its address, %w_left how many may follow, %w_who who writes.

    Warps are counted by %tid.x alone, CTAs by x, y and z.
    """
    size = 4 * WORDS
    return f"""
.reg .b32 %w_0, %w_1, %w_2, %w_3, %w_left; .reg .b64 %w_to, %w_at; .reg .pred %w_who, %w_may;
mov.u32 %w_0, %ctaid.z; mov.u32 %w_1, %nctaid.y; mov.u32 %w_2, %ctaid.y;
mad.lo.u32 %w_0, %w_0, %w_1, %w_2; mov.u32 %w_1, %nctaid.x; mov.u32 %w_2, %ctaid.x;
mad.lo.u32 %w_0, %w_0, %w_1, %w_2; rem.u32 %w_1, %w_0, {step}; div.u32 %w_0, %w_0, {step};
mov.u32 %w_2, %tid.x; and.b32 %w_3, %w_2, 31; or.b32 %w_1, %w_1, %w_3;
setp.eq.u32 %w_who, %w_1, 0; shr.u32 %w_2, %w_2, 5; mad.lo.u32 %w_0, %w_0, {warps}, %w_2;
mul.wide.u32 %w_at, %w_0, {records * size}; ld.param.u64 %w_to, [{PARAMETER}];
add.s64 %w_to, %w_to, %w_at; mov.u32 %w_left, {records - 1};
mov.u32 %w_1, %clock; mov.u32 %w_2, %smid; mov.u32 %w_3, %globaltimer_lo; mov.u32 %w_0, {BEGIN};
@%w_who st.global.v4.b32 [%w_to], {{%w_0, %w_1, %w_2, %w_3}}; add.s64 %w_to, %w_to, {size};"""


def _end() -> str:
    return (
        f"mov.u32 %w_1, %clock; mov.u32 %w_2, %smid; mov.u32 %w_3, %globaltimer_lo; "
        f"mov.u32 %w_0, {END};\n"
        "@%w_who st.global.v4.b32 [%w_to], {%w_0, %w_1, %w_2, %w_3};"
    )


def _behind(number: int) -> str:
    """What follows a wait; the last place stays free for the end of the warp."""
    return f"""mov.u32 %w_2, %clock; mov.u32 %w_0, {number}; mov.u32 %w_3, 0;
setp.gt.and.u32 %w_may, %w_left, 1, %w_who;
@%w_may st.global.v4.b32 [%w_to], {{%w_0, %w_1, %w_2, %w_3}};
@%w_may add.s64 %w_to, %w_to, {4 * WORDS}; @%w_may sub.u32 %w_left, %w_left, 1;"""


def rewritten(
    ptx: str, *, warps: int, records: int, step: int = 1, kinds: Collection[str] = tuple(KINDS),
    peeks: bool = False, most: int = 0,
) -> Rewritten:  # fmt: skip
    """Return a module of one kernel that writes `records` of each warp of every `step`th CTA.

    Args:
        ptx: the module. warps: of a CTA. records: that a warp has room for. step: as above.
        kinds: of `KINDS`; each record takes a warp some 30 cycles.
        peeks: a try_wait that no loop is around only looks, and is left alone.
        most: waits of the text, its first ones, that are recorded; 0: all.

    Raises:
        ValueError: a wait stands in no loop of a known form, or there is no kernel.
    """
    entry = _ENTRY.search(ptx)
    if entry is None:
        raise ValueError("ptx: no kernel with parameters")
    lines = ptx.split("\n")
    body = ptx[: entry.end()].count("\n")
    before: dict[int, str] = {}
    behind: dict[int, str] = {}
    sites: list[Site] = []
    for k in range(body, len(lines)):
        if _RETURN.match(lines[k]):
            before[k] = _end()
        if most and len(sites) == most:
            kinds = ()
        if kind := _kind(lines[k], kinds):
            try:
                first, last = _loop(lines, k) if kind == "mbarrier" else (k, k)
            except ValueError:
                if not peeks:
                    raise
                continue
            before[first], behind[last] = "mov.u32 %w_1, %clock;", _behind(len(sites))
            sites.append(Site(kind, k + 1, lines[k].strip()[:100]))
    out = [
        "\n".join(filter(None, (before.get(k), line, behind.get(k))))
        for k, line in enumerate(lines)
    ]
    text = "\n".join(out)
    # No line up to the body's brace was changed, so its place is the same in the new text.
    start = text[: entry.end()] + _set_up(step, records, warps) + text[entry.end() :]
    at = entry.end(1)
    return Rewritten(
        f"{start[:at].rstrip()},\n\t.param .u64 {PARAMETER}\n{start[at:]}", tuple(sites)
    )
