"""What the kernels that judge the machine compute: shapes, and what has to come out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import torch

Shapes = dict[str, tuple[int, ...]]
Tensors = Mapping[str, torch.Tensor]
TOKENS: Final = 16384
HIDDEN: Final = 2048
"""Rows of all sequences of a batch, and columns of all its heads."""
EPSILON: Final = 1e-5


def _attended(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool) -> torch.Tensor:
    """Attention of rows by head, (batch, heads, length, dim); the last query is at the last key."""
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if causal:
        queries, keys = scores.shape[-2:]
        later = torch.ones(queries, keys, device=q.device, dtype=torch.bool)
        scores.masked_fill_(later.triu(keys - queries + 1), -torch.inf)
    return scores.softmax(-1) @ v


@dataclass(frozen=True)
class Product:
    """out = a b' in float16 with sums in float32: a is (m, k), b (n, k), out (m, n)."""

    m: int
    n: int
    k: int

    @property
    def name(self) -> str:
        """Sizes."""
        return f"{self.m}x{self.n}x{self.k}"

    def shapes(self) -> Shapes:
        """Shape by tensor."""
        return {"a": (self.m, self.k), "b": (self.n, self.k), "out": (self.m, self.n)}

    def expected(self, t: Tensors) -> torch.Tensor:
        """What `out` has to be."""
        return t["a"].float() @ t["b"].float().T


@dataclass(frozen=True)
class Attention:
    """Attention of all keys, or of those up to the query's own place where `causal`.

    Attributes:
        by_head: the rows of a head lie together: (batch, heads, length, dim); else (batch, length,
            heads, dim).
    """

    length: int
    dim: int
    causal: bool = False
    by_head: bool = False

    @property
    def name(self) -> str:
        """Sizes and mask."""
        return f"d{self.dim}-{self.length}" + "-causal" * self.causal

    @property
    def batch(self) -> int:
        """Sequences."""
        return TOKENS // self.length

    @property
    def heads(self) -> int:
        """Heads of queries, keys and values."""
        return HIDDEN // self.dim

    def shapes(self) -> Shapes:
        """Shape by tensor."""
        middle = (self.heads, self.length) if self.by_head else (self.length, self.heads)
        return dict.fromkeys(("q", "k", "v", "out"), (self.batch, *middle, self.dim))

    def expected(self, t: Tensors) -> torch.Tensor:
        """What `out` has to be."""
        q, k, v = (t[n].float() if self.by_head else t[n].float().transpose(1, 2) for n in "qkv")
        found = _attended(q, k, v, self.causal)
        return found if self.by_head else found.transpose(1, 2)


