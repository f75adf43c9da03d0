"""``docs/mojo.md``: each member of the four Mojo structs is in the table; what it names exists."""

from __future__ import annotations

import ast
import importlib
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "mojo.md").read_text()

MEMBERS = {
    "SM100AttentionSMem": """base __init__ correction_byte_offset correction_bytes correction_offset
    k_scale_byte_offset k_scale_bytes k_scale_stride_bytes k_stage_bytes k_total_bytes
    kv_byte_offset kv_bytes kv_offset kv_stages_bytes mbar_byte_offset mbar_bytes mbar_offset
    MiscMBarsType num_k_scale_bufs num_rope_bufs q_byte_offset q_bytes q_nope_bytes q_offset
    q_rope_byte_offset q_rope_bytes q_scale_byte_offset q_scale_bytes rope_byte_offset rope_bytes
    rope_depth rope_dt_size rope_stage_elems tmem_addr_byte_offset v_byte_offset v_stage_bytes
    misc_mbars q_smem q_rope_smem o_smem k_smem_base v_smem_base rope_smem_base correction_smem
    q_scale_smem k_scale_smem tmem_addr_ptr smem_size""",
    "SM100MHA2Q": """__copyinit__is_trivial __del__is_trivial __moveinit__is_trivial accum_type BM
    BN cta_group depth group k_bytes k_elements KVPipelineType MMA_K MMA_M num_m_mmas num_mma_stages
    num_q_heads OPipelineType padded_depth PositionType qkv_dt_size qkv_type qo_bytes qo_elements
    ragged simd_size swizzle_granularity UMMA0Type UMMA1Type v_bytes_per_mma kernel softmax
    correction load descriptor_q mma""",
    "Depth512MBars": """mbar_base C_consumer_offset C_producer_offset KV_barriers KV_offset
    num_fixed num_high_count_barriers O_mma_hi_offset O_mma_lo_offset PO_hi_offset PO_lo_offset
    S_even_consumer_offset S_even_producer_offset S_odd_consumer_offset S_odd_producer_offset size
    SPipelineConsumer SPipelineProducer __init__ init producer_s_even producer_s_odd consumer_s_even
    consumer_s_odd producer_c consumer_c producer_o_lo producer_o_hi consumer_o_lo consumer_o_hi
    po_lo_mbar po_hi_mbar get_kv_mbars num_mbars""",
    "TMAConsumerPipeline": """pipeline smem_desc BK BMN full_kv_bytes is_k_major
    num_qk_stages_effective staged_k_bytes __init__ get wait release get_k wait_k release_k get_v
    wait_v release_v""",
}
ROWS = [
    (section.splitlines()[0].strip("`"), *row)
    for section in PAGE.split("\n## ")[1:]
    for row in re.findall(r"^\| `(\w+)` \| `([\w.]+)` \| (.+) \|$", section, re.MULTILINE)
]
NOT_USED = "Not used: "


@lru_cache
def names_in_use() -> frozenset[str]:
    """Every name that the package reads, of whatever class: two members of one name count alike.

    ``integrations`` has the names of other libraries.
    """
    package, found = ROOT / "fa4_cute", set[str]()
    for path in package.rglob("*.py"):
        if path.is_relative_to(package / "integrations"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.Name):
                found.add(node.id)
    return frozenset(found)


def resolve(name: str) -> None:
    """Find ``name`` from ``fa4_cute`` on; a field of a dataclass is a member as well."""
    parts = ["fa4_cute", *name.split(".")]
    place: Any = None
    for i, part in enumerate(parts):
        if place is not None and part in getattr(place, "__dataclass_fields__", {}):
            return
        if place is not None and hasattr(place, part):
            place = getattr(place, part)
        else:
            place = importlib.import_module(".".join(parts[: i + 1]))


@pytest.mark.parametrize("struct", MEMBERS)
def test_every_member_is_in_the_table_once(struct: str) -> None:
    listed = [member for name, member, _, _ in ROWS if name == struct]
    assert sorted(listed) == sorted(MEMBERS[struct].split())


def test_there_are_rows_and_each_was_read() -> None:
    assert len(ROWS) == len(re.findall(r"^\| `", PAGE, re.MULTILINE))


def test_what_the_table_names_exists() -> None:
    for here in sorted({here for _, _, here, _ in ROWS}):
        resolve(here)


def test_a_name_that_does_not_exist_is_found() -> None:
    with pytest.raises(ModuleNotFoundError):
        resolve("pipelines.Depth512MBars.producer_s_even")


def test_a_member_is_used_or_the_table_says_why_not() -> None:
    used = {here for _, _, here, _ in ROWS if here.rpartition(".")[2] in names_in_use()}
    wrong = [row for row in ROWS if (row[2] in used) == row[3].startswith(NOT_USED)]
    assert used
    assert not wrong
