"""What every test may ask for, how property tests are run, and what would cost each of thousands of gateways time."""

import gc
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from gateway.catalog import trust
from gateway.telemetry import sink
from gateway.upstream.connections import client_tls
from tests.loops import PLAIN

# A busy machine is no defect: neither a slow example nor a slow draw fails a test.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("here", _PATIENT)
settings.register_profile("ci", _PATIENT, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")

# Each of the processes that tests start would compile the whole gateway.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Keep the tests themselves from the collector: there are many, and some of them have it look at everything."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def quick_gateways() -> Iterator[None]:
    """Those in this process share the authorities of the system, and write a line of the access log when it comes."""
    system = client_tls()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trust, "client_tls", lambda file: system if file is None else client_tls(file))
        patch.setattr(sink, "_GATHER", 0.001)
        yield


@pytest.fixture
def anyio_backend() -> Any:
    return PLAIN
