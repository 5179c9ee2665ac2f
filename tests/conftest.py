"""Fixtures of every test, the settings of property tests, and shortcuts that save time in thousands of gateways."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from gateway.cards import trust
from gateway.push import service
from gateway.telemetry import log_output
from gateway.upstream.connection_pool import client_tls
from tests.loops import LEFT_OPEN, PLAIN, Policy
from tests.support.kept import keeping

# A busy machine is no defect: neither a slow example nor a slow draw fails a test. Each run draws other examples, but
# in CI; tests/long draws sixty times as many.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=5)
settings.register_profile("here", _PATIENT)
settings.register_profile("ci", _PATIENT, derandomize=True)
settings.register_profile("long", _PATIENT, max_examples=300)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "here"))

asyncio.set_event_loop_policy(Policy())

# Each of the processes that tests start would compile the whole gateway.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Keep the tests themselves from the collector: there are many, and some of them have it look at everything."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def quick_gateways() -> Iterator[None]:
    """Share the system's certificate authorities among gateways in this process, and write access log lines at once."""
    system = client_tls()
    with pytest.MonkeyPatch.context() as patch:
        for module in (trust, service):
            patch.setattr(module, "client_tls", lambda file: system if file is None else client_tls(file))
        patch.setattr(log_output, "GATHER", 0.001)
        yield


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Generator[None]:
    """Fail a test behind which a loop was closed with something open in it."""
    try:
        yield
    finally:
        left = ", ".join(LEFT_OPEN)
        LEFT_OPEN.clear()
    if left:
        pytest.fail(f"left open: {left}", pytrace=False)


def _open_files() -> int:
    return len(os.listdir("/dev/fd"))  # noqa: PTH208 - a path for each would cost more


@pytest.fixture(autouse=True)
def nothing_left_open() -> Iterator[None]:
    """Fail the test that left something open and unreferenced, not the one that runs when it is collected.

    Only where more files are open than before, for to collect takes long. What belongs to a loop is told by `loops`.
    """
    before = _open_files()
    yield
    if _open_files() > before:
        gc.collect()


@pytest.fixture(scope="session")
def anyio_backend() -> Any:
    return PLAIN


@pytest.fixture(scope="module")
async def kept(anyio_backend: Any) -> AsyncIterator[None]:
    """For the modules whose tests share their gateways (`support/kept.py`)."""
    async with keeping():
        yield