@dataclass(frozen=True)
class Paged(Attention):
    """Causal attention of the last `queries` of each sequence over a cache of pages.

    Attributes:
        page: tokens of a page. queries: of a sequence. shared: query heads of a key/value head.
    """

    page: int = 16
    queries: int = 1024
    shared: int = 4

    @property
    def name(self) -> str:
        """Sizes and pages."""
        return f"d{self.dim}, {self.queries} queries on {self.length} keys, pages of {self.page}"

    def shapes(self) -> Shapes:
        """Shape by tensor."""
        pages = self.length // self.page
        rows = (self.batch, self.queries, self.heads, self.dim)
        pool = (self.batch * pages, self.page, self.heads // self.shared, self.dim)
        return {"q": rows, "k": pool, "v": pool, "out": rows, "table": (self.batch, pages),
                "lengths": (self.batch,)}  # fmt: skip

    def expected(self, t: Tensors) -> torch.Tensor:
        """What `out` has to be."""
        k, v = (
            t[name][t["table"].long()].flatten(1, 2).repeat_interleave(self.shared, 2).float()
            for name in "kv"
        )
        q, k, v = (x.transpose(1, 2) for x in (t["q"].float(), k, v))
        return _attended(q, k, v, causal=True).transpose(1, 2)


@dataclass(frozen=True)
class Taps:
    """Each row of x, `taps` neighbours added with weights: out is that much narrower."""

    rows: int
    columns: int
    taps: int

    @property
    def name(self) -> str:
        """Sizes."""
        return f"{self.rows}x{self.columns}, {self.taps} taps"

    def shapes(self) -> Shapes:
        """Shape by tensor."""
        wide = self.columns + self.taps
        return {"x": (self.rows, wide), "weight": (self.taps,), "out": (self.rows, self.columns)}

    def expected(self, t: Tensors) -> torch.Tensor:
        """What `out` has to be."""
        x, weight = t["x"].float(), t["weight"].float()
        found = torch.zeros(t["out"].shape, device=x.device)
        for tap in range(self.taps):
            found += weight[tap] * x[:, tap : tap + self.columns]
        return found


@dataclass(frozen=True)
class Bags:
    """Sums of `size` rows of x each, which `table` names; a CTA makes `each` of them."""

    rows: int
    columns: int
    bags: int
    size: int
    each: int

    @property
    def name(self) -> str:
        """Sizes."""
        return f"{self.bags} bags of {self.size} of {self.rows} rows of {self.columns}"

    def shapes(self) -> Shapes:
        """Shape by tensor."""
        return {"x": (self.rows, self.columns), "table": (self.bags, self.size),
                "out": (self.bags, self.columns)}  # fmt: skip

    def expected(self, t: Tensors) -> torch.Tensor:
        """What `out` has to be."""
        return t["x"][t["table"].long()].float().sum(1)


@dataclass(frozen=True)
class Flagged:
    """Sums of rows of x, of which a CTA makes `each`; one that is there is counted in `table`."""

    rows: int
    columns: int
    each: int

    @property
    def name(self) -> str:
        """Sizes."""
        return f"{self.rows}x{self.columns}, {self.each} a CTA"

    def shapes(self) -> Shapes:
        """Shape by tensor."""
        return {"x": (self.rows, self.columns), "table": (self.rows,), "out": (self.rows,)}

    def expected(self, t: Tensors) -> torch.Tensor:
        """What `out` has to be."""
        return t["x"].float().sum(1)


@dataclass(frozen=True)
class Hops(Flagged):
    """Sums of `each` rows of x by CTA; in `table` a row names the next one, which lies anywhere."""

    def shapes(self) -> Shapes:
        """Shape by tensor."""
        return {**super().shapes(), "out": (self.rows // self.each,)}

    def ways(self, drawn: torch.Generator) -> torch.Tensor:
        """Rows by CTA, one after the other; the first one's number is the CTA's."""
        ctas = self.rows // self.each
        others = torch.randperm(self.rows - ctas, generator=drawn) + ctas
        return torch.cat([torch.arange(ctas)[:, None], others.view(ctas, -1)], 1)

    def expected(self, t: Tensors) -> torch.Tensor:
        """What `out` has to be."""
        sums, table = t["x"].float().sum(1), t["table"].long()
        rows = torch.arange(self.rows // self.each, device=table.device)
        found = torch.zeros_like(sums[rows])
        for _ in range(self.each):
            found += sums[rows]
            rows = table[rows]
        return found


@dataclass(frozen=True)
class Softmax:
    """Each row of x, exponentiated and divided by its sum."""

    rows: int
    columns: int

    @property
    def name(self) -> str:
        """Sizes."""
        return f"{self.rows}x{self.columns}"

    def shapes(self) -> Shapes:
        """Shape by tensor."""
        return dict.fromkeys(("x", "out"), (self.rows, self.columns))

    def expected(self, t: Tensors) -> torch.Tensor:
        """What `out` has to be."""
        return t["x"].float().softmax(-1)


@dataclass(frozen=True)
class LayerNorm(Softmax):
    """Each row of x less its mean, over its deviation, times `weight` and with `bias` added."""

    def shapes(self) -> Shapes:
        """Shape by tensor."""
        return {**super().shapes(), "weight": (self.columns,), "bias": (self.columns,)}

    def expected(self, t: Tensors) -> torch.Tensor:
        """What `out` has to be."""
        x, weight, bias = (t[name].float() for name in ("x", "weight", "bias"))
        normed = torch.nn.functional.layer_norm
        found: torch.Tensor = normed(x, x.shape[-1:], weight, bias, EPSILON)
        return found


@dataclass(frozen=True)
class Transposed(Softmax):
    """The columns of x as rows."""

    def shapes(self) -> Shapes:
        """Shape by tensor."""
        return {"x": (self.rows, self.columns), "out": (self.columns, self.rows)}

    def expected(self, t: Tensors) -> torch.Tensor:
        """What `out` has to be."""
        return t["x"].float().T


@dataclass(frozen=True)
class Weighed(Softmax):
    """Each row of x times `weight`, summed."""

    def shapes(self) -> Shapes:
        """Shape by tensor."""
        return {"x": (self.rows, self.columns), "weight": (self.columns,), "out": (self.rows,)}

    def expected(self, t: Tensors) -> torch.Tensor:
        """What `out` has to be."""
        return t["x"].float() @ t["weight"].float()


Problem = Product | Attention | Softmax | Taps | Bags | Flagged
