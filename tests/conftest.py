"""What every test may ask for, and how property tests are run."""

import os

import pytest
from hypothesis import HealthCheck, settings

# A busy machine is no defect: neither a slow example nor a slow draw fails a test.
_PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("here", _PATIENT)
settings.register_profile("ci", _PATIENT, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
