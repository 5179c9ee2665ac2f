"""Cards over gRPC: an agent's are read as any other, and the gateway's own become messages whole."""

import json
from base64 import b64decode
from typing import Any

import msgspec
import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from a2a.compat.v0_3.proto_utils import FromProto
from a2a.types import a2a_pb2 as new

from gateway.a2a import json as strict_json
from gateway.a2a.bindings import grpc
from gateway.a2a.card import parse_card
from gateway.a2a.card_rewriting import Edition, Scheme, Served, ServedInterface, rebuild
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.operation import Operation
from gateway.a2a.sanitized_card import Discretion, SanitizedCard, sanitize
from tests.a2a.sample import VECTORS
from tests.table import for_each

CARD = Operation.GET_EXTENDED_CARD
V0_3, V1_0 = Version.V0_3, Version.V1_0
VECTOR = json.loads((VECTORS / "AgentCard.json").read_bytes())
BOTH: tuple[Scheme, ...] = ("bearer", "api_key")


def card(version: Version) -> dict[str, Any]:
    """The card of the vectors, as an agent answers with it."""
    told = b64decode(VECTOR[f"v{version}-grpc"]["message_b64"])
    return parse_card(strict_json.write(grpc.read_answer(CARD, version, told)))


def portrait(version: Version) -> SanitizedCard:
    return sanitize(card(version), Discretion())


def served(version: Version, binding: Binding, schemes: tuple[Scheme, ...] = BOTH) -> dict[str, Any]:
    """The gateway's own card, as it answers a client of that dialect with it."""
    ways = Served(
        interfaces=(
            ServedInterface("gw.example:443", Dialect(Binding.GRPC, V1_0), tenant="acme"),
            ServedInterface("https://gw.example/acme", Dialect(Binding.JSONRPC, V0_3)),
            ServedInterface("https://gw.example/acme", Dialect(Binding.REST, V0_3)),
        ),
        schemes=schemes,
    )
    tree = rebuild(portrait(version), ways, Edition.inside(Dialect(binding, version)))
    return dict(msgspec.json.decode(msgspec.json.encode(tree)))


def test_an_agents_schemes_and_requirements_are_read_whole() -> None:
    for version, requirements in ((V0_3, "security"), (V1_0, "securityRequirements")):
        found = card(version)
        assert found["securitySchemes"] == VECTOR["v1.0"]["securitySchemes"]
        assert found[requirements] == VECTOR["v1.0"]["securityRequirements"]


@for_each("binding", [Binding.GRPC, Binding.REST])
def test_the_gateways_card_of_1_0_keeps_interfaces_and_schemes(binding: Binding) -> None:
    found = new.AgentCard.FromString(grpc.write_answer(CARD, V1_0, served(V1_0, binding)))
    assert [(each.url, each.protocol_binding, each.tenant) for each in found.supported_interfaces] == [
        ("gw.example:443", "GRPC", "acme"),
        ("https://gw.example/acme", "JSONRPC", ""),
        ("https://gw.example/acme", "HTTP+JSON", ""),
    ]
    assert found.security_schemes["bearer"].http_auth_security_scheme.scheme == "Bearer"
    key = found.security_schemes["api_key"].api_key_security_scheme
    assert (key.location, key.name) == ("header", "X-API-Key")
    assert [sorted(each.schemes) for each in found.security_requirements] == [["bearer"], ["api_key"]]
    assert found.capabilities.HasField("streaming")
    assert [skill.id for skill in found.skills] == ["sum"]


@for_each("binding", [Binding.GRPC, Binding.REST, Binding.JSONRPC])
def test_the_gateways_card_of_0_3_keeps_interfaces_and_requirements(binding: Binding) -> None:
    found = old.AgentCard.FromString(grpc.write_answer(CARD, V0_3, served(V0_3, binding)))
    assert (found.url, found.preferred_transport) == ("https://gw.example/acme", "JSONRPC")
    assert [(each.url, each.transport) for each in found.additional_interfaces] == [
        ("https://gw.example/acme", "HTTP+JSON")
    ]
    assert [sorted(each.schemes) for each in found.security] == [["bearer"], ["api_key"]]
    assert found.protocol_version == "0.3.0"
    if binding is not Binding.JSONRPC:
        # The JSON schema's own spelling of a scheme is no member of the message.
        assert found.security_schemes["bearer"].http_auth_security_scheme.scheme == "Bearer"
        assert found.security_schemes["api_key"].api_key_security_scheme.location == "header"


def test_the_sdk_of_0_3_reads_the_gateways_card() -> None:
    message = old.AgentCard.FromString(grpc.write_answer(CARD, V0_3, served(V0_3, Binding.GRPC)))
    found = FromProto.agent_card(message)
    assert found.security == [{"bearer": []}, {"api_key": []}]
    assert found.security_schemes is not None
    assert found.security_schemes["bearer"].root.type == "http"
    assert found.security_schemes["api_key"].root.type == "apiKey"
    assert found.url == "https://gw.example/acme"


def test_a_card_without_schemes_requires_none() -> None:
    for version, kind in ((V0_3, old.AgentCard), (V1_0, new.AgentCard)):
        found = kind.FromString(grpc.write_answer(CARD, version, served(version, Binding.GRPC, schemes=())))
        assert not found.security_schemes


@for_each("security", [[1], [{"a": 1}], [{"a": [1]}], {"a": []}, "a"])
def test_requirements_of_another_shape_are_refused(security: Any) -> None:
    with pytest.raises(UpstreamProtocol):
        grpc.write_answer(CARD, V0_3, {"name": "a", "security": security})


def test_a_scheme_may_be_called_like_the_member_that_holds_them() -> None:
    told = grpc.write_answer(CARD, V0_3, {"name": "a", "security": [{"schemes": []}]})
    assert list(old.AgentCard.FromString(told).security[0].schemes) == ["schemes"]
