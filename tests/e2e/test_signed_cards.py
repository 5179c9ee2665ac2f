"""Workers that share a file sign cards by the same key, and take up another one without a restart."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.utils.signing import create_signature_verifier

from tests.e2e.agents.agent import Agent, Shape
from tests.e2e.agents.grounds import Grounds
from tests.e2e.process import ROOT
from tests.e2e.shared_site import ACME
from tests.e2e.sharing import configuration, only, pids, workers

pytestmark = pytest.mark.anyio


@pytest.fixture
def agent(ground: Grounds) -> Agent:
    return ground.agent(Shape("shared"))


async def test_workers_sign_by_one_key_that_rotates(agent: Agent, tmp_path: Path) -> None:
    file = configuration(agent, tmp_path, defaults={"card": {"sign": True}})
    limits = httpx.Limits(max_keepalive_connections=0)
    async with (
        workers(file, tmp_path) as process,
        httpx.AsyncClient(trust_env=False, limits=limits, headers=ACME) as http,
    ):

        async def signed_by(pid: int) -> tuple[str, str]:
            """The key that signs a worker's card, which the key set has, and the card's tag."""
            with only(process, pid):
                answer = await http.get(f"{process.url}/shared/.well-known/agent-card.json")
                published = (await http.get(f"{process.url}/.well-known/jwks.json")).json()["keys"]
            keys = {key["kid"]: jwt.PyJWK(key) for key in published}
            found: list[Any] = []

            def provide(kid: str | None, jku: str | None) -> jwt.PyJWK:
                found.append(kid)
                assert jku == f"{process.url}/.well-known/jwks.json"
                return keys[str(kid)]

            create_signature_verifier(provide, ["ES256"])(parse_agent_card(answer.json()))
            return found[-1], answer.headers["etag"]

        one, two = pids(process)
        before = await signed_by(one)
        assert await signed_by(two) == before
        rotate = [sys.executable, "-m", "gateway", "state", "rotate-key", "--use", "cards", "--now", "--output", "json"]
        command = [*rotate, "-c", str(tmp_path / "gateway.yaml")]
        said = await asyncio.to_thread(subprocess.run, command, cwd=ROOT, check=True, capture_output=True)
        kid = json.loads(said.stdout)["kid"]
        for pid in (one, two):
            async with asyncio.timeout(30):
                while (after := await signed_by(pid))[0] != kid:  # noqa: ASYNC110 - it tells nobody
                    await asyncio.sleep(0.05)
            assert after[1] != before[1]
