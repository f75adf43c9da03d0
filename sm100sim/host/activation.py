"""Put the virtual SM100 in the place of the device for the CuTe DSL in this process.

The DSL finds its runtime library through an environment variable that it reads when imported, so
:func:`activate` sets the environment first and then imports the DSL itself; dsl_hooks.py says what
is adjusted inside it.
"""

from __future__ import annotations

import atexit
import ctypes
import itertools
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..engine.shipped import find_library
from ..libraries import shim
from .callbacks import CallbackTable, build_table
from .device_model import DEFAULT_SM_COUNT, DeviceModel
from .dsl_hooks import DslError, adjust_dsl
from .images import PtxCatalogue
from .runtime import Runtime

ARCHITECTURE = "sm_100a"


class ActivationError(RuntimeError):
    """The simulator could not take the device's place; the message says what stands in the way."""


class Activation:
    """The state of an active simulator: runtime, loaded shim and what to restore afterwards."""

    def __init__(self, runtime: Runtime, shim: ctypes.CDLL) -> None:
        self.runtime = runtime
        self.shim = shim
        self.table: CallbackTable = build_table(runtime)
        self.artifacts = Path(tempfile.mkdtemp(prefix="sm100sim-"))
        atexit.register(shutil.rmtree, self.artifacts, ignore_errors=True)
        self._undo: list[Callable[[], None]] = []
        self._compilations = itertools.count()
        shim.sm100sim_register.argtypes = [ctypes.c_void_p]
        shim.sm100sim_register(ctypes.addressof(self.table))

    def replace(self, owner: Any, name: str, value: Any) -> None:
        """Set an attribute and remember to put the old one back."""
        old = owner.__dict__[name]
        self._undo.append(lambda: setattr(owner, name, old))
        setattr(owner, name, value)

    def artifact_dir(self) -> str:
        """A fresh folder for the next compilation's PTX and cubin."""
        folder = self.artifacts / str(next(self._compilations))
        folder.mkdir()
        return str(folder)

    def close(self) -> None:
        """Undo every replacement; later launches answer cudaErrorInitializationError."""
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()
        self.shim.sm100sim_register(None)
        shutil.rmtree(self.artifacts, ignore_errors=True)


_shim_path: Path | None = None
_runtime: Runtime | None = None
_current: Activation | None = None


def activate(*, sm_count: int = DEFAULT_SM_COUNT) -> None:
    """Run every CuTe DSL launch of this process on the virtual SM100.

    Call it before ``cutlass`` is imported. Calling it again while it is active changes only
    ``sm_count``.

    Args:
        sm_count: streaming multiprocessors of the virtual device; persistent kernels size their
            grid by it.

    Raises:
        ActivationError: the DSL has already been imported, is missing, or has unknown internals.
        CompilerError: the shim library could not be compiled.
    """
    global _current, _runtime, _shim_path
    device = DeviceModel(sm_count=sm_count)
    if _current is not None:
        _current.runtime.device = device
        return
    if _shim_path is None:
        _refuse_imported_dsl()
        _shim_path = find_library(shim())
        _set_environment(_shim_path)
    # One runtime for the process: functions compiled earlier keep handles of their libraries.
    _runtime = _runtime or Runtime(PtxCatalogue(), device, _run)
    _runtime.device = device
    activation = Activation(_runtime, ctypes.CDLL(str(_shim_path)))
    try:
        adjust_dsl(activation)
    except DslError as error:
        activation.close()
        raise ActivationError(str(error)) from error
    _current = activation


def deactivate() -> None:
    """Give the device's place back; the DSL stays imported, and its launches fail from now on."""
    global _current
    if _current is not None:
        _current.close()
        _current = None


def is_active() -> bool:
    """Whether :func:`activate` is in effect."""
    return _current is not None


def last_report() -> Any:
    """The report of the latest launch under :func:`activate`; None before the first one."""
    return None if _current is None else _current.runtime.last_report


def runtime() -> Runtime:
    """The runtime in effect, for programs that watch or replace the launcher.

    Raises:
        ActivationError: the simulator is not active.
    """
    if _current is None:
        raise ActivationError("sm100sim is not active; call sm100sim.activate() first")
    return _current.runtime


def _run(request: Any) -> Any:
    from ..run import run

    return run(request)


def _refuse_imported_dsl() -> None:
    if "cutlass" in sys.modules:
        raise ActivationError(
            "cutlass was imported before sm100sim.activate(); the DSL chooses its runtime library "
            "when it is imported, so call sm100sim.activate() first"
        )


def _set_environment(shim: Path) -> None:
    os.environ.setdefault("CUTE_DSL_ARCH", ARCHITECTURE)
    os.environ["CUTE_DSL_LIBS"] = str(shim)
    # A program from the DSL's file cache would be loaded without a compilation, so without PTX.
    os.environ["CUTE_DSL_DISABLE_FILE_CACHING"] = "1"
