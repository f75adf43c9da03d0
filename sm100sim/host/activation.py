"""Put the virtual SM100 in the device's place for the CuTe DSL of this process.

The DSL finds its runtime library through an environment variable that it reads when imported, so
:func:`activate` sets the environment first and then imports the DSL itself.  These parts of the DSL
are adjusted in place; a DSL without one of them is refused:

* ``CompileOptions.apply_envar_settings``: every compilation also keeps its PTX and cubin;
* ``JitFunctionArtifacts.__post_init__``: both are read right after the compilation, so a later one
  of the same name cannot replace them;
* ``CudaDialectJitCompiledFunction.num_devices`` and ``HardwareInfo``: answered by the device model
  (the originals ask a driver);
* ``JitExecutor.run_compiled_program`` and ``CudaDialectJitCompiledFunction.to``: a failed launch
  or load raises the simulator's own exception;
* ``cute.runtime._Tensor.load_dltensor``: host tensors count as device memory (device_memory.py).
"""

from __future__ import annotations

import atexit
import ctypes
import importlib
import itertools
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .build import build_library
from .callbacks import CallbackTable, build_table
from .device_memory import label_as_device_memory
from .device_model import DEFAULT_SM_COUNT, DeviceModel
from .images import PtxCatalogue
from .runtime import Runtime

ARCHITECTURE = "sm_100a"
FORCED = "_kept_for_sm100sim"
SHIM_SOURCE = Path(__file__).with_name("shim.c")
SHIM_FLAGS = ("-O2", "-std=c11", "-shared", "-fPIC", "-fvisibility=hidden")


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
_current: Activation | None = None


def activate(*, sm_count: int = DEFAULT_SM_COUNT) -> None:
    """Run every CuTe DSL launch of this process on the virtual SM100.

    Call it before ``cutlass`` is imported.  Calling it again while active changes nothing but
    ``sm_count``.

    Args:
        sm_count: streaming multiprocessors of the virtual device; persistent kernels size their
            grid by it.

    Raises:
        ActivationError: the DSL was imported before, is missing, or has an unknown interior.
        CompilerError: the shim library could not be compiled.
    """
    global _current, _shim_path
    device = DeviceModel(sm_count=sm_count)
    if _current is not None:
        _current.runtime.device = device
        return
    if _shim_path is None:
        _refuse_imported_dsl()
        _shim_path = build_library("sm100sim_shim", [SHIM_SOURCE], SHIM_FLAGS)
        _set_environment(_shim_path)
    shim = ctypes.CDLL(str(_shim_path))
    activation = Activation(Runtime(PtxCatalogue(), device, _run), shim)
    try:
        _adjust_dsl(activation)
    except BaseException:
        activation.close()
        raise
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


def _adjust_dsl(activation: Activation) -> None:
    compiler = _dsl_module("cutlass.base_dsl.compiler")
    executor = _dsl_module("cutlass.base_dsl.jit_executor")
    dialect = _dsl_module("cutlass.cutlass_dsl.cuda_jit_executor")
    hardware = _dsl_module("cutlass.utils.hardware_info")
    tensors = _dsl_module("cutlass.cute.runtime")
    try:
        _keep_artifacts(activation, compiler)
        _catalogue_artifacts(activation, executor.JitFunctionArtifacts)
        _raise_own_errors(activation, executor.JitExecutor, "run_compiled_program")
        _raise_own_errors(activation, dialect.CudaDialectJitCompiledFunction, "to")
        one_device = property(lambda _self: 1)
        activation.replace(dialect.CudaDialectJitCompiledFunction, "num_devices", one_device)
        _answer_hardware_queries(activation, hardware.HardwareInfo)
        _place_tensors_on_device(activation, tensors._Tensor)
    except (AttributeError, KeyError) as error:
        raise ActivationError(
            f"this nvidia-cutlass-dsl has no {error}; sm100sim was written for version 4.8.1"
        ) from error


def _dsl_module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ActivationError(
            f"cannot import {name}: {error}; sm100sim.activate() needs nvidia-cutlass-dsl 4.8.1"
        ) from error


def _keep_artifacts(activation: Activation, compiler: Any) -> None:
    options = compiler.CompileOptions
    original = options.apply_envar_settings

    kinds = {compiler.KeepPTX: "ptx", compiler.KeepCUBIN: "cubin"}

    def apply(self: Any, envar: Any, function_name: str) -> None:
        ours = [kind for kind in kinds if getattr(self.options[kind], FORCED, False)]
        for kind in ours:  # options are applied more than once
            self.options[kind].value = False
        original(self, envar, function_name)
        folder = activation.artifact_dir()
        arch = self.options[compiler.GPUArch].value or envar.arch
        for kind, extension in kinds.items():
            option = self.options[kind]
            if option.value:
                continue  # the program asked for the file itself: leave it where it wants it
            option.value = True
            setattr(option, FORCED, True)
            option.dump_path = os.path.join(folder, function_name)
            path = os.path.join(folder, f"{function_name}.{arch}.{extension}")
            setattr(option, f"full_{extension}_path", path)

    activation.replace(options, "apply_envar_settings", apply)


def _catalogue_artifacts(activation: Activation, artifacts: Any) -> None:
    original = artifacts.__post_init__

    def after_init(self: Any) -> None:
        original(self)
        if isinstance(self.CUBIN, bytes) and isinstance(self.PTX, str):
            activation.runtime.catalogue.add(self.CUBIN, self.PTX.rstrip("\0"))

    activation.replace(artifacts, "__post_init__", after_init)


def _raise_own_errors(activation: Activation, owner: Any, method: str) -> None:
    original = owner.__dict__[method]

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        activation.runtime.pending = None
        try:
            return original(self, *args, **kwargs)
        except Exception as error:
            cause = activation.runtime.take_pending()
            if cause is None:
                raise
            raise cause from error

    activation.replace(owner, method, call)


def _place_tensors_on_device(activation: Activation, tensor: Any) -> None:
    original = tensor.load_dltensor

    def load(self: Any) -> None:
        through_tvm_ffi = hasattr(self, "_tvm_ffi_tensor")  # its calls check the device's kind
        if self._dltensor_wrapper is None and not through_tvm_ffi:
            label_as_device_memory(self._dlpack_data)
        original(self)

    activation.replace(tensor, "load_dltensor", load)


def _answer_hardware_queries(activation: Activation, hardware: Any) -> None:
    def start(self: Any, device_id: int = 0) -> None:
        if device_id:
            raise ValueError(f"device_id={device_id}: the virtual machine has one device, 0")
        self.device_id = device_id

    def clusters(_self: Any, cluster_size: int, stream: Any = None) -> int:
        return activation.runtime.device.max_active_clusters(cluster_size)

    activation.replace(hardware, "__init__", start)
    activation.replace(hardware, "get_max_active_clusters", clusters)
    activation.replace(
        hardware, "get_l2_cache_size_in_bytes", lambda _self: activation.runtime.device.l2_bytes
    )
    activation.replace(
        hardware,
        "get_device_multiprocessor_count",
        lambda _self: activation.runtime.device.sm_count,
    )
