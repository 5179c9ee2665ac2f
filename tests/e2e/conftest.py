"""Fixtures of the end-to-end tests: agents on a thread."""

from collections.abc import Iterator

import pytest

from tests.e2e.agents.grounds import Grounds, grounds


@pytest.fixture(scope="session")
def ground() -> Iterator[Grounds]:
    """A thread for agents."""
    with grounds() as found:
        yield found
