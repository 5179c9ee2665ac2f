"""What the end-to-end tests stand on: agents on a thread, and the gateway as a process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.agents.grounds import Grounds, grounds
from tests.e2e.process import gateway_process
from tests.e2e.site import SHAPES, Site, configuration
from tests.identity.issuance import jwk, rsa_key


@pytest.fixture(scope="session")
def ground() -> Iterator[Grounds]:
    """A thread for agents."""
    with grounds() as found:
        yield found


@pytest.fixture(scope="session")
def site(ground: Grounds, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The gateway with every agent of the site."""
    folder: Path = tmp_path_factory.mktemp("site")
    agents = {marker: ground.agent(shape) for marker, shape in SHAPES.items()}
    provider = ground.provider()
    provider.publish(jwk(rsa_key()))
    with gateway_process(configuration(agents, provider), folder) as process:
        yield Site(process, agents)
