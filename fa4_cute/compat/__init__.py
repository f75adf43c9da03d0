"""The names of others: flash-attn's functions, and attention in the layout of torch's SDPA.

A program written for flash-attn changes one line::

    from fa4_cute.compat import flash_attn_func, flash_attn_varlen_func, flash_attn_with_kvcache
"""

from __future__ import annotations

from .flash import (
    flash_attn_func,
    flash_attn_kvpacked_func,
    flash_attn_qkvpacked_func,
    flash_attn_varlen_func,
    flash_attn_varlen_kvpacked_func,
    flash_attn_varlen_qkvpacked_func,
)
from .kvcache import flash_attn_with_kvcache
from .sdpa_layout import sdpa

__all__ = [
    "flash_attn_func",
    "flash_attn_kvpacked_func",
    "flash_attn_qkvpacked_func",
    "flash_attn_varlen_func",
    "flash_attn_varlen_kvpacked_func",
    "flash_attn_varlen_qkvpacked_func",
    "flash_attn_with_kvcache",
    "sdpa",
]
