"""Environment variables and what they mean."""

from __future__ import annotations

from pathlib import Path

import pytest

from fa4_cute.host.compile.settings import DEFAULT_LOCK_TIMEOUT, read_settings


def test_cache_dir_in_order_of_preference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert read_settings({}).cache_dir == tmp_path / ".cache" / "fa4_cute"
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert read_settings({}).cache_dir == Path("/xdg/fa4_cute")
    assert read_settings({"FA4_CUTE_CACHE_DIR": "~/mine"}).cache_dir == tmp_path / "mine"
    # The XDG specification says that relative paths are to be ignored.
    monkeypatch.setenv("XDG_CACHE_HOME", "xdg")
    assert read_settings({}).cache_dir == tmp_path / ".cache" / "fa4_cute"


def test_without_a_home_directory_kernels_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platformdirs.user_cache_path", lambda *_, **__: Path("~/.cache/fa4_cute"))
    assert read_settings({}).cache_dir is None


@pytest.mark.parametrize(
    ("text", "enabled"), [("0", False), ("off", False), ("1", True), ("", True)]
)
def test_cache_can_be_switched_off(text: str, enabled: bool) -> None:
    settings = read_settings({"FA4_CUTE_CACHE": text, "FA4_CUTE_CACHE_DIR": "/somewhere"})
    assert (settings.cache_dir is not None) is enabled


def test_lock_timeout() -> None:
    assert read_settings({}).lock_timeout == DEFAULT_LOCK_TIMEOUT
    assert read_settings({"FA4_CUTE_LOCK_TIMEOUT": "2.5"}).lock_timeout == 2.5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("FA4_CUTE_CACHE", "maybe"),
        ("FA4_CUTE_LOCK_TIMEOUT", "soon"),
        ("FA4_CUTE_LOCK_TIMEOUT", "-1"),
        ("FA4_CUTE_LOCK_TIMEOUT", "nan"),
    ],
)
def test_meaningless_values_are_named(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"{name}='{value}'"):
        read_settings({name: value})
