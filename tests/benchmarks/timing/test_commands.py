"""What programs say that ask a GPU where none is."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.timing import micro
from testing.hardware import device


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
