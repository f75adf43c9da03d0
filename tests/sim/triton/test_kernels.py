"""Triton and Gluon kernels give right results on the simulator."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import pytest
import torch

pytest.importorskip("triton")
from sm100sim import profile, run_options
from sm100sim import triton as virtual
from sm100sim.report import SimulationFault
from sm100sim.timing.sass.walk import Unmatched
from sm100sim.torch import on_host

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::UserWarning:triton.*")]


@pytest.fixture(autouse=True)
def device(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "triton"))
    virtual.activate()
    yield
    virtual.deactivate()


def random(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def test_a_kernel_may_have_another_name_than_its_function() -> None:
    """Gluon's attention does; its PTX lies in Triton's cache under the function's name."""
    from tests.sim.triton.kernels import negate

    x, out = random(128), torch.zeros(128)
    negate[(1,)](x, out, BLOCK=128)
    assert torch.equal(out, -x)
    report = virtual.last_report()
    assert report is not None
    assert report.kernel == "under_another_name"


def test_vector_addition_is_clean_under_all_checks() -> None:
    from tests.sim.triton.kernels import add

    x, y, out = random(1000), random(1000, seed=1), torch.zeros(1000)
    with run_options(checks="all"):
        add[(8,)](x, y, out, 1000, 2.5, BLOCK=128)
    assert torch.allclose(out, x + 2.5 * y)
    report = virtual.last_report()
    assert report is not None
    assert (report.verdict, report.grid, report.block) == ("clean", (8, 1, 1), (128, 1, 1))


def test_a_tensor_of_addresses_names_memory_of_the_device() -> None:
    """As in Triton's tutorial on grouped products; what it does not name stays unknown."""
    from tests.sim.triton.kernels import doubled_each

    with on_host():
        given = [random(128, seed=g).to("cuda") for g in range(3)]
        out = torch.zeros(2, 128, device="cuda")
        names_two = torch.tensor([t.data_ptr() for t in given[:2]], device="cuda")
        doubled_each[(2,)](names_two, out, BLOCK=128)
        assert torch.equal(out, 2 * torch.stack(given[:2]))
        names_one = torch.tensor([given[2].data_ptr(), 8], device="cuda")
        with pytest.raises(SimulationFault, match="outside of every known"):
            doubled_each[(2,)](names_one, out, BLOCK=128)


def test_products_of_cublas_are_made_on_the_host() -> None:
    """Triton's tutorials make the library's handle when they are imported."""
    from triton._C.libtriton import nvidia

    library = nvidia.cublas.CublasLt(torch.empty(32))
    a, b, c = random(16, 8).half(), random(24, 8, seed=1).half(), random(16, 24, seed=2).half()
    out = torch.zeros(16, 24, dtype=torch.float16)
    library.matmul(a, b, out)
    assert torch.equal(out, (a.float() @ b.float().T).half())
    library.gemm(a, b, c, out, 2.0, 0.5)
    assert torch.equal(out, (2 * (a.float() @ b.float().T) + 0.5 * c.float()).half())
    with pytest.raises(NotImplementedError, match="block-scaled"):
        library.block_scaled_matmul_nvfp4(a, b, out, c, c)
    virtual.deactivate()
    assert nvidia.cublas.CublasLt is not type(library)


