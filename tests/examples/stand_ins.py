"""Stand-ins for the base classes of serving frameworks, with what they declare abstract."""

from __future__ import annotations

import importlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import Enum, StrEnum
from types import ModuleType
from typing import Any, Generic, TypeVar

import pytest

T = TypeVar("T")
REGISTERED: dict[Any, Any] = {}
CHOICES: list[str] = []
"""Names that SGLang's command line takes."""


class Backend(ABC):
    """vLLM's ``AttentionBackend``: the methods without which a class has no instances."""

    @staticmethod
    @abstractmethod
    def get_name() -> str: ...

    @staticmethod
    @abstractmethod
    def get_impl_cls() -> type: ...

    @staticmethod
    @abstractmethod
    def get_builder_cls() -> type: ...

    @staticmethod
    @abstractmethod
    def get_kv_cache_shape(*sizes: Any) -> tuple[int, ...]: ...


class Impl(ABC, Generic[T]):
    """vLLM's ``AttentionImpl``."""

    @abstractmethod
    def __init__(self, *args: Any) -> None: ...

    @abstractmethod
    def forward(self, *args: Any) -> Any: ...


class Builder(ABC, Generic[T]):
    """vLLM's ``AttentionMetadataBuilder``."""

    @abstractmethod
    def __init__(self, spec: Any, layers: Any, config: Any, device: Any) -> None:
        self.device = device

    @abstractmethod
    def build(self, common_prefix_len: int, common_attn_metadata: Any) -> T: ...


class Kind(StrEnum):
    """vLLM's ``AttentionType``."""

    DECODER = "decoder"
    ENCODER = "encoder"


class Names(Enum):
    """vLLM's ``AttentionBackendEnum``."""

    CUSTOM = None


class SglangBackend(ABC):
    """SGLang's ``AttentionBackend``, which sorts decoding from the rest."""

    @abstractmethod
    def init_forward_metadata(self, forward_batch: Any) -> None: ...

    forward_decode: Callable[..., Any]
    forward_extend: Callable[..., Any]

    def forward(self, q: Any, k: Any, v: Any, layer: Any, forward_batch: Any, **more: Any) -> Any:
        decodes = forward_batch.forward_mode.is_decode()
        run = self.forward_decode if decodes else self.forward_extend
        return run(q, k, v, layer, forward_batch, **more)


def register(name: Any) -> Any:
    """Both frameworks' decorator."""

    def decorate(what: Any) -> Any:
        REGISTERED[name] = what
        return what

    return decorate


MODULES: dict[str, dict[str, Any]] = {
    "vllm.v1.attention.backend": {
        "AttentionBackend": Backend, "AttentionImpl": Impl, "AttentionMetadataBuilder": Builder,
        "AttentionType": Kind,
    },
    "vllm.v1.attention.backends.registry": {
        "AttentionBackendEnum": Names, "register_backend": register,
    },
    "sglang.srt.layers.attention.attention_registry": {"register_attention_backend": register},
    "sglang.srt.server_args": {"add_attention_backend_choices": CHOICES.extend},
    "sglang.srt.layers.attention.base_attn_backend": {"AttentionBackend": SglangBackend},
}  # fmt: skip


def example(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Import an example anew with the stand-ins in place of its framework."""
    for path, contents in MODULES.items():
        parts = path.split(".")
        for end in range(1, len(parts) + 1):
            inner = ".".join(parts[:end])
            if inner not in sys.modules:
                monkeypatch.setitem(sys.modules, inner, ModuleType(inner))
        vars(sys.modules[path]).update(contents)
    monkeypatch.delitem(sys.modules, f"examples.{name}", raising=False)
    module = importlib.import_module(f"examples.{name}")
    monkeypatch.delitem(sys.modules, f"examples.{name}")
    return module
