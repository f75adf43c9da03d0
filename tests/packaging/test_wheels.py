"""The distributions: built from the sources, installed elsewhere, used with nothing else around."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import torch

from sm100sim.engine.build import find_compiler

ROOT = Path(__file__).parents[2]
FOLDERS = ("sm100sim", "fa4_cute", "docs", "tests/sim", "tests/packaging")
FILES = ("pyproject.toml", "MANIFEST.in", "README.md", "LICENSE", "CHANGELOG.md")
CALL = """
import torch, fa4_cute, sm100sim
q, k, v = (torch.arange(8192).reshape(1, 128, 1, 64).mul(s).sin().bfloat16() for s in (1, 2, 3))
print(fa4_cute.__file__, sm100sim.__file__)
torch.save((q, k, v, fa4_cute.flash_attn(q, k, v)), "result.pt")
"""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All four files, made from a copy of the sources: building leaves files among them."""
    copy = tmp_path_factory.mktemp("sources")
    for name in FOLDERS:
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy2(ROOT / name, copy / name)
    # What is tested is the packing. Optimised as for users, the libraries take five times as long.
    compiler = copy / "cc"
    compiler.write_text(f'#!/bin/sh\nexec {shlex.join(find_compiler())} "$@" -O0\n')
    compiler.chmod(0o755)
    environment = {**os.environ, "CC": str(compiler)}
    for project in ("sm100sim", "."):
        line = [sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", project]
        done = subprocess.run(
            line, cwd=copy, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return copy / "dist"


@pytest.fixture(scope="module")
def python(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python with the two wheels and the packages they need, and without this checkout."""
    home = tmp_path_factory.mktemp("installed")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    (site,) = home.glob("lib/python*/site-packages")
    for wheel in dist.glob("*.whl"):
        zipfile.ZipFile(wheel).extractall(site)
    # Lines of a .pth file are not followed any further, so the checkout stays out.
    lines = [path for path in sys.path if "site-packages" in path]
    (site / "dependencies.pth").write_text("\n".join(lines))
    return home / "bin" / "python"


def run(python: Path, code: str, folder: Path) -> str:
    """Run ``code`` in an empty folder, with empty caches and no compiler on the path."""
    clean = {"PATH": str(python.parent), "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "c")}
    kept = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
    done = subprocess.run(
        [python, "-c", code], cwd=folder, env=clean | kept, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_readme_of_the_simulator_runs_without_a_compiler(python: Path, tmp_path: Path) -> None:
    text = (ROOT / "sm100sim" / "README.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, flags=re.S)
    assert run(python, code, tmp_path) == "clean [0 2 4 6]\n"
    assert not [*tmp_path.rglob("*.so"), *tmp_path.rglob("*.o")]


def test_attention_runs_from_the_wheels_alone(python: Path, tmp_path: Path) -> None:
    places = run(python, CALL, tmp_path)
    assert places.count(str(python.parents[1])) == 2
    assert not list(tmp_path.rglob("sm100sim_engine*"))
    q, k, v, out = torch.load(tmp_path / "result.pt")
    heads = (t.double().transpose(1, 2) for t in (q, k, v))
    want = torch.nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2)
    assert (out.double() - want).abs().max() < 8e-3


PYTEST = """
import sys, pytest
from importlib.metadata import entry_points
(command,) = entry_points(group="console_scripts", name="sm100sim")
assert command.load()(["info"]) == 0
words = ["-q", "-p", "no:cacheprovider", "-o", "sm100sim_activate=false", "--sm100sim"]
sys.exit(pytest.main([*words[:-1], "test_launch.py", words[-1]]))
"""
TEST = """
import numpy as np, sm100sim
def test_launch(sm100sim_reports):
    sm100sim.launch(HEAD + ".visible .entry k() { ret; }", grid=1, block=32)
    assert [report.verdict for report in sm100sim_reports] == ["clean"]
"""


def test_the_wheel_brings_the_command_and_the_plugin_for_pytest(
    python: Path, tmp_path: Path
) -> None:
    head = ".version 8.8\n.target sm_100a\n.address_size 64\n"
    (tmp_path / "test_launch.py").write_text(TEST.replace("HEAD", repr(head)))
    printed = run(python, PYTEST, tmp_path)
    assert "sm100sim: 1 launches, 1 clean, 0 findings" in printed
    assert "1 passed" in printed


def test_wheels_hold_the_package_and_its_types_and_nothing_else(dist: Path) -> None:
    for package in ("sm100sim", "fa4_cute"):
        (wheel,) = dist.glob(f"{package}-*.whl")
        names = zipfile.ZipFile(wheel).namelist()
        assert f"{package}/py.typed" in names
        assert f"{package}/setup.py" not in names
        strangers = [n for n in names if not n.startswith((f"{package}/", f"{package}-"))]
        assert strangers == []


def test_the_wheel_of_the_simulator_has_a_library_per_level(dist: Path) -> None:
    (wheel,) = dist.glob("sm100sim-*-py3-none-linux_*.whl")
    libraries = [n for n in zipfile.ZipFile(wheel).namelist() if n.startswith("sm100sim/lib/")]
    found = {re.sub(r"-[0-9a-f]{16}\.so$", "", Path(name).name) for name in libraries}
    assert found == {
        f"sm100sim_{what}-x86-64-{level}"
        for what in ("engine", "shim", "libcuda", "libcudart", "libnvjitlink", "libnvml")
        for level in ("v2", "v3")
    }


def test_source_distributions_carry_tests_and_docs(dist: Path) -> None:
    for package in ("sm100sim", "fa4_cute"):
        (archive,) = dist.glob(f"{package}-*.tar.gz")
        with tarfile.open(archive) as opened:
            names = {name.partition("/")[2] for name in opened.getnames()}
        assert {"docs/simulator.md", "tests/sim/test_options.py", "LICENSE", "README.md"} <= names
