"""What is said of an argument that does not exist: the nearest one that does.

Many names are those of other libraries, whose users type them from memory.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Sequence
from typing import Any, Final

_PACKED: Final = "fa4_cute.flash_attn_varlen, for packed sequences"
_WINDOW: Final = "window_size=(left, right)"
_BIAS: Final = "mask=fa4_cute.masks.bias(...)"
HINTS: Final = {
    "alibi_slopes": "score_mod=fa4_cute.score_mods.alibi(slopes)",
    "attention_mask": "mask=fa4_cute.masks.bias(...) or fa4_cute.masks.padding(lengths)",
    "attn_bias": _BIAS,
    "attn_mask": _BIAS,
    "block_mask": "mask= with a mask of fa4_cute.masks",
    "block_table": "page_table",
    "block_tables": "page_table",
    "cache_seqlens": "seqused_k",
    "cu_seq_k": "cu_seqlens_k",
    "cu_seq_q": "cu_seqlens_q",
    "cu_seqlens_k": _PACKED,
    "cu_seqlens_q": _PACKED,
    "deterministic": "leave it out, every call is deterministic",
    "dropout": "leave it out, there is no dropout",
    "dropout_p": "leave it out, there is no dropout",
    "enable_gqa": "leave it out, k and v may have fewer heads than q",
    "is_causal": "causal",
    "k_descale": "k_scale",
    "kv_seqlens": "seqused_k",
    "learnable_sink": "sink",
    "logits_soft_cap": "softcap",
    "lse_out": "lse",
    "mask_mod": "mask= with a mask of fa4_cute.masks",
    "max_seqlen_k": _PACKED,
    "max_seqlen_q": _PACKED,
    "out_": "out",
    "pack_gqa": "leave it out, the heads of a group share a tile where they fit",
    "q_descale": "q_scale",
    "return_attn_probs": "return_lse",
    "return_softmax_lse": "return_lse",
    "s_aux": "sink",
    "scale": "softmax_scale",
    "seqlens_k": "seqused_k",
    "sinks": "sink",
    "sliding_window": _WINDOW,
    "sm_scale": "softmax_scale",
    "v_descale": "v_scale",
    "window_size_left": _WINDOW,
    "window_size_right": _WINDOW,
}
"""Name of another library's argument -> what takes its place here."""


def check_names(given: Collection[str], known: Collection[str]) -> None:
    """Refuse arguments that do not exist.

    Raises:
        TypeError: naming the first of them and the nearest one that exists.
    """
    for name in given:
        if name not in known:
            raise TypeError(f"unexpected argument {name!r}{_nearest(name, known)}")


def check_surplus(surplus: Sequence[Any]) -> None:
    """Refuse a fourth argument by position.

    Raises:
        TypeError: there is one.
    """
    if surplus:
        raise TypeError(
            f"takes q, k and v by position, got {len(surplus)} more ({surplus[0]!r}, ...); nearest "
            f"supported choice: give options by name, such as causal=True"
        )


def _nearest(name: str, known: Collection[str]) -> str:
    if name in HINTS:
        return f"; nearest supported choice: {HINTS[name]}"
    close = difflib.get_close_matches(name, sorted({*known, *HINTS}), n=1)
    if not close:
        return f"; there are {', '.join(sorted(known))}"
    return f"; nearest supported choice: {HINTS.get(close[0], close[0])}"
