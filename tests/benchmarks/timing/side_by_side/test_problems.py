"""What is compared, and in which columns."""

from __future__ import annotations

from benchmarks.timing.side_by_side import problems
from benchmarks.timing.side_by_side.limits import NOT_RUN
from benchmarks.timing.side_by_side.records import load

WIDE = [f"16/4 heads of 192/128, {size} keys, pages of 64"
        for size in ("64 x 4,096", "16 x 8,192", "4 x 16,384")]  # fmt: skip
WIDEST = "16/4 heads of 256, 4 x 16,384 keys, pages of 64"
STEPS = {
    *((problems.SPLIT, f"32/8 heads, 4 x 32,768 keys, pages of {page}") for page in (16, 64, 128)),
    *(("FA4, CUDA 13", name) for name in (*WIDE, WIDEST)), ("FA4, CUDA 12", WIDEST),
    *((problems.SPLIT, name) for name in (*WIDE, WIDEST)),
    (problems.SPLIT, "32/8 heads, fp8, 4 x 16,384 keys, pages of 64"),
}  # fmt: skip
"""Of FlashAttention-4, that move registers to local memory."""
CHUNKS = {
    (column, other.name)
    for column in ("FA4, CUDA 12", "FA4, CUDA 13", problems.SPLIT)
    for other in problems.OTHERS if other.name.startswith("chunk")
}  # fmt: skip
"""Of these all do."""


def test_steps_of_decoding_say_what_they_are() -> None:
    found = {other.name: other.problem for other in problems.OTHERS}
    assert len(found) == len(problems.OTHERS)
    wide = found["decode, 16/4 heads of 192/128, 4 x 16,384 keys, pages of 64"]
    assert (wide.batch, wide.seqlen_q, wide.seqlen_k, wide.page) == (4, 1, 16384, 64)
    assert (wide.heads, wide.heads_kv, wide.head_dim, wide.head_dim_v) == (16, 4, 192, 128)
    assert found["decode, 32/8 heads, fp8, 4 x 16,384 keys, pages of 64"].dtype == "fp8"


def test_a_column_without_pairs_says_nothing_where_there_are_none() -> None:
    one = next(column for column in problems.COLUMNS if column.name == problems.ONE_CTA)
    shown = [
        family.name for family in problems.FAMILIES
        if problems.offered(one, family) and not family.what
    ]  # fmt: skip
    assert shown == ["bf16 d128 all", "bf16 d192/128 all", "bf16 d256 all", "bf16 d256 causal",
                     "fp8 d128 all", "fp8 d192/128 all", "fp8 d256 all",
                     "fp8 d256 causal"]  # fmt: skip
    assert not any(problems.offered(one, other) for other in problems.OTHERS)
    split = next(column for column in problems.COLUMNS if column.name == problems.SPLIT)
    theirs = [other for other in problems.OTHERS if problems.offered(split, other)]
    assert {other.problem.group for other in theirs} == {"paged"}
    assert not any(problems.offered(split, family) for family in problems.FAMILIES)
    latent = problems.OTHERS[-1]
    ours = [problems.offered(problems.COLUMNS[0], problem) for problem in problems.OTHERS]
    assert ours.count(False) == 1
    of_latent = [column.runner for column in problems.COLUMNS if problems.offered(column, latent)]
    assert of_latent == ["Modular"]
    keys, queries = 64 * 4096 * 576 * 2, 64 * 16 * (576 + 512) * 2
    assert problems.moved_bytes(latent) == keys + queries  # its values are columns of its keys


def test_short_prompts_are_compared_with_one_package_and_have_one_key_tile() -> None:
    short = [other for other in problems.OTHERS if other.name.startswith("short prompts")]
    assert len(short) == 4
    for other in short:
        of = [column.name for column in problems.COLUMNS if problems.offered(column, other)]
        assert of == ["fa4_cute, CUDA 12", "fa4_cute, CUDA 13", "FA4, CUDA 12", "FA4, CUDA 13"]
        problem = other.problem
        assert problem.seqlen_q == problem.seqlen_k <= 128
        assert problem.batch * problem.heads > 3 * 148


def test_packed_sequences_move_the_bytes_of_each() -> None:
    packed = next(other for other in problems.OTHERS if other.problem.packed)
    tokens = sum(packed.lengths)
    assert problems.moved_bytes(packed) == tokens * 8 * 128 * 2 * 4


def test_every_configuration_that_spills_has_a_column_without_or_is_named() -> None:
    shown = {
        (column.name, f.name)
        for column in problems.COLUMNS if column.changes
        for f in problems.FAMILIES if problems.offered(column, f)
    }  # fmt: skip
    kept = {(row["column"], row.get("name", row["family"])): row for row in load()}
    spilling = {key for key, row in kept.items() if key[0].startswith("FA4") and row.get("local")}
    assert not any(kept[key]["local"] for key in shown)
    assert {key for key in kept if key[0].endswith("spill-free")} == shown
    plain = {key for key in spilling if " with " not in key[1]}
    assert {name for _, name in spilling - plain} == {
        "bf16 d128 all with a bias", "bf16 d128 causal with a bias",
        "bf16 d256 causal with a softcap",
    }  # fmt: skip
    assert {(f"{column}, spill-free", name) for column, name in plain} - shown == {
        (f"FA4, CUDA {cuda}, spill-free", f"bf16 {dims} all")
        for cuda, dims in ((12, "d256"), (13, "d192/128"))
    } | {(f"{column}, spill-free", f"decode, {name}") for column, name in STEPS} | {
        (f"{column}, spill-free", name) for column, name in CHUNKS
    }
    assert sum(name.endswith("spill-free") for name in NOT_RUN) == 4


def test_functions_windows_biases_and_sinks_are_compared_with_one_package() -> None:
    changed = [family for family in problems.FAMILIES if family.what]
    assert len({family.name for family in problems.FAMILIES}) == len(problems.FAMILIES)
    for family in changed:
        of = {column.runner for column in problems.COLUMNS if problems.offered(column, family)}
        assert of == {"fa4_cute", "FA4"}
        assert ", " not in family.name  # what is told together goes so far
        problem = family.problem(1024, 4)
        assert problem.sink or problem.softcap or problem.added or problem.window
    few = [family for family in changed if dict(family.options).get("added") == "bias"]
    assert {max(family.lengths) for family in few} == {4096}


def test_a_window_may_be_another_one() -> None:
    (narrow,) = (f for f in problems.FAMILIES if f.name.endswith("sinks and a window of 128"))
    assert (narrow.window, narrow.in_window(639).problem(1024, 1).window) == (127, 639)
    assert narrow.in_window(639).problem(1024, 1).sink
    assert problems.FAMILIES[0].window is None
