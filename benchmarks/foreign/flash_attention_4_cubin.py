"""The forward kernel of PyPI ``flash-attn-4`` as a cubin, built by the installed CuTe DSL."""

import tempfile

import cuda.bindings.driver as cuda_driver
import cutlass
from cutlass import cute
from cutlass.cute.runtime import make_ptr
from flash_attn.cute.flash_fwd_sm100 import FlashAttentionForwardSm100

from benchmarks.foreign.flash_attention_4 import AttentionCall

_ALIGN = 16


def forward_cubin(head_dim: int) -> bytes:
    """Return the machine code of the bf16, non-causal, one-CTA kernel with two Q tiles."""
    kernel = FlashAttentionForwardSm100(
        head_dim,
        head_dim,
        qhead_per_kvhead=1,
        is_causal=False,
        pack_gqa=False,
        q_stage=2,
        is_static_persistent=False,
        use_2cta_instrs=False,
    )
    types = [cutlass.BFloat16] * 4 + [cutlass.Float32]
    pointers = tuple(
        make_ptr(element, _ALIGN, cute.AddressSpace.gmem, assumed_align=_ALIGN)
        for element in types
    )
    sizes = tuple(cutlass.Int32(n) for n in (1, 256, 256, 1, 1))
    arguments = (pointers, cutlass.Float32(1.0), sizes, (head_dim, head_dim))
    with tempfile.TemporaryDirectory() as directory:
        compiled = cute.compile(
            AttentionCall(kernel),
            *arguments,
            cuda_driver.CUstream(0),
            options=f"--gpu-arch=sm_100a --keep-cubin --dump-dir={directory}",
        )
        return bytes(compiled.__cubin__)
