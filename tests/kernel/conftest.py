"""Tests of kernels change what a call is made of, between two calls that look alike."""

from __future__ import annotations

from collections.abc import Iterator
from unittest import mock

import pytest

from fa4_cute.host.run import calls


@pytest.fixture(autouse=True)
def every_call_is_derived() -> Iterator[None]:
    """Keep no call: a repeated one would not see the change."""
    with mock.patch.object(calls, "kept", calls.Kept(0)):
        yield
