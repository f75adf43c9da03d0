"""What :func:`sm100sim.activate` adjusts inside the CuTe DSL.

Each adjustment replaces one attribute and is undone by ``deactivate``; a DSL without one of these
attributes is refused:

* ``CompileOptions.apply_envar_settings``: every compilation also keeps its PTX and cubin;
* ``JitFunctionArtifacts.__post_init__``: both are read right after the compilation, so a later one
  of the same name cannot replace them;
* ``CudaDialectJitCompiledFunction.num_devices`` and ``HardwareInfo``: answered by the device model
  (the originals ask a driver); ``initialize_cuda_context`` has nothing to do;
* ``JitExecutor.run_compiled_program`` and ``CudaDialectJitCompiledFunction.to``: a failed launch
  or load raises the simulator's own exception;
* ``cute.runtime._Tensor``: host tensors count as device memory (device_memory.py), also on their
  way through TVM-FFI (tvm_ffi_hooks.py).
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

from .device_memory import label_as_device_memory
from .protocol import Adjustments
from .tvm_ffi_hooks import adjust_tvm_ffi, device_tensor

FORCED = "_kept_for_sm100sim"


class DslError(RuntimeError):
    """The installed DSL is missing or lacks a part that must be adjusted."""


def adjust_dsl(activation: Adjustments) -> None:
    """Import the DSL and apply every adjustment of this module.

    Raises:
        DslError: the DSL is missing or lacks one of the adjusted parts.
    """
    compiler = _dsl_module("cutlass.base_dsl.compiler")
    executor = _dsl_module("cutlass.base_dsl.jit_executor")
    dialect = _dsl_module("cutlass.cutlass_dsl.cuda_jit_executor")
    hardware = _dsl_module("cutlass.utils.hardware_info")
    tensors = _dsl_module("cutlass.cute.runtime")
    driver = _dsl_module("cutlass.base_dsl.runtime.cuda")
    try:
        _keep_artifacts(activation, compiler)
        _catalogue_artifacts(activation, executor.JitFunctionArtifacts)
        _raise_own_errors(activation, executor.JitExecutor, "run_compiled_program")
        _raise_own_errors(activation, dialect.CudaDialectJitCompiledFunction, "to")
        one_device = property(lambda _self: 1)
        activation.replace(dialect.CudaDialectJitCompiledFunction, "num_devices", one_device)
        _answer_hardware_queries(activation, hardware.HardwareInfo)
        _place_tensors_on_device(activation, tensors._Tensor)
        for module in _modules_with(driver.initialize_cuda_context):
            activation.replace(module, "initialize_cuda_context", lambda *_args, **_kwargs: None)
    except (AttributeError, KeyError) as error:
        raise DslError(
            f"this nvidia-cutlass-dsl has no {error}; sm100sim was written for version 4.8.1"
        ) from error


def _modules_with(function: Any) -> list[Any]:
    """The loaded DSL modules that hold a function under its own name (it is re-exported)."""
    return [
        module
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] == "cutlass"
        and module.__dict__.get(function.__name__) is function
    ]


def _dsl_module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise DslError(
            f"cannot import {name}: {error}; sm100sim.activate() needs nvidia-cutlass-dsl 4.8.1"
        ) from error


def _keep_artifacts(activation: Adjustments, compiler: Any) -> None:
    options = compiler.CompileOptions
    original = options.apply_envar_settings

    kinds = {compiler.KeepPTX: "ptx", compiler.KeepCUBIN: "cubin"}

    def apply(self: Any, envar: Any, function_name: str) -> None:
        ours = [kind for kind in kinds if getattr(self.options[kind], FORCED, False)]
        for kind in ours:  # options are applied more than once
            self.options[kind].value = False
        original(self, envar, function_name)
        if self.options[compiler.EnableTVMFFI].value:
            adjust_tvm_ffi(activation)
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


def _catalogue_artifacts(activation: Adjustments, artifacts: Any) -> None:
    original = artifacts.__post_init__

    def after_init(self: Any) -> None:
        files = [Path(path) for path in (self.PTX, self.CUBIN) if isinstance(path, str)]
        original(self)
        if isinstance(self.CUBIN, bytes) and isinstance(self.PTX, str):
            activation.runtime.catalogue.add(self.CUBIN, self.PTX.rstrip("\0"))
        for file in files:  # their contents are in memory now
            if file.is_relative_to(activation.artifacts):
                file.unlink(missing_ok=True)

    activation.replace(artifacts, "__post_init__", after_init)


def _raise_own_errors(activation: Adjustments, owner: Any, method: str) -> None:
    original = owner.__dict__[method]

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        with activation.runtime.own_errors():
            return original(self, *args, **kwargs)

    activation.replace(owner, method, call)


def _place_tensors_on_device(activation: Adjustments, tensor: Any) -> None:
    original_init, original_load = tensor.__init__, tensor.load_dltensor

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        original_init(self, *args, **kwargs)
        if hasattr(self, "_tvm_ffi_tensor"):
            self._tvm_ffi_tensor = device_tensor(self._tvm_ffi_tensor)
            self._dlpack_data = self._tvm_ffi_tensor.__dlpack__()

    def load(self: Any) -> None:
        if self._dltensor_wrapper is None:
            label_as_device_memory(self._dlpack_data)
        original_load(self)

    activation.replace(tensor, "__init__", init)
    activation.replace(tensor, "load_dltensor", load)


def _answer_hardware_queries(activation: Adjustments, hardware: Any) -> None:
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
