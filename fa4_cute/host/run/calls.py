"""Calls, looked up before they are derived: what is alike but for addresses is done once.

The way in here never refuses anything: whatever it does not know, or finds wrong, takes the long
way through ``compute``, which says what is the matter.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from ...plan.facts.hardware import SM_COUNT
from ...plan.facts.tensor_map_bits import encode_tensor_map
from ..ask.arguments import Inputs, options_and_batch
from ..ask.keywords import Names, check_keywords
from ..compile import cache
from . import device, simulator
from .blocks import Block
from .compute import carry_out
from .known import guard_of, key_of, roles
from .launch import Launched, PackedLaunch
from .looking import Look
from .pattern import Pattern, pattern_of
from .prepared import Memory, Prepared, prepared
from .resized import Machine, kind_of, resized
from .sorting import Arguments, Sorter, arguments, in_full

KEPT_CALLS: Final = 1024
"""Calls that are remembered; each takes a few kilobytes."""
_NO_WAY: Final = (IndexError, RuntimeError, TypeError, ValueError, AttributeError)
"""What tensors without strides or memory raise, values that are wrong, and what has no hash."""


class Kept:
    """The calls that were carried out, at most ``limit``; those used last stay."""

    def __init__(self, limit: int = KEPT_CALLS) -> None:
        """Start with none."""
        self._limit = limit
        self._calls: dict[tuple[Any, ...], Prepared] = {}
        self._latest: dict[tuple[Any, ...], Prepared] = {}
        self._last: dict[Sorter, tuple[tuple[Any, ...], Prepared]] = {}
        self._kinds: dict[tuple[Any, ...], list[Pattern]] = {}
        self._changing = threading.Lock()

    def latest(self, constants: tuple[Any, ...]) -> Prepared | None:
        """Return the latest call with these ``constants``."""
        last = self._last.get(constants[0])
        # Comparing finds most values identical; their hashes would have to be made.
        if last is not None and last[0] == constants:
            return last[1]
        found = self._latest.get(constants)
        if found is not None:
            self._last[constants[0]] = constants, found
        return found

    def _is_latest(self, constants: tuple[Any, ...], call: Prepared) -> None:
        self._latest[constants] = call
        self._last[constants[0]] = constants, call

    def find(self, key: tuple[Any, ...], constants: tuple[Any, ...]) -> Prepared | None:
        """Return the call of ``key``, from now on the latest with these ``constants``."""
        found = self._calls.get(key)
        if found is not None:
            self._is_latest(constants, found)
        return found

    def put(self, key: tuple[Any, ...], constants: tuple[Any, ...], call: Prepared) -> None:
        """Keep a call; where there are too many, a quarter of them goes, the longest unused."""
        with self._changing:
            if len(self._calls) >= self._limit:
                old = sorted(self._calls, key=lambda k: self._calls[k].used)
                for unused in old[: self._limit // 4 + 1]:
                    del self._calls[unused]
                self._latest.clear()
                self._last.clear()
            if self._limit:
                self._calls[key] = call
                self._is_latest(constants, call)

    def patterns(self, kind: tuple[Any, ...]) -> list[Pattern]:
        """Return calls of a kind, one for every kernel."""
        return self._kinds.get(kind, [])

    def add(self, kind: tuple[Any, ...], pattern: Pattern) -> None:
        """Keep a call for those of its kind; where there are too many kinds, all are forgotten."""
        with self._changing:
            if len(self._kinds) >= self._limit:
                self._kinds.clear()
            if self._limit:
                others = [p for p in self._kinds.get(kind, []) if p.spec is not pattern.spec]
                self._kinds[kind] = [*others, pattern]

    def clear(self) -> None:
        """Forget all."""
        with self._changing:
            self._calls.clear()
            self._latest.clear()
            self._last.clear()
            self._kinds.clear()

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._calls)


kept = Kept()


def attention(inputs: Inputs, options: Mapping[str, Any], names: Names) -> tuple[Any, Any]:
    """Return O, and LSE or None; errors as the public functions.

    Args:
        inputs: q, k and v.
        options: keyword arguments.
        names: those that exist: ``OF_DENSE`` or ``OF_VARLEN``.
    """
    given = key = call = factors = None
    addresses: Any = None
    try:
        given = arguments(inputs, options, names)
        if given is None and (full := in_full(options)) is not None:
            options = full
            given = arguments(inputs, options, names)
        if given is not None:
            call = kept.latest(given.constants)
            if call is not None:
                addresses = call.addresses_like(given)
            if addresses is None:
                call = None
                key = key_of(given, inputs, options)
                if key is not None:
                    call = kept.find(key, given.constants) or _alike(given, options, key)
                    addresses = [tensor.data_ptr() for tensor in given.tensors]
            if call is not None:
                if given.numbers:
                    factors = call.factors(given.numbers, inputs, options)
                if given.written and not call.may_write(addresses, options):
                    call = None
    except _NO_WAY:
        call = key = None
    if call is not None and given is not None:
        return call(given.tensors, options, addresses, factors)
    check_keywords(options, names)
    return _the_long_way(inputs, options, given, key)


def _the_long_way(
    inputs: Inputs, options: Mapping[str, Any], given: Any, key: tuple[Any, ...] | None
) -> tuple[Any, Any]:
    """Compute, and keep how, under ``key``."""
    done = carry_out(inputs, *options_and_batch(options))
    if key is not None and done.call is not None and done.spec is not None:
        pattern = pattern_of(
            done.asked, done.spec, done.call, done.launches, roles(inputs, options)
        )
        if pattern is not None:
            kind = kind_of(given, options, key[-1] if given.looks else None)
            if kind is not None:
                kept.add(kind[0], pattern)
            _keep(pattern, given, options, key)
    return done.out, done.lse


def _alike(given: Arguments, options: Mapping[str, Any], key: tuple[Any, ...]) -> Prepared | None:
    """Return a call made of one that differs in sizes alone, kept under ``key``; None for none."""
    kind = kind_of(given, options, key[-1] if given.looks else None)
    patterns = () if kind is None else kept.patterns(kind[0])
    if kind is None or not patterns:
        return None
    pattern = resized(patterns, kind[1], given.tensors, _machine_of(given.tensors[0]))
    return None if pattern is None else _keep(pattern, given, options, key)


def _keep(
    pattern: Pattern, given: Arguments, options: Mapping[str, Any], key: tuple[Any, ...]
) -> Prepared:
    """Return the call of a pattern, kept under ``key``."""
    call = prepared(pattern, _repeat_on(given.tensors[0]))
    look = Look(pattern.roles, given.tensors, options) if given.looks else None
    call.watch(guard_of(given), given, look)
    kept.put(key, given.constants, call)
    return call


def _machine_of(q: Any) -> Machine:
    """Return what launches on the device of ``q`` are packed for."""
    if q.device.type == "cpu":
        return Machine(encode_tensor_map, SM_COUNT)
    launcher = device.launcher()
    return Machine(launcher.encode, launcher.num_sms(q.device.index))


def _repeat_on(q: Any) -> Any:
    """Return what repeats launches on the device of ``q``."""
    return _simulated if q.device.type == "cpu" else device.launcher().repeat(q.device.index)


def _simulated(
    launched: Launched, memory: Memory
) -> tuple[Callable[[], None], Callable[[Block, list[int]], None]]:
    """Return how a launch is repeated on the virtual SM100."""
    artifact, params, packed = launched

    def launch(block: Block, addresses: list[int]) -> None:
        buffers = [
            simulator.HostBuffer(at, size, i >= memory.num_read, role == "counters")
            for i, (role, at, size) in enumerate(
                zip(memory.roles, addresses, memory.sizes, strict=True)
            )
        ]
        again = PackedLaunch(packed.plan, block.values(params))
        simulator.launch(artifact.ptx, artifact.kernel_name, again, buffers)

    return lambda: None, launch


cache.when_cleared(kept.clear)
