"""Random sets of features, shapes and head dims in every kernel."""

from __future__ import annotations

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from testing.arguments import FEATURES
from testing.cases import Case, fits_one_tile, is_possible
from testing.runner import check
from tests.kernel.random_cases import searched

MOST_FEATURES = 5

lengths = st.lists(st.tuples(st.integers(0, 300), st.integers(0, 400)), min_size=1, max_size=3).map(
    tuple
)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    features = draw(st.frozensets(st.sampled_from(sorted(FEATURES)), max_size=MOST_FEATURES))
    head_dim = draw(st.sampled_from([8, 64, 72, 96, 128, 192, 256, 384, 512]))
    num_qo = draw(st.sampled_from([None, 1, 2]))
    pair_cta = num_qo is None and 64 < head_dim <= 128 and draw(st.booleans())
    assume(is_possible(features, head_dim, num_qo, pair_cta))
    # Rows of fp8 are multiples of 16 bytes, as those of the other types.
    head_dim += 8 if features & {"fp8", "tokens"} and head_dim % 16 else 0
    heads, kv_heads = draw(st.sampled_from([(1, 1), (4, 2), (3, 1), (8, 1), (2, 2)]))
    case = Case(
        features,
        head_dim=head_dim,
        dtype=draw(st.sampled_from([torch.bfloat16, torch.float16])),
        heads=heads,
        kv_heads=kv_heads,
        lengths=draw(lengths),
        num_qo=num_qo,
        pair_cta=pair_cta,
    )
    assume("stream_k" not in features or fits_one_tile(case))
    assume(any(q for q, _ in case.sequences))
    assume(any(k for _, k in case.sequences))
    return case


@pytest.mark.slow
@searched(4)
@given(cases())
def test_any_features_together(case: Case) -> None:
    check(case)


@pytest.mark.exhaustive
@searched(16)
@given(cases())
def test_more_features_together(case: Case) -> None:
    check(case)
