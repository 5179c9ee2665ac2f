"""Cards over gRPC: an agent's are read as any other, and the gateway's own become messages whole."""

import json
from base64 import b64decode
from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old

from gateway.a2a import json as strict_json
from gateway.a2a.bindings import grpc
from gateway.a2a.card import parse_card
from gateway.a2a.dialect import Version
from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.operation import Operation
from tests.a2a.sample import VECTORS
from tests.table import for_each

CARD = Operation.GET_EXTENDED_CARD
V0_3, V1_0 = Version.V0_3, Version.V1_0
VECTOR = json.loads((VECTORS / "AgentCard.json").read_bytes())


def card(version: Version) -> dict[str, Any]:
    """The card of the vectors, as an agent answers with it."""
    told = b64decode(VECTOR[f"v{version}-grpc"]["message_b64"])
    return parse_card(strict_json.write(grpc.read_answer(CARD, version, told)))


def test_an_agents_schemes_and_requirements_are_read_whole() -> None:
    for version, requirements in ((V0_3, "security"), (V1_0, "securityRequirements")):
        found = card(version)
        assert found["securitySchemes"] == VECTOR["v1.0"]["securitySchemes"]
        assert found[requirements] == VECTOR["v1.0"]["securityRequirements"]


@for_each("security", [[1], [{"a": 1}], [{"a": [1]}], {"a": []}, "a"])
def test_requirements_of_another_shape_are_refused(security: Any) -> None:
    with pytest.raises(UpstreamProtocol):
        grpc.write_answer(CARD, V0_3, {"name": "a", "security": security})


def test_a_scheme_may_be_called_like_the_member_that_holds_them() -> None:
    told = grpc.write_answer(CARD, V0_3, {"name": "a", "security": [{"schemes": []}]})
    assert list(old.AgentCard.FromString(told).security[0].schemes) == ["schemes"]
