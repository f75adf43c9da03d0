"""Hand a kernel to the CuTe DSL compiler with the parameter list of ``fa4_cute.plan.spec.params``.

The DSL passes a TMA atom to a kernel as a 128-byte tensor map by value, which is all that is used
of the atoms made here: their tensors are stand-ins, because the real maps are encoded at launch.
"""

from typing import Any

import cutlass
from cutlass import Float32, Int32, Int64, cute
from cutlass.cute.nvgpu import cpasync
from cutlass.cute.runtime import make_ptr
from cutlass.cute.typing import AddressSpace

from ...depth512 import SM100MHADepth512
from ...kernel_sm90 import SM90MHA
from ...kernel_sm100 import SM100MHA2Q
from ...output.combine import SplitCombine
from ...plan.facts.dtypes import DType
from ...plan.spec.attention_spec import AttentionSpec
from ...plan.spec.combine_spec import CombineSpec
from ...plan.spec.depth512_spec import Depth512Spec
from ...plan.spec.kernel_spec import KernelSpec
from ...plan.spec.sm90_spec import SM90Spec

_ELEMENT_TYPES = {
    DType.BF16: cutlass.BFloat16,
    DType.FP16: cutlass.Float16,
    DType.FP8_E4M3: cutlass.Float8E4M3FN,
}
_KERNELS: dict[type, Any] = {
    KernelSpec: SM100MHA2Q,
    Depth512Spec: SM100MHADepth512,
    SM90Spec: SM90MHA,
}
_PARAM_TYPES = {"u64": Int64, "u32": Int32, "f32": Float32}
_STAND_IN_SHAPE = (8, 64)
_POINTER_ALIGN = 16


def _stand_in_atom(pointer: cute.Pointer, operation: Any) -> Any:
    rows, columns = _STAND_IN_SHAPE
    layout = cute.make_layout((rows, columns), stride=(columns, 1))
    tensor = cute.make_tensor(pointer, layout)
    return cpasync.make_tiled_tma_atom(operation, tensor, layout, _STAND_IN_SHAPE)[0]


def trace_kernel(spec: AttentionSpec | CombineSpec, options: str) -> Any:
    """Compile ``spec`` with the DSL's ``options`` and return its compiled function."""
    if isinstance(spec, CombineSpec):
        return trace_combine(spec, options)
    return trace_attention(spec, options)


def trace_combine(spec: CombineSpec, options: str) -> Any:
    """Compile the kernel that combines the partial results of split keys."""
    combine = SplitCombine(spec)
    _name(SplitCombine, spec)

    @cute.jit
    def host(
        pointers: tuple[Int64, Int64, Int64, Int64], rows: Int64, counts: tuple[Int32, ...]
    ) -> None:
        combine.kernel(*pointers, rows, counts).launch(
            grid=[1, 1, 1], block=[spec.num_threads, 1, 1]
        )

    counts = (Int32(1), Int32(1), Int32(1))
    return cute.compile(host, (Int64(0),) * 4, Int64(1), counts, options=options)


def _name(kernel_class: Any, spec: AttentionSpec | CombineSpec) -> None:
    """Set the entry name on the class's kernel; a trace in this process reads it right away."""
    kernel_class.kernel.set_name_prefix(
        spec.name, remove_cutlass_symbol=True, keep_mangled_name=False
    )


def _stand_in_maps(spec: AttentionSpec, operand: cute.Pointer) -> tuple[Any, ...]:
    """Return one atom for every tensor map of the parameter list; only O's is for stores."""
    load, store = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
    names = [param.name for param in spec.params.params if param.kind == "tensor_map"]
    return tuple(_stand_in_atom(operand, store if name == "o_map" else load) for name in names)


def _launch_shape(spec: AttentionSpec) -> dict[str, Any]:
    """Return a launch of one cluster."""
    ctas = [spec.cluster_size, 1, 1]
    shape = {"grid": ctas, "block": [spec.num_threads, 1, 1], "smem": spec.smem_bytes}
    shape["min_blocks_per_mp"] = spec.schedule.ctas_per_sm
    if spec.schedule.ctas_per_sm > 1:
        # In percent. Unless it is given, the DSL asks a GPU for its shared memory.
        shape["preferred_smem_carveout"] = 100
    return shape | ({"cluster": ctas} if spec.cluster_size > 1 else {})


def trace_attention(spec: AttentionSpec, options: str) -> Any:
    """Compile an attention kernel."""
    kernel_class = _KERNELS[type(spec)]
    attention = kernel_class(spec)
    shape = _launch_shape(spec)
    _name(kernel_class, spec)

    @cute.jit
    def host(operand: cute.Pointer, scalars: tuple[Any, ...]) -> None:
        maps = _stand_in_maps(spec, operand)
        lse, seqlen_q, seqlen_k, num_q_heads, scale_log2, *extras = scalars
        attention.kernel(
            maps, lse, seqlen_q, seqlen_k, num_q_heads, scale_log2, tuple(extras)
        ).launch(**shape)

    element_type = _ELEMENT_TYPES[spec.config.qkv_dtype]
    pointer = make_ptr(element_type, 0, AddressSpace.gmem, assumed_align=_POINTER_ALIGN)
    kinds = [param.kind for param in spec.params.params[spec.num_maps :]]
    scalars = tuple(_PARAM_TYPES[kind](1) for kind in kinds)
    return cute.compile(host, pointer, scalars, options=options)
