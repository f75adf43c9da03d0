"""The only reader of environment variables of this package.

================================= ==================================================== ===========
variable                          meaning                                              default
================================= ==================================================== ===========
``FA4_CUTE_CACHE_DIR``            directory of compiled kernels                        see below
``FA4_CUTE_CACHE``                ``0`` keeps compiled kernels in memory only          ``1``
``FA4_CUTE_LOCK_TIMEOUT``         seconds to wait for another process that compiles    ``60``
``CUTE_DSL_LINEINFO``             CuTe DSL's own: PTX names lines of sources           ``0``
================================= ==================================================== ===========

Without ``FA4_CUTE_CACHE_DIR`` kernels are kept in the user's cache directory as ``platformdirs``
finds it; on Linux this is ``$XDG_CACHE_HOME/fa4_cute``, or ``~/.cache/fa4_cute``.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

DEFAULT_LOCK_TIMEOUT: Final = 60.0
_NAMES: Final = (
    "FA4_CUTE_CACHE_DIR",
    "FA4_CUTE_CACHE",
    "FA4_CUTE_LOCK_TIMEOUT",
    "XDG_CACHE_HOME",
    "HOME",
)
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})


@dataclass(frozen=True)
class Settings:
    """Values of the variables.

    Attributes:
        cache_dir: directory of compiled kernels, or None when they are kept in memory only.
        lock_timeout: seconds to wait for another process before compiling privately.
    """

    cache_dir: Path | None
    lock_timeout: float


def read_settings(environment: Mapping[str, str] | None = None) -> Settings:
    """Return the settings of ``environment``, by default the process's own.

    Raises:
        ValueError: when a variable has a value that means nothing; names it.
    """
    if environment is None:
        return _of_values(tuple(os.environ.get(name) for name in _NAMES))
    return _read(environment)


@lru_cache(maxsize=4)
def _of_values(values: tuple[str | None, ...]) -> Settings:
    """Read the process's variables; they are looked at in every call, and rarely change."""
    return _read({n: v for n, v in zip(_NAMES, values, strict=True) if v is not None})


def _read(variables: Mapping[str, str]) -> Settings:
    enabled = _flag(variables, "FA4_CUTE_CACHE", default=True)
    return Settings(
        cache_dir=_cache_dir(variables) if enabled else None,
        lock_timeout=_seconds(variables, "FA4_CUTE_LOCK_TIMEOUT", DEFAULT_LOCK_TIMEOUT),
    )


def names_lines() -> bool:
    """Return whether CuTe DSL, asked by ``CUTE_DSL_LINEINFO``, writes source lines into PTX."""
    return os.environ.get("CUTE_DSL_LINEINFO", "").strip().lower() in _TRUE


def set_default(name: str, value: str) -> None:
    """Give the environment variable ``name`` a value unless it has one already."""
    os.environ.setdefault(name, value)


def _cache_dir(variables: Mapping[str, str]) -> Path | None:
    chosen = variables.get("FA4_CUTE_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_cache_path

    found = user_cache_path("fa4_cute", appauthor=False)
    # Without a home directory there is no place that outlives the process.
    return found if found.is_absolute() else None


def _flag(variables: Mapping[str, str], name: str, *, default: bool) -> bool:
    text = variables.get(name, "").strip().lower()
    if not text:
        return default
    if text not in _TRUE | _FALSE:
        raise ValueError(f"{name}={text!r}: choose 1 or 0")
    return text in _TRUE


def _seconds(variables: Mapping[str, str], name: str, default: float) -> float:
    text = variables.get(name, "").strip()
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name}={text!r}: expected a number of seconds, 0 or more")
    return value
