"""What the side-by-side page compares: problems, columns, and which column has a problem."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

from benchmarks.hopper.times.problems import CAP, Problem
from benchmarks.timing.side_by_side.callers import CUDA12, CUDA13, TIRX, Column
from benchmarks.timing.side_by_side.variants import SPILL_FREE, SPILLING

TOKENS, HIDDEN = 32768, 2048
"""Tokens of a batch and columns of all query heads."""
LENGTHS: Final = (1024, 4096, 16384, 32768)
DIMS: Final = ((64, 64), (96, 96), (128, 128), (192, 128), (256, 256), (512, 512))
WINDOWS: Final = (((128, 128), 1024), ((128, 128), 4096), ((256, 256), 1024))
"""Head dims and windows, of sequences that are longer."""
CAPPED: Final = ((128, 128), (256, 256))
"""Head dims of Gemma 2."""
ONE_CTA, SPLIT, CLC = (f"FA4, CUDA 13, {what}" for what in ("one CTA", "keys split", "CLC"))
FREE, FREE_CLC = (f"{name}, spill-free" for name in ("FA4, CUDA 12", CLC))
COLUMNS: Final = (
    Column("fa4_cute, CUDA 12", "fa4_cute", CUDA12),
    Column("fa4_cute, CUDA 13", "fa4_cute", CUDA13),
    Column("FA4, CUDA 12", "FA4", CUDA12, one_cta=True),
    Column("FA4, CUDA 13", "FA4", CUDA13),
    Column(ONE_CTA, "FA4", CUDA13, one_cta=True),
    Column("Modular 26.7, CUDA 13", "Modular", CUDA13),
    Column("CUTLASS, CUDA 13", "CUTLASS", CUDA13),
    Column("Gluon, CUDA 13", "Gluon", CUDA13),
    Column(SPLIT, "FA4", CUDA13, options=(("num_splits", 0),)),
    Column(CLC, "FA4", CUDA13, clc=True),
    Column(f"{ONE_CTA}, CLC", "FA4", CUDA13, one_cta=True, clc=True),
    TIRX,
    Column(FREE, "FA4", CUDA12, one_cta=True, changes=SPILL_FREE),
    Column(FREE_CLC, "FA4", CUDA13, clc=True, changes=SPILL_FREE),
)


@dataclass(frozen=True)
class Family:
    """Problems that differ in their length only.

    Attributes:
        dims: head dims of q and v. causal: the mask.
        what: what they have besides, in words, or nothing.
        options: the same, as fields of a problem. lengths: of its members.
    """

    dims: tuple[int, int]
    causal: bool
    dtype: str = "bf16"
    what: str = ""
    options: tuple[tuple[str, Any], ...] = ()
    lengths: tuple[int, ...] = LENGTHS

    @property
    def name(self) -> str:
        """E.g. "bf16 d192/128 causal"."""
        dim, dim_v = self.dims
        dims = f"d{dim}" if dim == dim_v else f"d{dim}/{dim_v}"
        with_what = f" with {self.what}" if self.what else ""
        return f"{self.dtype} {dims} {'causal' if self.causal else 'all'}{with_what}"

    @property
    def window(self) -> int | None:
        """Keys before its own that a query sees, or None for all."""
        return dict(self.options).get("window")

    def problem(self, length: int, batch: int) -> Problem:
        """A member."""
        heads = max(1, HIDDEN // self.dims[0])
        group = "fp8" if self.dtype == "fp8" else "full"
        return Problem(
            group, batch, length, length, heads, heads, *self.dims, self.causal, self.dtype,
            **dict(self.options),
        )  # fmt: skip

    def in_window(self, window: int) -> Family:
        """The same with another window."""
        return replace(self, options=tuple({**dict(self.options), "window": window}.items()))


FAMILIES: Final = (
    *(Family(dims, causal) for dims, causal in product(DIMS, (False, True))),
    *(Family(dims, causal, "fp8") for dims, causal in product(DIMS[:5], (False, True))),
    Family((64, 64), True, what="sinks", options=(("sink", True),)),
    Family((64, 64), True, what="sinks and a window of 128",
           options=(("sink", True), ("window", 127))),
    Family((128, 128), True, what="sinks", options=(("sink", True),)),
    *(Family(dims, True, what=f"a window of {window}", options=(("window", window - 1),),
             lengths=tuple(length for length in LENGTHS if length > window))
      for dims, window in WINDOWS),
    *(Family(dims, True, what="a softcap", options=(("softcap", CAP),)) for dims in CAPPED),
    Family((128, 128), True, what="ALiBi", options=(("added", "alibi"),)),
    *(Family((128, 128), causal, what="a bias", options=(("added", "bias"),),
             lengths=LENGTHS[:2]) for causal in (False, True)),
)  # fmt: skip


@dataclass(frozen=True)
class Other:
    """A problem that is executed as it is.

    Attributes:
        lengths: of packed sequences, or keys of those of a cache, where they differ.
        only: the runners whose kernels it is of, where not of all.
    """

    name: str
    problem: Problem
    lengths: tuple[int, ...] = ()
    only: tuple[str, ...] = ()


NEAREST: Final = ("fa4_cute", "FA4")
"""Of others nothing was asked for short prompts, chunks over a cache and small pages."""
SMALL_PAGE: Final = 16
MIXED: Final = (4096, 2048, 1024, 512, 256, 256)
PACKED: Final = (("4,096 to 256", MIXED, ()), ("2,048 and 31 x 128", (2048, *[128] * 31), NEAREST))
"""Packed prompts by their names: their lengths, and runners whose kernels are asked."""
STEP: Final = Problem("paged", 1, 1, 1, 32, 8, 128, 128)
STEPS: Final = (
    ("32/8 heads", STEP, ((64, 4096), (16, 16384), (4, 32768)), (SMALL_PAGE, 64, 128)),
    ("16/4 heads of 192/128", replace(STEP, heads=16, heads_kv=4, head_dim=192),
     ((64, 4096), (16, 8192), (4, 16384)), (64,)),
    ("16/4 heads of 256", replace(STEP, heads=16, heads_kv=4, head_dim=256, head_dim_v=256),
     ((4, 16384),), (64,)),
    ("32/8 heads, fp8", replace(STEP, dtype="fp8"), ((4, 16384),), (64,)),
    ("64/8 heads of 64, fp8", replace(STEP, heads=64, head_dim=64, head_dim_v=64, dtype="fp8"),
     ((16, 8192),), (SMALL_PAGE, 64)),
)  # fmt: skip
"""Steps of decoding by their names: a sequence of one, sequences and their keys, and pages."""
DRAWN: Final = tuple(round(512 * 64 ** (((13 * i + 5) % 32 + 0.5) / 32)) for i in range(32))
"""512 to 32,768 keys: the middles of 32 equal parts of their logarithms, each 13 parts on."""
DIFFERING: Final = (
    ("32 sequences of 512 to 32,768 keys", DRAWN),
    ("one of 32,768 keys and 31 of 1,024", (32768, *[1024] * 31)),
)
"""Keys of the sequences of a step, by names."""
CHUNK: Final = Problem("paged", 1, 512, 16384, 8, 1, 128, 128, causal=True)
CHUNKS: Final = (
    ("512 on 16,384 keys, 8/1 heads", CHUNK, (SMALL_PAGE, 64)),
    ("512 on 16,384 keys, 8/1 heads of 64", replace(CHUNK, head_dim=64, head_dim_v=64), (64,)),
    ("512 on 16,384 keys, 8/1 heads of 256",
     replace(CHUNK, head_dim=256, head_dim_v=256), (64,)),
    ("512 on 16,384 keys, 8/1 heads, fp8", replace(CHUNK, dtype="fp8"), (64,)),
    ("4 x 64 on 8,192 keys, 32/8 heads",
     replace(CHUNK, batch=4, seqlen_q=64, seqlen_k=8192, heads=32, heads_kv=8), (64,)),
)  # fmt: skip
"""Chunks of prompts, and drafts, over a cache: few query tiles, of nearly as many keys each."""
PROMPTS: Final = tuple(
    (dim, batch, length) for dim in (128, 64) for batch, length in ((128, 64), (64, 128))
)
"""Head dims, sequences and their queries and keys: one key tile, and several query tiles an SM."""
OTHERS: Final = (
    *(
        Other(f"decode, {name}, {batch} x {length:,} keys, pages of {page}",
              replace(step, batch=batch, seqlen_k=length, page=page),
              only=NEAREST if page == SMALL_PAGE else ())
        for name, step, sizes, pages in STEPS for batch, length in sizes for page in pages
    ),
    *(
        Other(f"decode, 32/8 heads, {name}, pages of {page}",
              replace(STEP, batch=len(lengths), seqlen_k=max(lengths), page=page), lengths, NEAREST)
        for name, lengths in DIFFERING for page in (64, 128)
    ),
    *(
        Other(f"chunk, {name}, causal, pages of {page}", replace(chunk, page=page),
              only=NEAREST)
        for name, chunk, pages in CHUNKS for page in pages
    ),
    *(
        Other(f"packed {name}, {heads}/{heads_kv} heads, causal",
              Problem("packed", len(lengths), lengths[0], lengths[0], heads, heads_kv, 128, 128,
                      causal=True, packed=True), lengths, only)
        for name, lengths, only in PACKED for heads, heads_kv in ((8, 8), (8, 2))
    ),
    *(
        Other(f"short prompts, {HIDDEN // dim} heads of {dim}, {batch} x {length}, all keys",
              Problem("short", batch, length, length, HIDDEN // dim, HIDDEN // dim, dim, dim),
              only=NEAREST)
        for dim, batch, length in PROMPTS
    ),
    Other("latent decode (MLA), 16 heads, 64 x 4,096 keys",
          Problem("latent", 64, 1, 4096, 16, 1, 576, 512), only=("Modular",)),
)  # fmt: skip


def offered(column: Column, problem: Family | Other) -> bool:
    """Whether a column says anything of its own.

    FlashAttention-4 has pairs of CTAs for few; by itself it splits no keys, and gains by it where
    there are few queries. CTAs take over others with a mask, but not of pairs; packed in groups.
    """
    if isinstance(problem, Other) and problem.only and column.runner not in problem.only:
        return False
    if isinstance(problem, Family) and problem.what and column.runner not in NEAREST:
        return False
    if column.changes:
        return problem.name in SPILLING[column.clc]
    if column.clc:
        if isinstance(problem, Other):
            of = problem.problem
            return of.packed and of.heads != of.heads_kv and not column.one_cta
        paired = problem.dims == (256, 256)
        return problem.causal and problem.dims != (512, 512) and column.one_cta == paired
    if column.name == SPLIT:
        return isinstance(problem, Other) and problem.problem.page > 0
    if column.name != ONE_CTA:
        return True
    if isinstance(problem, Other) or problem.dims not in ((128, 128), (192, 128), (256, 256)):
        return False
    return not problem.causal or problem.dims == (256, 256)


def moved_bytes(other: Other) -> int:
    """Bytes that must come from memory and go to it: q, k, v and O once."""
    if not other.lengths:
        found = other.problem.bytes()
        if other.problem.group == "latent":  # its values are the first columns of its keys
            found -= other.problem.batch * other.problem.seqlen_k * other.problem.head_dim_v * 2
        return found
    one = replace(other.problem, batch=1)
    queries = (n if one.packed else one.seqlen_q for n in other.lengths)
    pairs = zip(queries, other.lengths, strict=True)
    return sum(replace(one, seqlen_q=q, seqlen_k=n).bytes() for q, n in pairs)
