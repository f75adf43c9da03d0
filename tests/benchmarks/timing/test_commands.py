"""What the programs say that are asked for help, or for a GPU that is not there."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.timing import blackwell, micro, profiles, replayed
from benchmarks.timing.judges import page, warm_page
from benchmarks.timing.sharing import __main__ as sharing
from benchmarks.timing.sharing import paces, together, together_kernels
from testing.hardware import device

OF_LISTS = (blackwell, page, profiles, replayed, warm_page)
OF_WORDS = (paces, sharing, together, together_kernels)


@pytest.mark.parametrize("module", [*OF_LISTS, *OF_WORDS], ids=lambda module: module.__name__)
def test_help_is_how_a_program_is_called(
    module: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """And no file of that name is written."""
    monkeypatch.chdir(tmp_path)
    main = module.main
    assert (main("--help") if module in OF_WORDS else main(["--help"])) == 64
    assert module.__doc__
    assert module.__doc__ in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_without_a_gpu_a_line_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def none() -> object:
        raise RuntimeError('"cuda" is a library of the driver. Install it.')

    monkeypatch.setattr(device, "Device", none)
    with pytest.raises(SystemExit) as ended:
        micro.main(["run", str(tmp_path / "out.json")])
    said = 'this asks a Hopper GPU, and there is none here: RuntimeError: "cuda" is a library of'
    assert str(ended.value).startswith(said)
    assert "\n" not in str(ended.value)
    assert not list(tmp_path.iterdir())
