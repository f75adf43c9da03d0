"""What the adjustments of the DSL need of an activation, so that they need not know its module."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from .runtime import Runtime


class Adjustments(Protocol):
    """Remembers what it replaces, and owns the runtime and the artifacts' folder."""

    runtime: Runtime
    artifacts: Path

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute and remember to put the old one back."""

    def artifact_dir(self) -> str:
        """A fresh folder for the next compilation's PTX and cubin."""
