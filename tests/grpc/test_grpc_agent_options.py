"""Agents of 0.3 behind gRPC whose cards say by `transportOptions` which service answers there, and for which scope."""

import json
from pathlib import Path
from typing import Any

import pytest

from gateway.a2a.bindings.grpc_message import result_class
from gateway.a2a.bindings.grpc_method import SCOPE_FIELD
from gateway.a2a.dialect import Version
from gateway.a2a.operation import Operation
from tests.support.gateway import card_of
from tests.support.grpc_agent import says
from tests.support.grpc_bytes import held
from tests.support.grpc_gateway import grpc_fronted, request

pytestmark = pytest.mark.anyio

TASK = bytes(
    result_class(Operation.GET_TASK, Version.V0_3)(id="t", context_id="c", status={"state": 3}).SerializeToString()
)


def card(folder: Path, **options: Any) -> Path:
    old = {"url": "agent.example:443", "preferredTransport": "GRPC", "protocolVersion": "0.3.0"}
    written = {**json.loads(card_of("")), **old, "transportOptions": {"GRPC": options}}
    del written["supportedInterfaces"]
    (folder / "card.json").write_text(json.dumps(written))
    return folder / "gateway.yaml"


@pytest.mark.parametrize("version", [Version.V0_3, Version.V1_0])
async def test_the_agent_is_called_by_the_scope_of_its_card(tmp_path: Path, version: Version) -> None:
    path = card(tmp_path, service="a2a.v1.ScopedA2AService", scope="orgs/42")
    async with grpc_fronted(says(TASK), "card: card.json", path=path) as site:
        members = {"name": "tasks/t"} if version is Version.V0_3 else {"id": "t"}
        message = request(Operation.GET_TASK, version, **members)
        if version is Version.V0_3:
            message += held(SCOPE_FIELD, b"echo")
        told = await site.client.ask(Operation.GET_TASK, message, version=version, scoped=version is Version.V0_3)
        assert told.code == "OK"
        asked = await site.asked()
        assert asked.path == "/a2a.v1.ScopedA2AService/GetTask"
        assert held(SCOPE_FIELD, b"orgs/42") in asked.message
        assert b"echo" not in asked.message


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"service": "a2a.v1.ScopedA2AService"}, "asks for a scope"),
        ({"service": "acme.v9.Hidden", "scope": "x"}, "asks for a gRPC service that is not known here"),
    ],
)
async def test_an_agent_that_cannot_be_called_so_is_not_called(
    tmp_path: Path, options: dict[str, str], reason: str
) -> None:
    async with grpc_fronted(says(TASK), "card: card.json", path=card(tmp_path, **options)) as site:
        told = await site.client.ask(Operation.GET_TASK, request(Operation.GET_TASK, id="t"))
        assert (told.code, site.agent.asked) == ("FAILED_PRECONDITION", [])
        assert reason in told.words
        assert "acme.v9" not in told.text
        assert (await site.gateway.line())["reason"] == "method_not_allowed"
        over_http = await site.gateway.post("/echo")
        assert over_http.json["error"]["code"] == -32004
        assert reason in over_http.json["error"]["message"]
        assert site.agent.asked == []
