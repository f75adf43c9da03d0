"""PTX by the DSL's libraries for CUDA 12 and for CUDA 13."""

from __future__ import annotations

from pathlib import Path

from benchmarks.timing.side_by_side import libraries


def test_the_version_does_not_count() -> None:
    ptx = ".version 8.8\n.target sm_100a\n.entry x()"
    assert libraries.ptx_hash(ptx) == libraries.ptx_hash(ptx.replace("8.8", "9.2"))
    assert libraries.ptx_hash(ptx) != libraries.ptx_hash(ptx.replace("x()", "y()"))


def test_rows_differ_where_any_launch_does() -> None:
    found = {"cu12": {"a": ["1", "2"], "b": ["1"], "c": ["4"]},
             "cu13": {"a": ["1", "3"], "b": ["1"]}}  # fmt: skip
    assert libraries.differing(found) == ["a", "c"]
    assert libraries.counts(found) == {"rows": 3, "launches": 4, "kernels": 3, "differing": 2}


def test_every_row_that_decodes_or_is_packed_was_compiled_by_both() -> None:
    found = libraries.recorded()
    assert sorted(found) == sorted(libraries.NAMES)
    for name in libraries.NAMES:
        assert sorted(found[name]) == sorted(libraries.entries())
        assert all(found[name].values())


def test_the_page_says_how_many_differ() -> None:
    counts = libraries.counts(libraries.recorded())
    text = " ".join(Path("docs/side_by_side.md").read_text().split())
    assert f"the {counts['launches']} launches of all {counts['rows']} rows" in text
    assert f"{counts['differing']} differ in more than" in text