def test_the_autotuner_reads_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cycles of a CTA as often as the chip is filled; what cannot be replayed ranks last."""
    from sm100sim.triton import clock
    from tests.sim.triton.kernels import add

    x, y, out = random(200 * 128), random(200 * 128, seed=1), torch.zeros(200 * 128)

    def call(block: int = 128) -> None:
        add[(-(-len(x) // block),)](x, y, out, len(x), 2.5, BLOCK=block)

    bench, seen = clock.Clock().bench, []
    for block in (128, 4096):
        (found,) = profile(partial(call, block), draws=1)
        seen.append(bench(partial(call, block), quantiles=(0.5, 0.8)))
        assert seen[-1] == pytest.approx([found.cycles * found.waves / found.clock_mhz / 1e3] * 2)
    assert str(seen[0]) != str(seen[1])
    assert torch.allclose(out, x + 2.5 * y, atol=1e-6)
    monkeypatch.setattr(clock, "profile_recording", lost)
    with pytest.warns(UserWarning, match="add: no time can be predicted.*: no way"):
        assert bench(call) == float("inf")


def lost(*_: object, **__: object) -> None:
    raise Unmatched("no way")


def test_a_store_without_a_mask_names_the_tensor() -> None:
    from tests.sim.triton.kernels import overrun

    x, out = random(100), torch.zeros(100)
    with pytest.raises(SimulationFault, match=r"global-address(.|\n)*`out`"):
        overrun[(1,)](x, out, 100, BLOCK=128)


def test_softmax() -> None:
    from tests.sim.triton.kernels import softmax

    x = random(3, 200)
    out = torch.empty_like(x)
    softmax[(3,)](x, out, 200, BLOCK=256)
    assert torch.allclose(out, x.softmax(1), atol=1e-6)


@pytest.mark.parametrize(("kind", "rows"), [(torch.float16, 128), (torch.bfloat16, 16)])
def test_dot(kind: torch.dtype, rows: int) -> None:
    """128 rows are a tcgen05.mma, 16 rows are mma.sync."""
    from tests.sim.triton.kernels import product

    a, b, out = random(rows, 64).to(kind), random(64, 64, seed=1).to(kind), torch.zeros(rows, 64)
    product[(1,)](a, b, out, M=rows, N=64, K=64)
    assert (out - a.double() @ b.double()).abs().max() < 1e-4
    report = virtual.last_report()
    assert report is not None
    assert ("MMA_SYNC" in report.opcode_counts) == (rows == 16)
    assert report.mma_instructions


@pytest.mark.parametrize("special", [False, True])
def test_host_descriptors_and_specialised_warps(special: bool) -> None:
    from triton.tools.tensor_descriptor import TensorDescriptor

    from tests.sim.triton.kernels import tiled_product

    a, b = random(256, 256).half(), random(128, 256, seed=1).half()
    out = torch.zeros(256, 128, dtype=torch.float16)
    blocks = ((a, [128, 64]), (b, [128, 64]), (out, [128, 128]))
    maps = [TensorDescriptor.from_tensor(tensor, block) for tensor, block in blocks]
    with run_options(mode="late"):
        tiled_product[(2, 1)](
            *maps, 256, M=128, N=128, STEP=64, SPECIAL=special, num_warps=4, num_stages=3
        )
    expected = a.double() @ b.double().T
    assert ((out - expected).abs() <= expected.abs() * 2**-10 + 1e-3).all()
    report = virtual.last_report()
    assert report is not None
    assert ("BRX" in report.opcode_counts) == special


def test_gather_and_scatter_of_rows() -> None:
    from triton.tools.tensor_descriptor import TensorDescriptor

    from tests.sim.triton.kernels import permuted

    x, out = random(64, 64).half(), torch.zeros(32, 64, dtype=torch.float16)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(3))[:32].int()
    before = x.clone()
    source = TensorDescriptor.from_tensor(x, [1, 64])
    target = TensorDescriptor.from_tensor(out, [32, 64])
    permuted[(1,)](source, target, order, WIDTH=64)
    assert (out == before[order]).all()
    before[order] += 1
    assert (x == before).all()


def test_printing_and_assertions() -> None:
    from tests.sim.triton.kernels import talkative

    x = torch.arange(32.0)
    heard: list[str] = []
    with run_options(print_to=heard.append):
        talkative[(1,)](x, 100, num_warps=1, debug=True)
        with pytest.raises(SimulationFault, match=r"assertion(.|\n)*too large"):
            talkative[(1,)](x, 31, num_warps=1, debug=True)
    lines = heard[0].splitlines()
    assert len(lines) == 32
    assert lines[7] == "pid (0, 0, 0) idx ( 7) value: 7.000000"


def test_functions_that_are_not_inlined() -> None:
    from tests.sim.triton.kernels import outlined

    x, out = random(128), torch.zeros(128)
    outlined[(1,)](x, out, 3.0)
    assert torch.allclose(out, 3 * x + 1)
    report = virtual.last_report()
    assert report is not None
    assert report.opcode_counts["CALL"] == 4


def test_gluon() -> None:
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

    from tests.sim.triton.kernels import doubled, gluon_product

    x, out = random(300), torch.zeros(300)
    doubled[(3,)](x, out, 300, BLOCK=128)
    assert (out == 2 * x).all()
    a, b, d = random(128, 64).half(), random(64, 128, seed=1).half(), torch.zeros(128, 128)
    maps = []
    for tensor in (a, b, d):
        kind = gl.float32 if tensor.dtype is torch.float32 else gl.float16
        layout = gl.NVMMASharedLayout.get_default_for(list(tensor.shape), kind)
        maps.append(TensorDescriptor.from_tensor(tensor, list(tensor.shape), layout))
    gluon_product[(1,)](*maps)
    assert (d - a.double() @ b.double()).abs().max() < 1e-4


@pytest.mark.parametrize("tap", [0, 1, 2])
def test_im2col_copies_see_the_padding(tap: int) -> None:
    from triton.experimental.gluon import language as gl
    from triton.experimental.gluon.nvidia.hopper import TensorDescriptor, TensorDescriptorIm2Col

    from tests.sim.triton.kernels import pixels

    images, out = random(1, 4, 5, 32), torch.zeros(20, 32)
    layout = gl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=32, rank=2)
    strides = {"shape": list(images.shape), "strides": list(images.stride())}
    corners = {"pixel_box_lower_corner": [-1, -1], "pixel_box_upper_corner": [-1, -1]}
    given = TensorDescriptorIm2Col(
        images, **strides, block_shape=[16, 32], layout=layout, padding="zero",
        element_strides=[1, 1, 1, 1], **corners,
    )  # fmt: skip
    taken = TensorDescriptor.from_tensor(out, [16, 32], layout)
    with run_options(checks="races"):
        pixels[(1,)](given, taken, 0, tap, num_warps=4)
    padded = torch.nn.functional.pad(images, (0, 0, 1, 1, 1, 1))[0]
    assert torch.equal(out[:16], padded[tap : tap + 4, tap : tap + 5].reshape(20, 32)[:16])
    report = virtual.last_report()
    assert report is not None
    assert report.verdict == "clean", report.summary()
