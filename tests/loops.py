"""The loops that the gateway runs on: uvloop in production, asyncio's own where there is none."""

from typing import Any

import pytest


@pytest.fixture(
    params=[
        pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
        pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
    ]
)
def both_loops(request: pytest.FixtureRequest) -> Any:
    """Either loop in turn, for `anyio_backend`: they differ in when timers ring and in how a close is told."""
    return request.param
