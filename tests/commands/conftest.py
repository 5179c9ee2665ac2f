"""Fixtures that several tests of the command line share."""

from collections.abc import Iterator

import pytest

from gateway.demo.fleet import serving
from gateway.demo.stage import free_port


@pytest.fixture(scope="module")
def fleet() -> Iterator[tuple[str, int]]:
    port = free_port(0)
    with serving(pace=0.01, grpc=port) as url:
        yield url, port
