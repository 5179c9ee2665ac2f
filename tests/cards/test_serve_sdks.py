"""Cards with gRPC on them, as the official SDKs read them and choose how to call.

Those of the generation before and of JavaScript run in interpreters of their own: `tests/e2e/previous.py` and
`tests/javascript` say which.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import grpc  # type: ignore[import-untyped]  # grpcio ships no stubs
import httpx
import pytest
from a2a.client.card_resolver import parse_agent_card
from a2a.client.client import ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.client.transports.grpc import GrpcTransport
from a2a.client.transports.tenant_decorator import TenantTransportDecorator

from gateway.a2a.dialect import Binding
from gateway.cards.serve import GrpcPlace
from gateway.routing.route import AgentRules, Route, Rule
from gateway.routing.table import Table
from tests.cards.serving import HOSTED, OWN, cards
from tests.e2e.previous import interpreter
from tests.table import for_each

pytestmark = pytest.mark.anyio

RULES = {"with a tenant": OWN, "without one": HOSTED}
JAVASCRIPT = Path(__file__).parents[1] / "javascript"
WAIT = 60.0
"""Seconds for one run of another interpreter, on a machine that is busy with other tests."""


async def shown(rule: Rule, *, old: bool = False, modern: bool = False) -> dict[str, Any]:
    """The card of an agent that is reached over gRPC, too."""
    route = Route(rule.agent, rule.agent, "http://x")
    table = Table.build([AgentRules(rule.agent, (rule,), {None: route}, rule.place)], {}, grpc=True)
    place = GrpcPlace("gw.test:50051", table.grpc_address, table.written)
    async with cards(exposed=tuple(Binding), grpc=place, schemes=("bearer", "api_key")) as made:
        return made.shown(rule, old=old, modern=modern)


def run(command: list[str], card: dict[str, Any], *, cwd: Path | None = None) -> Any:
    """Return the output of a script that reads the card."""
    said = json.dumps(card).encode()
    # Its stderr is the test's own.
    return json.loads(
        subprocess.run(command, input=said, stdout=subprocess.PIPE, timeout=WAIT, cwd=cwd, check=True).stdout
    )


@for_each("modern", [False, True])
@for_each("named", RULES)
async def test_the_sdk_of_1_0_takes_http_where_it_may_and_over_grpc_says_the_tenant(
    named: str, *, modern: bool
) -> None:
    card = parse_agent_card(await shown(RULES[named], modern=modern))
    async with httpx.AsyncClient() as http:
        for known, prefers, over in (
            (["GRPC", "JSONRPC"], False, "JsonRpcTransport"),
            (["GRPC", "JSONRPC"], True, "GrpcTransport"),
            (["GRPC"], False, "GrpcTransport"),
        ):
            dialled: list[str] = []

            def dial(url: str, dialled: list[str] = dialled) -> grpc.aio.Channel:
                dialled.append(url)
                return grpc.aio.insecure_channel(url)

            config = ClientConfig(
                httpx_client=http,
                supported_protocol_bindings=known,
                use_client_preference=prefers,
                grpc_channel_factory=dial,
            )
            made: Any = ClientFactory(config).create(card)
            transport, tenant = made._transport, None
            if type(transport) is TenantTransportDecorator:
                transport, tenant = made._transport._base, made._transport._tenant
            assert type(transport).__name__ == over
            if isinstance(transport, GrpcTransport):
                found = (dialled, tenant)
                assert found == (["gw.test:50051"], RULES[named].agent)
                await transport.close()


PREVIOUS = """
import json, sys
from a2a.types import AgentCard
card = AgentCard.model_validate(json.load(sys.stdin))
found = {card.preferred_transport: card.url, **{each.transport: each.url for each in card.additional_interfaces}}
json.dump({"found": found, "schemes": sorted(card.security_schemes)}, sys.stdout)
"""


@for_each("old", [False, True])
@for_each("named", RULES)
async def test_the_sdk_of_0_3_reads_the_card_and_finds_no_grpc_where_it_does_not_get_through(
    named: str, *, old: bool
) -> None:
    read = run([interpreter(), "-c", PREVIOUS], await shown(RULES[named], old=old))
    url = "https://gw.test/agents/echo" if RULES[named] is OWN else "https://agents.test/agents/"
    assert read == {"found": {"JSONRPC": url, "HTTP+JSON": url.rstrip("/")}, "schemes": ["api_key", "bearer"]}


SCRIPT = """
import { readFileSync } from "node:fs";
const sdk = await import(`${process.argv[2]}/client`);
const card = readFileSync(0);
const fetchImpl = async () => new Response(card, { headers: { "content-type": "application/json" } });
const settings = { fetchImpl, legacyCompat: { enabled: true } };
const factory = new sdk.ClientFactory({
  transports: [new sdk.JsonRpcTransportFactory(settings), new sdk.RestTransportFactory(settings)],
  cardResolver: new sdk.DefaultAgentCardResolver(settings),
});
const client = await factory.createFromUrl("http://gw.test/", ".well-known/agent-card.json");
console.log(JSON.stringify({ transport: client.transport.constructor.name }));
"""


def node_version() -> int:
    """The major version of node, 0 where there is none."""
    if shutil.which("node") is None:
        return 0
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=WAIT, check=True).stdout
    return int(said.strip().removeprefix("v").split(".")[0])


@pytest.mark.skipif(node_version() < 20, reason="there is no node of 20 or newer")
@pytest.mark.skipif(not (JAVASCRIPT / "node_modules").exists(), reason="tests/check installs the SDKs of JavaScript")
@for_each(
    ("sdk", "edition"),
    [("a2a-0.3", ""), ("a2a-0.3", "old"), ("a2a-1.3", ""), ("a2a-1.3", "old"), ("a2a-1.3", "modern")],
)
@for_each("named", RULES)
async def test_the_sdks_of_javascript_read_the_card_and_call_over_http(named: str, sdk: str, edition: str) -> None:
    command = ["node", "--input-type=module", "--eval", SCRIPT, "x", sdk]
    card = await shown(RULES[named], old=edition == "old", modern=edition == "modern")
    read = run(command, card, cwd=JAVASCRIPT)
    assert read["transport"].endswith("JsonRpcTransport")
