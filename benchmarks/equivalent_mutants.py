"""Survivors of ``make mutants`` that are no faults, with the argument for each group."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sm100sim.mutate import Mutant


@dataclass(frozen=True)
class Equivalent:
    """Survivors that are no faults: `count` of `kind` at barriers whose name matches `where`."""

    kernel: str
    kind: str
    where: str
    count: int
    reason: str


RELINQUISH = "one CTA per SM: nobody else waits for the permit; giving it up early is courtesy"
PREVIOUS_PV = (
    "the commit of this tile's scores, which the softmax saw before it published the factor, "
    "covers the P V before it: the barrier tells the correction nothing new"
)
RESCALED = (
    "the factor is in a register by then, and the rescale is announced by its own arrival at S_cons"
)
SCORES_FREE = (
    "the scores two tiles on are issued after a P V of this tile, and P was complete only after "
    "all of these scores had been read (5.18)"
)
SCORES_FENCED = (
    "the reads that the wait before it stands for came before P was complete, and the fence behind "
    "the wait for P, earlier in the same thread, orders all that follows after them (5.18)"
)
ZEROS = "a tile that sees no key stores zeros, and the buffer beside it holds zeros as well"
EXCHANGED = (
    "both groups waited for their own O before they exchanged maxima at the barrier in front, so "
    "the other group's O is complete: this wait and its fence name the event that is relied on"
)
LATER_COMMIT = (
    "the correction relies on the commit of the scores that follow; what the last MMA writes is "
    "read after the groups' exchange, for which the other group waits for the last commit of all; "
    "the exchange itself overwrites columns of P that the last MMA does not read"
)
LAST_KEYS = (
    "issued for the last of an even number of key tiles: nothing is loaded into a slot of K again, "
    "and so nobody waits for either half"
)
LAST_VALUES = (
    "issued for the last but one of an even number of key tiles: the slot has held its last tile, "
    "so nobody waits for it to be free"
)
DRAINED = (
    "the ring is drained oldest slot first, and commits arrive in their own CTA in the order of "
    "the MMAs: the last wait, for the newest commit, implies the others"
)
QUERY_AFTER = (
    "the slot released there is filled again after the next Q at the earliest, and that Q comes "
    "only after the outputs have been stored, for which this accumulation was waited for"
)
NOT_THE_LAST = (
    "a copy of the cleaning for a key tile that another one follows: it has no row that belongs to "
    "no key, and so stores nothing that a fence or a meeting of the lanes would have to order"
)
SECOND_STORED = (
    "the second chain accumulates only after the first has had its P, so that its output is stored "
    "after that phase; and the load role waits for both before the Q on which the next P depend"
)
FIRST_STORED = (
    "the first group stores its output after it has met the second, all of whose P are handed over "
    "by then; and the load role waits for both before the Q on which the next P depend"
)
STORED_FENCED = (
    "a persistent CTA fences its reads before it says that it has stored, and reads no more of "
    "Tensor Memory before the barrier that the dealloc comes behind"
)
DEALLOC = "dealloc is synchronous: it comes after the barrier in front without a fence on its side"
READ_IS_TOLD = (
    "the last V of the CTA: nothing is loaded into its slot again, the drain asks for the arrival "
    "alone, and that the MMA has read V is told by O_prod, for which both CTAs wait"
)
FENCED_TWICE = (
    "reads of O are fenced before they are announced as stored and again before the dealloc: one "
    "of the two is enough for the last tile, and in between the fence in front of the next P, for "
    "which the MMAs that write O again wait, covers them too"
)
NO_TENSOR_MEMORY = (
    "two of them are behind waits for a stored output, in roles that touch no Tensor Memory before "
    "another wait with its own fence; before the third, behind S consumed, stands the fence of the "
    "wait for P, which came after those reads (5.18)"
)
LEAVING = (
    "behind this barrier are the dealloc and the exit, which need to know that all have come; the "
    "fence in front publishes the reads of Tensor Memory, and no other memory is used again"
)
TOLD_BY_SCORES = (
    "the MMAs waited for this barrier, on which K and its scales arrive together; the commit of "
    "the scores, which the softmax has seen, passes it on: the wait names the event relied on"
)
SCALED = (
    "the scores have been multiplied with the scales by then: what the arrival overtakes on its "
    "way are stores of P"
)
SCORES_SEEN = (
    "the softmax threads arrive on the first part's barrier, once they have seen these scores, and "
    "the load role waits for the first part of a slot before any other: K has been read by then"
)
SCALES_BETWEEN = (
    "the slot is filled again ten parts later, and before that come scales for a buffer that the "
    "softmax threads give back only after they have seen these scores"
)
ROPE_BUFFER = (
    "the last MMA reads a rope buffer, and not the slot; the buffer is filled again for the key "
    "tile two on, whose K needs the slot of this tile's V, and MMAs end in order"
)
FIRST_SCALES = "the first scales of a buffer that nothing has been in: the wait passes at once"
TWO_Q, D512, D256 = (
    "fa4_sm100_bf16_d128_g1_causal_lse",
    "fa4_sm100_pair_bf16_d512_g1_causal_lse",
    "fa4_sm100_pair_fp16_d256_g1_causal_lse",
)
ONE_Q = "fa4_sm100_bf16_d128_g1_causal_lse_1q"
ONE_Q_PERSISTENT = "fa4_sm100_bf16_d128_g2_causal_varq_vark_persistent_lse_1q"
TWO_Q_PERSISTENT = "fa4_sm100_bf16_d128_g2_causal_varq_vark_persistent_lse"
TWO_Q_PAIR = "fa4_sm100_bf16_d128_g1_causal_lse_pair"
PAGED_PAIR = "fa4_sm100_pair_bf16_d256_g2_causal_varq_used_page16_lse"
TWO_Q_PAGED = "fa4_sm100_bf16_d128_g2_causal_varq_used_page16_lse"
TWO_Q_ROPE = "fa4_sm100_bf16_d192v128_g1_rope_fp16_causal_lse"
ONE_Q_ROPE = "fa4_sm100_fp8_e4m3_d192v128_g1_rope_bf16_causal_lse_1q"
ONE_Q_TOKENS = "fa4_sm100_fp8_e4m3_d128_g1_causal_tokens_lse_1q"
PAIR_TOKENS = "fa4_sm100_pair_fp8_e4m3_d256_g1_causal_tokens_lse"
ONE_Q_CLUSTER = "fa4_sm100_bf16_d128_g1_causal_cluster2_lse_1q"
PERSISTENT_PAIR = "fa4_sm100_pair_bf16_d256_g2_causal_varq_vark_persistent_lse"
EQUIVALENT = (
    Equivalent(TWO_Q, "drop-relinquish", "-", 1, RELINQUISH),
    Equivalent(TWO_Q, "early-release", "C[01]_cons", 2, RESCALED),
    Equivalent(TWO_Q, "early-commit", r"O_prod\[1\]", 1, PREVIOUS_PV),
    Equivalent(D512, "drop-relinquish", "-", 1, RELINQUISH),
    Equivalent(D512, "early-release", r"S_even_cons\+", 1, SCORES_FREE),
    Equivalent(D512, "drop-fence-after", "-", 1, SCORES_FENCED),
    Equivalent(D512, "relaxed-cluster-arrive", "-", 1, LEAVING),
    Equivalent(D512, "wrong-stage-buffer", "-", 1, ZEROS),
    Equivalent(D256, "drop-relinquish", "-", 1, RELINQUISH),
    Equivalent(D256, "early-release", r"S_even_cons\+", 1, SCORES_FREE),
    Equivalent(D256, "drop-fence-after", "-", 1, SCORES_FENCED),
    Equivalent(D256, "relaxed-cluster-arrive", "-", 1, LEAVING),
    Equivalent(D256, "wrong-stage-buffer", "-", 1, ZEROS),
    Equivalent(ONE_Q, "drop-relinquish", "-", 1, RELINQUISH),
    Equivalent(ONE_Q, "drop-wait|wait-on-neighbour", r"O_prod\[[01]\]", 3, EXCHANGED),
    Equivalent(ONE_Q, "drop-fence-after", "-", 1, EXCHANGED),
    Equivalent(ONE_Q, "early-commit", r"O_prod\[[01]\]", 3, LATER_COMMIT),
    Equivalent(ONE_Q, "(drop|early)-commit|.*-neighbour", r"K_empty\[0\..\]\+", 5, LAST_KEYS),
    Equivalent(ONE_Q, "(drop|early)-commit", r"V_empty\[0\.0\]\+", 2, LAST_VALUES),
    Equivalent(ONE_Q, "early-release", "C[01]_cons", 2, RESCALED),
    Equivalent(ONE_Q_PERSISTENT, "drop-relinquish", "-", 1, RELINQUISH),
    Equivalent(ONE_Q_PERSISTENT, "drop-wait", r"O_prod\[[01]\]", 4, EXCHANGED),
    Equivalent(ONE_Q_PERSISTENT, "drop-fence-after", "-", 1, EXCHANGED),
    Equivalent(ONE_Q_PERSISTENT, "drop-wait|wait-on-neighbour", r"stored\[1\]", 2, FIRST_STORED),
    Equivalent(ONE_Q_PERSISTENT, "drop-fence-proxy|drop-bar-warp-sync", "-", 6, NOT_THE_LAST),
    Equivalent(ONE_Q_PERSISTENT, "drop-wait|wait-on-neighbour", r"[KV]_empty.*", 11, DRAINED),
    Equivalent(ONE_Q_PERSISTENT, "early-commit", r"O_prod\[[01]\]", 3, LATER_COMMIT),
    Equivalent(ONE_Q_PERSISTENT, "early-commit", r"[KV]_empty.*", 3, QUERY_AFTER),
    Equivalent(ONE_Q_PERSISTENT, "early-release", "C[01]_cons", 2, RESCALED),
    Equivalent(TWO_Q_PERSISTENT, "drop-relinquish", "-", 1, RELINQUISH),
    Equivalent(TWO_Q_PERSISTENT, "drop-fence-before", "-", 1, STORED_FENCED),
    Equivalent(TWO_Q_PERSISTENT, "drop-fence-after", "-", 1, DEALLOC),
    Equivalent(TWO_Q_PERSISTENT, "drop-wait", r"stored\[0\]", 1, SECOND_STORED),
    Equivalent(TWO_Q_PERSISTENT, "drop-wait|wait-on-neighbour", r"KV_empty.*", 5, DRAINED),
    Equivalent(TWO_Q_PERSISTENT, "early-commit", r"O_prod\[1\]", 1, PREVIOUS_PV),
    Equivalent(TWO_Q_PERSISTENT, "early-commit", r"KV_empty.*", 1, QUERY_AFTER),
    Equivalent(TWO_Q_PERSISTENT, "early-release", "C[01]_cons", 2, RESCALED),
    Equivalent(TWO_Q_PAIR, "drop-relinquish", "-", 1, RELINQUISH),
    Equivalent(TWO_Q_PAIR, "early-commit", r"O_prod\[1\]", 1, PREVIOUS_PV),
    Equivalent(TWO_Q_PAIR, "early-commit", r"V_empty.*", 1, READ_IS_TOLD),
    Equivalent(TWO_Q_PAIR, "early-release", "C[01]_cons", 2, RESCALED),
    Equivalent(TWO_Q_PAIR, "relaxed-cluster-arrive", "-", 1, LEAVING),
    Equivalent(PAGED_PAIR, "drop-relinquish", "-", 1, RELINQUISH),
    Equivalent(PAGED_PAIR, "early-release", r"S_even_cons\+", 1, SCORES_FREE),
    Equivalent(PAGED_PAIR, "drop-fence-after", "-", 1, SCORES_FENCED),
    Equivalent(PAGED_PAIR, "relaxed-cluster-arrive", "-", 1, LEAVING),
    Equivalent(PAGED_PAIR, "wrong-stage-buffer", "-", 1, ZEROS),
    Equivalent(TWO_Q_PAGED, "drop-relinquish", "-", 1, RELINQUISH),
    Equivalent(TWO_Q_ROPE, "drop-relinquish", "-", 1, RELINQUISH),
    Equivalent(TWO_Q_ROPE, "early-commit", r"KV_empty\[0\.0\]\+?", 1, ROPE_BUFFER),
    Equivalent(ONE_Q_ROPE, "drop-relinquish", "-", 1, RELINQUISH),
    Equivalent(ONE_Q_ROPE, "(drop|early)-commit", r"K_empty\[0\..\]\+", 2, LAST_KEYS),
    Equivalent(ONE_Q_TOKENS, "drop-relinquish", "-", 1, RELINQUISH),
    Equivalent(ONE_Q_TOKENS, "drop-wait", r"K_full\[[01]\.0\]\+", 2, TOLD_BY_SCORES),
    Equivalent(ONE_Q_TOKENS, "drop-commit", r"K_empty\[0\..\]\+", 1, LAST_KEYS),
    Equivalent(ONE_Q_TOKENS, "early-commit", r"K_empty\[0\..\]\+?", 2, SCORES_SEEN),
    Equivalent(ONE_Q_TOKENS, "early-commit", r"O_prod\[[01]\]", 1, LATER_COMMIT),
    Equivalent(ONE_Q_TOKENS, "early-release", r"K_empty\[[01]\.0\]\+", 2, SCALED),
    Equivalent(PAIR_TOKENS, "drop-relinquish", "-", 1, RELINQUISH),
    Equivalent(PAIR_TOKENS, "drop-fence-after", "-", 1, SCORES_FENCED),
    Equivalent(PAIR_TOKENS, "drop-wait|wait-on-neighbour", r"scale_empty\[0\]", 2, FIRST_SCALES),
    Equivalent(PAIR_TOKENS, "early-commit", r"KV_empty\[0\]\+", 1, SCALES_BETWEEN),
    Equivalent(PAIR_TOKENS, "early-release", r"S_even_cons\+", 1, SCORES_FREE),
    Equivalent(PAIR_TOKENS, "relaxed-cluster-arrive", "-", 1, LEAVING),
    Equivalent(ONE_Q_CLUSTER, "drop-relinquish", "-", 1, RELINQUISH),
    Equivalent(ONE_Q_CLUSTER, "early-commit", r"O_prod\[[01]\]", 1, LATER_COMMIT),
    Equivalent(ONE_Q_CLUSTER, "(drop|early)-commit", r"K_empty.*", 2, LAST_KEYS),
    Equivalent(PERSISTENT_PAIR, "drop-relinquish", "-", 1, RELINQUISH),
    Equivalent(PERSISTENT_PAIR, "drop-fence-before", "-", 2, FENCED_TWICE),
    Equivalent(PERSISTENT_PAIR, "drop-fence-after", "-", 3, NO_TENSOR_MEMORY),
    Equivalent(PERSISTENT_PAIR, "early-release", r"S_even_cons\+", 1, SCORES_FREE),
    Equivalent(PERSISTENT_PAIR, "relaxed-cluster-arrive", "-", 1, LEAVING),
)


ASSIGNED = re.compile(
    r"^\s*(mov|add|selp|mapa)\.[\w.:]+\s+(%\w+), ([-\w%]+)(?:, ([-\w%]+))?(?:, %\w+)?;"
)


def _offset(register: str, lines: list[str], end: int) -> tuple[int, bool]:
    """The constant part of an address in front of line `end`, and whether there is another."""
    for number in range(end - 1, -1, -1):
        if not re.search(rf"^\s*[\w.:]+\s+{register},", lines[number]):
            continue
        found = ASSIGNED.match(lines[number])
        if not found:
            break
        first, second = found.groups()[2:]
        operands = [first, second] if found[1] == "add" else [first]
        parts = [_part(operand, lines, number) for operand in operands]
        computed = found[1] == "selp" or any(p[1] for p in parts)
        return sum(p[0] for p in parts), computed
    return 0, True


def _part(operand: str, lines: list[str], end: int) -> tuple[int, bool]:
    if operand.startswith("%"):
        return _offset(operand, lines, end)
    return (int(operand), False) if re.fullmatch(r"-?\d+", operand) else (0, False)


def barrier_of(line: int, statement: str, lines: list[str], names: dict[int, str]) -> str:
    """The barrier that a statement uses; "name+" when its stage is computed, "-": none."""
    found = re.search(r"\[\s*(%\w+)\s*\](?!.*\[)", statement)
    if not found:
        return "-"
    offset, computed = _offset(found[1], lines, line)
    return names[offset] + "+" * computed if offset in names else "-"


@dataclass(frozen=True)
class Survivor:
    """A mutant that no run told apart from its kernel: its barrier, and why that is right."""

    mutant: Mutant
    where: str
    reason: str = ""

    def __str__(self) -> str:
        """Name and place."""
        return f"{self.mutant.name} at {self.where}"


def explain(kernel: str, survivors: Sequence[Survivor]) -> tuple[list[Survivor], list[str]]:
    """Give survivors their reasons; returns those that have one, and in words what is wrong."""
    left, explained, problems = list(survivors), [], []
    for entry in EQUIVALENT:
        if entry.kernel != kernel:
            continue
        mine = [
            s for s in left
            if re.fullmatch(entry.kind, s.mutant.kind) and re.fullmatch(entry.where, s.where)
        ]  # fmt: skip
        if len(mine) != entry.count:
            counts = f"{len(mine)} survive, {entry.count} explained"
            problems.append(f"{entry.kind} at {entry.where}: {counts}")
        explained += [replace(s, reason=entry.reason) for s in mine]
        left = [s for s in left if s not in mine]
    return explained, problems + [f"{s}: {s.mutant.before[:90]}" for s in left]
