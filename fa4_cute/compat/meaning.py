"""What flash-attn's arguments mean here: they become options of :func:`fa4_cute.flash_attn`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypedDict

from .. import masks, score_mods

OPEN: Final = (-1, -1)
"""flash-attn's window that is open on both sides."""


class Further(TypedDict, total=False):
    """Arguments that only some versions of flash-attn have; all are optional.

    Attributes:
        attention_chunk: keys of a chunk; a query sees keys of its own chunk only. 0 is off.
        s_aux: (num_q_heads,), attention sinks in the units of the scaled scores.
        q_descale, k_descale, v_descale: what fp8 elements are multiplied by: a number, or a tensor
            whose elements are all the same, such as (batch, num_kv_heads) expanded from one.
        out: where O is written; it is returned.
        return_softmax_lse: return (O, LSE).
        unchecked: as for :func:`fa4_cute.flash_attn`; an argument of this package.
        pack_gqa: a hint about speed; does nothing.
        qv, seqused_q, sm_margin, scheduler_metadata, cu_seqlens_k_new, kv_batch_idx,
            rotary_seqlens: refused unless they say nothing.
    """

    attention_chunk: int
    s_aux: Any
    q_descale: Any
    k_descale: Any
    v_descale: Any
    out: Any
    return_softmax_lse: bool
    unchecked: bool
    pack_gqa: bool | None
    qv: Any
    seqused_q: Any
    sm_margin: int
    scheduler_metadata: Any
    cu_seqlens_k_new: Any
    kv_batch_idx: Any
    rotary_seqlens: Any


NOT_SERVED: Final = {
    "qv": "a second product of the queries; nearest supported choice: q_rope= and k_rope= of "
    "fa4_cute.flash_attn",
    "seqused_q": "queries that do not count; nearest supported choice: cu_seqlens_q of packed "
    "queries",
    "sm_margin": "SMs that are left free; nearest supported choice: 0",
    "scheduler_metadata": "a schedule made by another kernel; nearest supported choice: None",
    "cu_seqlens_k_new": "new keys of several lengths; nearest supported choice: write them into "
    "the cache, and pass cache_seqlens with them",
    "kv_batch_idx": "another name of cache_batch_idx; nearest supported choice: that name",
    "rotary_seqlens": "rotary embeddings; nearest supported choice: rotate q and k before the call",
    "rotary_cos": "rotary embeddings; nearest supported choice: rotate q and k before the call",
    "rotary_sin": "rotary embeddings; nearest supported choice: rotate q and k before the call",
    "cache_leftpad": "sequences that start inside of their cache row; nearest supported choice: "
    "a paged cache, block_table",
}
"""Arguments that are refused unless they are None or 0, and what they ask for."""


@dataclass(frozen=True, eq=False)
class Asked:
    """Arguments that flash-attn's functions share, under its names and with its defaults.

    Attributes:
        softmax_scale: None means ``1 / sqrt(head_dim)``.
        causal: aligned to the bottom right.
        window_size: (left, right); -1 leaves a side open.
        softcap: 0 is off.
        alibi_slopes: float32, (num_q_heads,) or (batch, num_q_heads).
        further: see :class:`Further`.
    """

    softmax_scale: float | None
    causal: bool
    window_size: tuple[int | None, int | None]
    softcap: float
    alibi_slopes: Any
    further: Further

    def options(self, num_splits: int) -> dict[str, Any]:
        """Return the options of :func:`fa4_cute.flash_attn`, always with ``return_lse``.

        Args:
            num_splits: CTAs that share the keys of a query tile; 0 leaves it to the kernel.

        Raises:
            TypeError, ValueError, NotImplementedError: an argument is unknown, or not served.
        """
        further = self.further
        check_known(further)
        refuse_given(further)
        options: dict[str, Any] = {
            "causal": self.causal,
            "softmax_scale": self.softmax_scale,
            "window_size": self.window_size,
            "sink": further.get("s_aux"),
            "unchecked": further.get("unchecked", False),
            "num_splits": num_splits or None,
            "return_lse": True,
        }
        chunk = further.get("attention_chunk", 0)
        if chunk:
            options["mask"] = masks.chunked(chunk)
        for name in ("q", "k", "v"):
            value = further.get(f"{name}_descale")
            options[f"{name}_scale"] = one_number(f"{name}_descale", value)
        return {**options, **self._of_scores()}

    def _of_scores(self) -> dict[str, Any]:
        """Return softcap and ALiBi in flash-attn's order: slopes are added to capped scores."""
        if self.alibi_slopes is None:
            return {"softcap": self.softcap}
        alibi = score_mods.alibi(self.alibi_slopes)
        if self.softcap == 0:
            return {"score_mod": alibi}
        return {"score_mod": score_mods.chain(score_mods.softcap(self.softcap), alibi)}

    def returned(self, out: Any, lse: Any, *, attn_probs: bool) -> Any:
        """Return what the function returns: O, (O, LSE), or (O, LSE, None) as flash-attn 2.

        flash-attn hands out probabilities for tests of its dropout only, so there are none.
        """
        if attn_probs:
            return out, lse, None
        return (out, lse) if self.further.get("return_softmax_lse", False) else out


def check_known(further: Further) -> None:
    """Refuse names that no version of flash-attn has.

    Raises:
        TypeError: naming them, and those that exist.
    """
    known = Further.__annotations__
    unknown = [name for name in further if name not in known]
    if unknown:
        raise TypeError(
            f"{', '.join(unknown)}: no argument of flash-attn; nearest supported choice: one of "
            f"{', '.join(known)}"
        )


def refuse_given(given: Any) -> None:
    """Refuse arguments that ask for what is not served.

    Args:
        given: arguments by name.

    Raises:
        NotImplementedError: one of ``NOT_SERVED`` is neither None nor 0.
    """
    for name, wanted in NOT_SERVED.items():
        value = given.get(name)
        if value is not None and not (isinstance(value, int) and value == 0):
            raise NotImplementedError(f"{name}: asks for {wanted}")


def refuse_dropout(dropout_p: float) -> None:
    """Refuse dropout.

    Raises:
        NotImplementedError: ``dropout_p`` is not 0.
    """
    if dropout_p != 0:
        raise NotImplementedError(
            f"dropout_p={dropout_p}: there is no dropout; nearest supported choice: 0.0, as in "
            f"evaluation"
        )


def one_number(name: str, value: Any) -> Any:
    """Return a scale of a whole tensor: a number, a tensor of one element, or None.

    Args:
        name: how the message calls it.
        value: a number, None, or a tensor whose elements are all the same.

    Raises:
        NotImplementedError: its elements differ.
    """
    if value is None or not hasattr(value, "numel"):
        return value
    one = value.reshape(-1)[:1]
    steps = zip(value.shape, value.stride(), strict=True)
    is_expanded = all(count == 1 or step == 0 for count, step in steps)
    if not is_expanded and not bool((value == one).all()):
        raise NotImplementedError(
            f"{name}: shape {tuple(value.shape)} with several values; nearest supported choice: "
            f"one scale for the tensor, or a scale per token and head, q_scale= and k_scale= of "
            f"fa4_cute.flash_attn"
        )
    return one
