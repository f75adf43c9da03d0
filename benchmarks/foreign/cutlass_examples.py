"""Examples of NVIDIA/cutlass (``examples/python/CuTeDSL``) from a local checkout.

``SM100SIM_CUTLASS`` names the checkout's folder; without it there are no cases.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from .cases import Case, Outcome
from .example_script import run_script

CHECKOUT_VARIABLE = "SM100SIM_CUTLASS"
EXAMPLES = Path("examples/python/CuTeDSL/cute")
SOURCE = "NVIDIA/cutlass examples/python/CuTeDSL"
SM_COUNT = 4

TUTORIAL = "blackwell/tutorial/tutorial_gemm"
DENSE = "blackwell/kernel/dense_gemm"
FP16 = "--ab_dtype Float16 --c_dtype Float16 --acc_dtype Float32"

PROGRAMS: dict[str, tuple[str, str]] = {
    "elementwise_add": (
        "ampere/kernel/elementwise/elementwise_add.py", "--M 64 --N 256 --warmup_iterations 0"
    ),
    "rmsnorm": ("blackwell/kernel/rmsnorm/rmsnorm.py", "--M 16 --N 1024"),
    "reduce": ("blackwell/kernel/reduce/reduce.py", ""),
    "fp16_gemm_0": (f"{TUTORIAL}/fp16_gemm_0.py", "--mnk 256,256,128"),
    "fp16_gemm_1": (f"{TUTORIAL}/fp16_gemm_1.py", "--mnk 512,256,128"),
    "fp16_gemm_2": (f"{TUTORIAL}/fp16_gemm_2.py", "--mnk 512,256,128"),
    "fp16_gemm_3": (f"{TUTORIAL}/fp16_gemm_3.py", "--mnk 512,256,128"),
    "fp16_gemm_3_1": (f"{TUTORIAL}/fp16_gemm_3_1.py", "--mnk 512,256,128"),
    "fp16_gemm_4": (f"{TUTORIAL}/fp16_gemm_4.py", "--mnk 512,256,128"),
    "fp16_gemm_5": (f"{TUTORIAL}/fp16_gemm_5.py", "--mnk 512,256,128"),
    "fp16_gemm_6": (f"{TUTORIAL}/fp16_gemm_6.py", "--mnk 512,256,128"),
    "tma_copy": ("blackwell/tutorial/tutorial_tma/tma_v0.py", "--M 256 --N 256"),
    "tma_transpose": ("blackwell/tutorial/tutorial_tma/tma_v1.py", "--M 256 --N 256"),
    "tma_transpose_2": ("blackwell/tutorial/tutorial_tma/tma_v2.py", "--M 256 --N 256"),
    "dense_gemm_tf32": (f"{DENSE}/dense_gemm.py", "--mnkl 256,256,64,1"),
    "dense_gemm_fp16_tma_store": (
        f"{DENSE}/dense_gemm.py", f"--mnkl 256,256,128,2 {FP16} --use_tma_store"
    ),
    "dense_gemm_fp16_ragged": (
        f"{DENSE}/dense_gemm.py", f"--mnkl 200,136,72,1 {FP16} --use_tma_store"
    ),
    "dense_gemm_fp16_mn_major": (
        f"{DENSE}/dense_gemm.py",
        f"--mnkl 256,256,128,1 {FP16} --a_major m --b_major n --c_major m",
    ),
    "dense_gemm_fp8": (
        f"{DENSE}/dense_gemm.py",
        "--mnkl 256,256,128,1 --ab_dtype Float8E4M3FN --c_dtype Float32 --acc_dtype Float32",
    ),
    "dense_gemm_2cta": (
        f"{DENSE}/dense_gemm.py",
        f"--mnkl 512,256,128,1 {FP16} --mma_tiler_mn 256,128 --cluster_shape_mn 2,1 "
        "--use_2cta_instrs --use_tma_store",
    ),
    "dense_gemm_2cta_multicast": (
        f"{DENSE}/dense_gemm.py",
        f"--mnkl 1024,512,128,1 {FP16} --mma_tiler_mn 256,128 --cluster_shape_mn 4,2 "
        "--use_2cta_instrs --use_tma_store",
    ),
    "dense_gemm_1cta_multicast": (
        f"{DENSE}/dense_gemm.py",
        f"--mnkl 512,512,128,1 {FP16} --cluster_shape_mn 2,2 --use_tma_store",
    ),
    "dense_gemm_persistent": (
        f"{DENSE}/dense_gemm_persistent.py",
        f"--mnkl 512,512,128,2 {FP16} --use_tma_store",
    ),
    "dense_gemm_persistent_2cta": (
        f"{DENSE}/dense_gemm_persistent.py",
        f"--mnkl 1024,512,128,1 {FP16} --mma_tiler_mn 256,128 --cluster_shape_mn 2,1 "
        "--use_2cta_instrs --use_tma_store",
    ),
    "dense_gemm_dynamic": (
        f"{DENSE}/dense_gemm_persistent_dynamic.py",
        f"--mnkl 512,512,128,1 {FP16} --use_tma_store",
    ),
    "dense_gemm_prefetch": (
        f"{DENSE}/dense_gemm_persistent_prefetch.py",
        f"--mnkl 512,512,128,1 {FP16} --use_tma_store",
    ),
    "dense_gemm_software_pipeline": (
        f"{DENSE}/dense_gemm_software_pipeline.py", f"--mnkl 256,256,256,1 {FP16} --use_tma_store"
    ),
    "dense_gemm_alpha_beta": (
        f"{DENSE}/dense_gemm_alpha_beta_persistent.py",
        f"--mnkl 256,256,128,1 {FP16} --mma_tiler_mn 128,128 --cluster_shape_mn 1,1",
    ),
    "grouped_gemm": (
        "blackwell/kernel/grouped_gemm/grouped_gemm.py",
        "--num_groups 2 --problem_sizes_mnkl (128,128,128,1),(256,128,64,1) "
        "--mma_tiler_mn 128,64 --cluster_shape_mn 1,1 --ab_dtype Float16 --c_dtype Float16",
    ),
    "fmha": (
        "blackwell/kernel/attention/fmha/fmha.py",
        "--q_shape 1,256,2,128 --k_shape 1,256,2,128 --is_causal",
    ),
    "fmha_d64": (
        "blackwell/kernel/attention/fmha/fmha.py", "--q_shape 1,256,2,64 --k_shape 1,256,1,64"
    ),
    "mamba2_ssd": (
        "blackwell/kernel/attention/mamba2_ssd/mamba2_ssd.py", "--gbehcdln 1,2,2,2,2,64,128,128"
    ),
    "mla_decode_fp16": (
        "blackwell/kernel/attention/mla/mla_decode_fp16.py",
        "--batch_size 1 --seq_len_k 128 --num_heads 128",
    ),
    "blockscaled_mxf8": (
        "blackwell/kernel/blockscaled_gemm/dense_blockscaled_gemm_persistent.py",
        "--mnkl 256,256,256,1 --a_dtype Float8E4M3FN --b_dtype Float8E4M3FN "
        "--sf_dtype Float8E8M0FNU --sf_vec_size 32 --c_dtype Float32 "
        "--mma_tiler_mn 128,128 --cluster_shape_mn 1,1",
    ),
    "nvfp4_gemm_0": (f"{TUTORIAL}/nvfp4_gemm_0.py", "--mnkl 128,256,256,1"),
    "blockwise_gemm": (
        "blackwell/kernel/blockwise_gemm/blockwise_gemm.py",
        "--mnkl 256,256,256,1 --mma_tiler_mn 128,128 --cluster_shape_mn 1,1",
    ),
    "mixed_input_gemm": (
        "blackwell/kernel/mixed_input_gemm/mixed_input_gemm.py", "--mnkl 256,128,256,1"
    ),
}


def checkout() -> Path | None:
    """The folder of the examples, if ``SM100SIM_CUTLASS`` names a checkout that has them."""
    folder = os.environ.get(CHECKOUT_VARIABLE)
    examples = Path(folder) / EXAMPLES if folder else None
    return examples if examples is not None and examples.is_dir() else None


def _run(script: str, arguments: str) -> Outcome:
    examples = checkout()
    if examples is None:
        raise FileNotFoundError(f"{CHECKOUT_VARIABLE} does not name a checkout of NVIDIA/cutlass")
    return run_script(examples / script, arguments.split(), sm_count=SM_COUNT)


CASES = [
    Case(f"cutlass_{name}", SOURCE, ("cutlass",), 2e-3, partial(_run, *program))
    for name, program in PROGRAMS.items()
]
