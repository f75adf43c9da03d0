"""What the compiled PTX must look like, whatever the compiler did on the way."""

import re

import pytest

from fa4_cute.host.compile.compiler import compile_kernel, entry_name
from fa4_cute.plan.compute.mma_plans import pv_plan, qk_plan
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.params import KERNEL_PARAMS
from tests.kernel.artifacts import compiled

BF16, FP16 = DType.BF16, DType.FP16
SPECS = [
    KernelSpec.for_attention(BF16, 128, return_lse=True),
    KernelSpec.for_attention(BF16, 64, group=4, causal=True, return_lse=True),
    KernelSpec.for_attention(FP16, 192, causal=True),
    KernelSpec.for_attention(FP16, 8, group=3),
]
PARAM = re.compile(r"\.param (?:\.align (\d+) )?\.(\w+) \w+?_param_\d+(?:\[(\d+)\])?")


def instructions(ptx: str) -> list[str]:
    lines = (line.split("//")[0].strip() for line in ptx.splitlines())
    return [line for line in lines if line.endswith((";", ":"))]


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.name)
def test_parameter_list_is_the_plan(spec: KernelSpec) -> None:
    header = compiled(spec).ptx.split(".visible .entry")[1].split(")")[0]
    found = PARAM.findall(header)
    expected = [
        ("64", "b8", "128") if p.kind == "tensor_map" else ("", p.kind, "")
        for p in KERNEL_PARAMS.params
    ]
    assert found == expected


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.name)
def test_loads_are_waited_for_before_their_registers_are_read(spec: KernelSpec) -> None:
    """The PTX ISA orders tcgen05.ld only by wait::ld; the compiler must not have moved a use up."""
    pending: set[str] = set()
    waits = 0
    for line in instructions(compiled(spec).ptx):
        registers = set(re.findall(r"%r\d+", line))
        if line.startswith("tcgen05.ld"):
            destination, _, address = line.partition("}")
            assert not pending & set(re.findall(r"%r\d+", address))
            pending |= set(re.findall(r"%r\d+", destination))
        elif line.startswith("tcgen05.wait::ld"):
            pending.clear()
            waits += 1
        else:
            assert not pending & registers, line
    assert waits > 0
    assert not pending


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.name)
def test_stores_are_waited_for_before_p_is_handed_over(spec: KernelSpec) -> None:
    stored = False
    for line in instructions(compiled(spec).ptx):
        if line.startswith("tcgen05.st"):
            stored = True
        elif line.startswith("tcgen05.wait::st"):
            stored = False
        elif line.startswith("mbarrier.arrive"):
            assert not stored


@pytest.mark.parametrize("spec", SPECS, ids=lambda s: s.name)
def test_every_mma_is_predicated_on_one_elected_lane(spec: KernelSpec) -> None:
    lines = instructions(compiled(spec).ptx)
    mmas = [line for line in lines if "tcgen05.mma" in line]
    assert all(line.startswith("@leader tcgen05.mma.cta_group::1.kind::f16") for line in mmas)
    qk, pv = qk_plan(spec.config), pv_plan(spec.config)
    # Each accumulation appears per chain: before and inside the loop, and P1 V after it as well.
    assert len(mmas) == 4 * qk.num_k_mmas + 4 * pv.num_k_mmas


def test_tensor_memory_is_freed_and_the_permit_given_back() -> None:
    ptx = compiled(SPECS[0]).ptx
    for opcode in ("alloc", "relinquish_alloc_permit", "dealloc"):
        assert ptx.count(f"tcgen05.{opcode}.cta_group::1") == 1


def test_log_sum_exp_is_stored_only_on_request() -> None:
    assert "st.global" in compiled(SPECS[0]).ptx
    assert "st.global" not in compiled(SPECS[2]).ptx


def test_an_artifact_holds_the_name_and_the_cubin() -> None:
    artifact = compile_kernel(SPECS[0])
    assert artifact.kernel_name.startswith(SPECS[0].name)
    assert artifact.cubin.startswith(b"\x7fELF")


@pytest.mark.slow
@pytest.mark.parametrize("head_dim", [*range(8, 129, 8), 192])
@pytest.mark.parametrize("dtype", [BF16, FP16], ids=lambda d: d.value)
def test_every_head_dim_compiles(dtype: DType, head_dim: int) -> None:
    for group, causal in ((1, True), (8, False)):
        spec = KernelSpec.for_attention(dtype, head_dim, group=group, causal=causal)
        assert compile_kernel(spec).smem_bytes == spec.config.smem_used


def test_entry_name_refuses_anything_but_one_entry() -> None:
    assert entry_name(".visible .entry f(\n") == "f"
    with pytest.raises(RuntimeError, match="expected one kernel entry"):
        entry_name("")
