"""What the compiled PTX must look like, whatever the compiler did on the way."""

import re

import pytest

from fa4_cute.host.compile.compiler import entry_name
from fa4_cute.plan.compute.mma_plans import pv_plan, qk_plan
from fa4_cute.plan.facts.dtypes import DType
from fa4_cute.plan.memory.chunks import copies_in_a_row
from fa4_cute.plan.spec.depth512_spec import Depth512Spec
from fa4_cute.plan.spec.kernel_spec import KernelSpec
from fa4_cute.plan.spec.params import KERNEL_PARAMS
from fa4_cute.plan.spec.variant import Variant
from testing.sass import compiled

pytestmark = pytest.mark.slow

BF16, FP16, FP8 = DType.BF16, DType.FP16, DType.FP8_E4M3
SPECS = [
    KernelSpec.for_attention(BF16, 128, return_lse=True),
    KernelSpec.for_attention(BF16, 64, group=4, causal=True, return_lse=True),
    KernelSpec.for_attention(FP16, 192, causal=True),
    KernelSpec.for_attention(FP16, 8, group=3),
]
FP8_SPECS = [
    KernelSpec.for_attention(FP8, 64, causal=True, return_lse=True, group=2),
    KernelSpec.for_attention(FP8, 128, return_lse=True),
    Depth512Spec.for_attention(FP8, 512, causal=True, return_lse=True),
]
PAIR = Depth512Spec.for_attention(BF16, 256, causal=True, return_lse=True)
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
    artifact = compiled(SPECS[0])
    assert artifact.kernel_name.startswith(SPECS[0].name)
    assert artifact.cubin.startswith(b"\x7fELF")


def test_entry_name_refuses_anything_but_one_entry() -> None:
    assert entry_name(".visible .entry f(\n") == "f"
    with pytest.raises(RuntimeError, match="expected one kernel entry"):
        entry_name("")


@pytest.mark.parametrize("spec", FP8_SPECS, ids=lambda s: s.name)
def test_all_mmas_of_fp8_kernels_are_of_the_fp8_kind(spec: KernelSpec | Depth512Spec) -> None:
    ptx = compiled(spec).ptx
    assert set(re.findall(r"kind::(\w+)", ptx)) == {"f8f6f4"}
    assert "cvt.rn.bf16x2.f32" in ptx


@pytest.mark.parametrize("spec", FP8_SPECS[:2], ids=lambda s: s.name)
def test_every_probability_is_rounded_to_fp8_once(spec: KernelSpec) -> None:
    """Two softmax groups, BN keys a row, two keys an instruction."""
    conversions = compiled(spec).ptx.count("cvt.rn.satfinite.e4m3x2.f32")
    assert conversions == 2 * spec.config.BN // 2


def test_the_scale_of_v_is_the_last_parameter() -> None:
    header = compiled(FP8_SPECS[1]).ptx.split(".visible .entry")[1].split(")")[0]
    assert header.rstrip().splitlines()[-1].split()[1] == ".f32"
    assert len(re.findall(r"\.param", header)) == len(FP8_SPECS[1].params.params)


def test_only_the_hand_over_of_p_pays_for_a_memory_barrier_in_a_pair() -> None:
    """Arrivals that hand over Tensor Memory need none; P of head dim 512 lies in shared memory."""
    in_memory = Depth512Spec.for_attention(BF16, 512, causal=True, return_lse=True)
    for spec, count in ((PAIR, 0), (in_memory, 1)):
        ptx = compiled(spec).ptx
        assert len(re.findall(r"mbarrier\.arrive\.release\.cluster", ptx)) == count
        assert len(re.findall(r"mbarrier\.arrive\.relaxed\.cluster", ptx)) > 1
        assert "tcgen05" in ptx
        assert "cta_group::1" not in ptx


def test_tensor_memory_of_a_pair_is_freed_after_the_last_cluster_barrier() -> None:
    ptx = compiled(PAIR).ptx
    assert ptx.count("tcgen05.alloc.cta_group::2") == ptx.count("tcgen05.dealloc") == 1
    assert ptx.count("barrier.cluster.arrive") == ptx.count("barrier.cluster.wait") == 2
    assert ptx.rindex("barrier.cluster.wait") < ptx.index("tcgen05.dealloc")


PAGES = Variant(used_k=True, page_size=64)


@pytest.mark.parametrize(
    "spec",
    [kind.for_attention(BF16, depth, variant=PAGES)
     for kind, depth in ((KernelSpec, 128), (Depth512Spec, 256))],
    ids=lambda s: s.name,
)
def test_pages_of_a_key_tile_are_looked_up_together(spec: KernelSpec | Depth512Spec) -> None:
    """Looked up box by box, the table would be read between the copies of K and those of V."""
    copies, most = 0, 0
    for line in instructions(compiled(spec).ptx):
        copies = 0 if line.startswith("ld.global") else copies + ("cp.async.bulk.tensor.4d" in line)
        most = max(most, copies)
    columns = spec.config.depth + spec.config.v_cols_per_cta()
    assert most >= columns // spec.config.swizzle_elems


@pytest.mark.parametrize("page", [16, 64])
def test_copies_of_a_tiles_pages_are_no_loop(page: int) -> None:
    """Each has uniform registers of its own, which in a loop the one before would still hold."""
    variant = Variant(used_k=True, page_size=page)
    spec = KernelSpec.for_attention(BF16, 128, variant=variant)
    text = "\n".join(instructions(compiled(spec).ptx))
    blocks = re.split(r"\$\w+:", text)
    copies = [block.count("cp.async.bulk.tensor.4d") for block in blocks]
    # Of small pages K and V have a warp each, whose copies are in turns of eight.
    in_a_row = min(2 * (spec.config.BN // page), copies_in_a_row(spec.config))
    assert max(copies) >= in_a_row
    assert {count % in_a_row for count in copies} == {0}
