"""Cards, and what a gateway serves of the agents behind them."""

import json
from pathlib import Path

from gateway.a2a.card_rewriting import DUAL, OLD, Edition, Scheme, Served, ServedInterface
from gateway.a2a.card_rewriting import rebuild as rebuild_from
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.json import Tree
from gateway.a2a.sanitized_card import Discretion, sanitize

VECTORS: Tree = json.loads((Path(__file__).parent.parent / "vectors" / "AgentCard.json").read_text())
BOTH_SHAPES = "dual (one document read by 0.3 and 1.0 clients)"
SHAPES = ("v0.1", "v0.3", "v1.0", BOTH_SHAPES)

PUBLIC = "https://gateway.example/agents/orders"
GRPC_PLACE = "gateway.example:50051"
UPSTREAM = ("orders.svc.cluster.local", "orders.svc.cluster.local:8000", "10.1.2.3", "orders-v2")

JSONRPC_1_0 = ServedInterface(PUBLIC, Dialect(Binding.JSONRPC, Version.V1_0))
REST_1_0 = ServedInterface(PUBLIC, Dialect(Binding.REST, Version.V1_0))
JSONRPC_0_3 = ServedInterface(PUBLIC, Dialect(Binding.JSONRPC, Version.V0_3))
REST_0_3 = ServedInterface(PUBLIC, Dialect(Binding.REST, Version.V0_3))

GRPC_1_0 = ServedInterface(GRPC_PLACE, Dialect(Binding.GRPC, Version.V1_0))
GRPC_0_3 = ServedInterface(GRPC_PLACE, Dialect(Binding.GRPC, Version.V0_3))
# Picked by a tenant, which 0.3 can say to the scoped service only.
TENANTED = ServedInterface(GRPC_PLACE, GRPC_1_0.dialect, "acme")
SCOPED = ServedInterface(GRPC_PLACE, GRPC_0_3.dialect, "acme")

OWN = ("gateway.example", GRPC_PLACE)
BOTH: tuple[Scheme, ...] = ("bearer", "api_key")
WHOLE = Served((JSONRPC_0_3, JSONRPC_1_0, REST_0_3, REST_1_0), BOTH)
REST_FIRST = Served((REST_1_0, JSONRPC_1_0, REST_0_3, JSONRPC_0_3), BOTH)
REST_ONLY = Served((REST_1_0, REST_0_3), BOTH)
WITH_GRPC = Served((*WHOLE.interfaces, GRPC_1_0, GRPC_0_3), BOTH)
WITH_SCOPED = Served((*WHOLE.interfaces, TENANTED, SCOPED), BOTH)
ONLY_GRPC = Served((GRPC_1_0, GRPC_0_3), BOTH)
ONLY_SCOPED = Served((TENANTED, SCOPED), BOTH)

INSIDE = {each.dialect: Edition.inside(each.dialect) for each in WITH_GRPC.interfaces}
EDITIONS = (DUAL, OLD, *INSIDE.values())
MODERN = INSIDE[JSONRPC_1_0.dialect]
LEGACY = INSIDE[JSONRPC_0_3.dialect]
LEGACY_REST = INSIDE[REST_0_3.dialect]
LEGACY_GRPC = INSIDE[GRPC_0_3.dialect]


def card(**members: object) -> Tree:
    return {"name": "Echo", "version": "1", "skills": [], "capabilities": {}, **members}


def rebuild(said: Tree, served: Served, edition: Edition = DUAL, *, discretion: Discretion | None = None) -> Tree:
    return rebuild_from(sanitize(said, discretion or Discretion(own=OWN)), served, edition)
