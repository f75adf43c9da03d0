"""Reports: all of those of a block, a short text of each, and one for notebooks."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import sm100sim
from sm100sim.options import Check, current_options
from sm100sim.run import before_launch
from testing.harness import run_ptx


def test_a_block_collects_every_launch_faulted_ones_too() -> None:
    out = np.zeros(1, np.uint32)
    with sm100sim.record() as reports:
        run_ptx("st.global.b32 [%p0], 1;", out)
        with sm100sim.record() as inner, pytest.raises(sm100sim.SimulationFault):
            run_ptx("trap;", out)
        run_ptx("st.global.b32 [%p0], 2;", out)
    run_ptx("st.global.b32 [%p0], 3;", out)
    assert [r.verdict for r in reports] == ["clean", "findings", "clean"]
    assert inner == reports[1:2]


def test_a_block_hears_its_own_thread_only() -> None:
    out = np.zeros(1, np.uint32)
    with sm100sim.record() as reports:
        other = threading.Thread(target=run_ptx, args=("st.global.b32 [%p0], 1;", out))
        other.start()
        other.join()
    assert out[0] == 1
    assert reports == []


def test_a_block_hears_other_threads_where_it_is_asked_to() -> None:
    seen: list[str] = []

    def launch() -> None:
        run_ptx("st.global.b32 [%p0], 1;", np.zeros(1, np.uint32))
        seen.append(current_options().mode)
        with sm100sim.record() as own, sm100sim.run_options(mode="random"):
            run_ptx("")
        seen.extend([current_options().mode, str(len(own))])

    with (
        sm100sim.run_options(mode="late", everywhere=True),
        sm100sim.record(everywhere=True) as reports,
        before_launch(
            lambda request, options: (request, replace(options, seed=9)), everywhere=True
        ),
    ):
        other = threading.Thread(target=launch)
        other.start()
        other.join()
    assert seen == ["late", "late", "1"]
    assert [report.options.seed for report in reports] == [9, 9]
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(current_options).result().mode == current_options().mode == "timed"


def test_the_text_of_a_report_is_one_short_line() -> None:
    body = "\n".join(f"add.u32 %r{k}, %r60, 1;" for k in range(40))
    report = run_ptx(body, checks=Check.ALL, trace_cluster=0)
    assert len(report.findings) == 40
    text = repr(report)
    assert "\n" not in text
    assert len(text) < 200
    assert "k: findings, 40 findings" in text


def test_a_notebook_shows_the_findings_in_a_table() -> None:
    report = run_ptx(
        "setp.eq.u32 %q0, %r9, 0; // 1 < 2\ntrap;", checks=Check.ALL, raise_on_fault=False
    )
    page = report._repr_html_()
    assert page.count("<tr>") == 1 + len(report.findings)
    assert "<b>trap</b>" in page
    assert "uninitialised-register" in page
    assert "1 &lt; 2" in page
    assert "<table>" not in run_ptx("")._repr_html_()
