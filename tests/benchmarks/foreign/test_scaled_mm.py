from __future__ import annotations

import torch

from benchmarks.foreign.scaled_mm import block_scales, dequantised, scaled_mm


def tiled(scales: torch.Tensor) -> torch.Tensor:
    """The tile order, built by reshaping instead of index arithmetic."""
    rows, blocks = scales.shape
    padded = torch.zeros(-(-rows // 128) * 128, -(-blocks // 4) * 4)
    padded[:rows, :blocks] = scales
    tiles = padded.view(-1, 4, 32, padded.shape[1] // 4, 4).permute(0, 3, 2, 1, 4)
    return tiles.flatten()


def test_scales_are_found_in_their_tiles() -> None:
    scales = torch.arange(200.0 * 6).view(200, 6)
    assert torch.equal(block_scales(tiled(scales), 200, 6), scales.double())


def test_packed_fp4_is_read_low_nibble_first() -> None:
    packed = torch.tensor([[0x21, 0xF7]], dtype=torch.uint8).view(torch.float4_e2m1fn_x2)
    assert dequantised(packed).tolist() == [[0.5, 1.0, 6.0, -6.0]]


def test_the_product_applies_both_scales() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(n, 64, generator=generator).to(torch.float8_e4m3fn) for n in (8, 5))
    sa, sb = (torch.randint(1, 5, (n, 2), generator=generator).float() for n in (8, 5))
    left, right = (x.double() * s.repeat_interleave(32, 1) for x, s in ((a, sa), (b, sb)))
    expected = left @ right.T
    got = scaled_mm(a, b.T, tiled(sa), tiled(sb), out_dtype=torch.float64)
    assert torch.allclose(got, expected, atol=1e-9)
