"""The extended card of an agent behind gRPC is for who may call it; a stranger sees how to call it and no more."""

import hashlib
from typing import Any

import pytest
from a2a.types import a2a_pb2

from tests.support.gateway import running
from tests.support.grpc_agent import by_path, grpc_agent, grpc_over, says

pytestmark = [pytest.mark.anyio]
__all__ = ("grpc_over",)

SECRET = "a skill for callers alone"
CARD = a2a_pb2.AgentCard(
    name="Inner name",
    description="Inner words",
    version="1",
    skills=[a2a_pb2.AgentSkill(id="s", name=SECRET, description="d", tags=["t"])],
).SerializeToString()


@pytest.mark.usefixtures("grpc_over")
async def test_a_stranger_sees_nothing_of_an_extended_card() -> None:
    text = """
        gateway: {{ listen: "127.0.0.1:0", admin: "127.0.0.1:0" }}
        auth: {{ api_keys: {{ caller: {{ sha256: {digest}, tenant: acme }} }} }}
        tenants: {{ acme: [inner] }}
        agents: {{ inner: {{ backend: "{url}" }} }}
    """
    async with grpc_agent(by_path({"/lf.a2a.v1.A2AService/GetExtendedAgentCard": says(CARD)})) as agent:
        digest = hashlib.sha256(b"the-key").hexdigest()
        async with running(text.format(digest=digest, url=agent.url), settled=True) as gateway:
            path = "/inner/.well-known/agent-card.json"
            stranger: Any = await gateway.get(path)
            caller: Any = await gateway.get(path, [(b"x-api-key", b"the-key")])
            assert stranger.status == caller.status == 200
            assert SECRET not in stranger.body.decode()
            assert "Inner" not in stranger.body.decode()
            assert SECRET in caller.body.decode()
            for answer in (stranger, caller):
                assert dict(answer.headers)["cache-control"].startswith("private")
