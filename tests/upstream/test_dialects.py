"""The dialect and interface of an agent that a call goes to, and the tenant that the agent is told."""

import json
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from gateway.a2a.bindings import jsonrpc, rest
from gateway.a2a.bindings.grpc_method import method_of
from gateway.a2a.call import Call
from gateway.a2a.card import CardInterface
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import BadParams, Fault, MethodNotAllowed, VersionUnsupported
from gateway.a2a.operation import Operation
from gateway.a2a.paths import PathCall, read_rest, segments
from gateway.upstream.dialects import GRPC, HTTP, Dialects, Interface, spellings
from tests.table import for_each

RPC = Dialect(Binding.JSONRPC, Version.V1_0)
REST = Dialect(Binding.REST, Version.V1_0)
RPC_0_3 = Dialect(Binding.JSONRPC, Version.V0_3)
REST_0_3 = Dialect(Binding.REST, Version.V0_3)
RPC_0_1 = Dialect(Binding.JSONRPC, Version.V0_1)
GRPC_1_0 = Dialect(Binding.GRPC, Version.V1_0)
GRPC_0_3 = Dialect(Binding.GRPC, Version.V0_3)


@dataclass
class Cards:
    version: int = 0
    spoken: tuple[CardInterface, ...] = ()


def offers(*interfaces: tuple[Dialect, str] | tuple[Dialect, str, str]) -> Cards:
    return Cards(1, tuple(CardInterface(*interface) for interface in interfaces))


def dialects(cards: Cards | None = None, *, url: str = "http://agent:8000/base", **more: Any) -> Dialects:
    return Dialects(url=url, cards=cards or Cards(), relayed=HTTP, **more)


def behind_grpc(cards: Cards | None = None, **more: Any) -> Dialects:
    return Dialects(url="grpc://agent:50051", cards=cards or Cards(), relayed=GRPC, binding=Binding.GRPC, **more)


def rpc(method: str, params: object, *, tenant: str | None = None) -> Call:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    return jsonrpc.read_call(jsonrpc.open_envelope(body), PathCall(tenant=tenant), b"", None)


def restful(method: str, path: str) -> Call:
    found = read_rest(method, segments(path.encode()), tenanted=True)
    assert found is not None
    return rest.read_call(found, b"", b"", Version.V1_0)


def over_grpc(operation: Operation, version: Version = Version.V1_0, **more: Any) -> Call:
    return Call(operation, Dialect(Binding.GRPC, version), method_of(operation, version).path, **more)


def where(agent: Dialects, call: Call) -> Interface:
    return agent.interface(call, spellings(call))


def test_an_agent_whose_card_is_unread_is_called_in_the_clients_own_dialect_where_the_file_says() -> None:
    agent = dialects()
    assert agent.interfaces() == {}
    assert where(agent, rpc("GetTask", {"id": "t"})) == Interface(RPC, "/base")
    assert where(dialects(url="http://agent:8000"), rpc("GetTask", {"id": "t"})).path == "/"


def test_configured_dialects_hold_while_the_card_is_unread() -> None:
    agent = dialects(binding=Binding.JSONRPC)
    assert where(agent, rpc("GetTask", {"id": "t"})).dialect == RPC
    assert where(agent, restful("GET", "/tasks/t")).dialect == RPC
    old = dialects(version=Version.V0_3)
    assert where(old, rpc("tasks/get", {"id": "t"})).dialect == RPC_0_3
    assert where(old, rpc("GetTask", {"id": "t"})).dialect == RPC_0_3
    assert where(old, restful("GET", "/tasks/t")).dialect == REST_0_3
    with pytest.raises(MethodNotAllowed, match=r"this agent speaks A2A 0\.3, which has no ListTasks"):
        where(old, rpc("ListTasks", {}))


def test_the_card_says_where_each_dialect_is_spoken_and_is_read_again_when_it_changes() -> None:
    cards = offers(
        (REST, "http://agent:8000/base/rest"), (RPC, "http://agent:8000/base/rpc/"), (GRPC_1_0, "agent:9000")
    )
    agent = dialects(cards)
    assert list(agent.interfaces().values()) == [Interface(REST, "/base/rest"), Interface(RPC, "/base/rpc/")]
    assert agent.interfaces() is agent.interfaces()
    cards.version, cards.spoken = 2, offers((RPC_0_3, "http://agent:8000/base/old")).spoken
    assert list(agent.interfaces()) == [RPC_0_3]


def test_only_the_backends_own_origin_and_path_are_ever_dialled() -> None:
    elsewhere = dialects(offers((RPC, "http://169.254.169.254/latest")))
    assert where(elsewhere, rpc("GetTask", {"id": "t"})).path == "/base"


def test_the_file_overrules_the_card() -> None:
    url = "http://agent:8000/base/"
    cards = offers((RPC, url + "rpc"), (RPC_0_3, url + "old"), (REST, url + "rest"))
    assert list(dialects(cards, version=Version.V1_0).interfaces()) == [RPC, REST]
    assert dialects(cards, binding=Binding.JSONRPC).interfaces() == {
        RPC: Interface(RPC, "/base"),
        RPC_0_3: Interface(RPC_0_3, "/base"),
    }
    written = dialects(binding=Binding.REST, version=Version.V0_3)
    assert written.interfaces() == {REST_0_3: Interface(REST_0_3, "/base")}


def test_tenants_of_one_interface_are_collected_and_one_that_climbs_is_none() -> None:
    url = "http://agent:8000/base/rpc"
    cards = offers((RPC, url, "a"), (RPC, url, "b"), (RPC, url + "2", "c"), (REST, url, ".."), (REST, url, "."))
    found = dialects(cards).interfaces()
    assert found[RPC] == Interface(RPC, "/base/rpc", ("a", "b"))
    assert found[REST].tenants == ()


@for_each(
    ("client", "offered", "chosen"),
    [
        (RPC, [RPC_0_1, RPC_0_3, REST_0_3, REST], REST),
        (REST, [RPC_0_3, REST_0_3], REST_0_3),
        (RPC_0_3, [RPC_0_1, REST, RPC], RPC),
        (RPC_0_3, [RPC, REST_0_3], REST_0_3),
        (RPC, [GRPC_1_0, RPC_0_1], RPC_0_1),
    ],
)
def test_an_agent_of_another_dialect_is_asked_where_least_is_lost(
    client: Dialect, offered: list[Dialect], chosen: Dialect
) -> None:
    agent = dialects(offers(*((dialect, "http://agent:8000/base") for dialect in offered)))
    call = restful("GET", "/tasks/t") if client is REST else rpc("GetTask", {"id": "t"})
    assert agent.interface(call, (client,)).dialect == chosen


def test_an_agent_that_speaks_nothing_known_here_is_refused_without_its_address() -> None:
    for more in ({}, {"binding": Binding.GRPC}):
        with pytest.raises(Fault, match=r"not A2A 1\.0 over JSONRPC") as caught:
            where(dialects(offers((GRPC_1_0, "secret:8000")), **more), rpc("GetTask", {"id": "t"}))
        assert "secret" not in caught.value.message


# ---- Behind an address of gRPC ---------------------------------------------------------------------------------------


def test_a_grpc_backend_has_no_other_dialect() -> None:
    cards = offers((RPC, "http://agent:8000/rpc"), (GRPC_0_3, "agent:50051"), (REST, "http://agent:8000/"))
    assert behind_grpc(cards).interfaces() == {GRPC_0_3: Interface(GRPC_0_3, "/")}
    assert where(behind_grpc(cards), rpc("GetTask", {"id": "t"})).dialect == GRPC_0_3
    assert dialects(cards).interfaces().keys() == {RPC, REST}


@for_each("cards", [None, offers((RPC_0_3, "http://agent:8000/rpc"))])
@for_each(
    ("call", "assumed"),
    [
        (over_grpc(Operation.GET_TASK), GRPC_1_0),
        (over_grpc(Operation.GET_TASK, Version.V0_3), GRPC_0_3),
        (rpc("GetTask", {"id": "t"}), GRPC_1_0),
        (rpc("tasks/get", {"id": "t"}), GRPC_1_0),
        (restful("GET", "/tasks/t"), GRPC_1_0),
    ],
)
def test_a_grpc_backend_without_a_card_speaks_the_clients_grpc_version_or_1_0(
    cards: Cards | None, call: Call, assumed: Dialect
) -> None:
    assert where(behind_grpc(cards), call) == Interface(assumed, "/")


# ---- The tenant ------------------------------------------------------------------------------------------------------


@for_each(
    ("asked", "declared", "gets"),
    [
        (None, (), None),
        (None, ("inside",), "inside"),
        ("strip", ("inside",), None),
        ("keep", (), None),
        ("keep", ("inside",), None),
        ("other", (), "other"),
    ],
)
def test_a_name_by_which_an_agent_is_found_is_no_tenant_of_the_agents(
    asked: str | None, declared: tuple[str, ...], gets: str | None
) -> None:
    agent = behind_grpc(tenant=asked)
    interface = Interface(GRPC_1_0, "/", declared)
    for name in ("billing", "inside"):
        call = over_grpc(Operation.GET_TASK, tenant=name, addressed=True)
        assert agent.tenant(call, interface) == gets
        # The client gets its own back.
        assert agent.restores_tenant(call, interface) is (gets != name)
        meant = replace(call, addressed=False)
        assert agent.tenant(meant, interface) == (
            name if asked == "keep" or (name in declared and asked is None) else gets
        )


def test_an_agent_without_a_usable_dialect_is_an_error_in_the_clients_terms() -> None:
    cards = offers((GRPC_1_0, "agent:50051"))
    with pytest.raises(MethodNotAllowed, match=r"not A2A 1\.0 over JSONRPC"):
        where(dialects(cards, binding=Binding.REST), rpc("GetTask", {"id": "t"}))
    with pytest.raises(VersionUnsupported):
        where(dialects(cards), rpc("GetTask", {"id": "t"}))


SCOPED = "a2a.v1.ScopedA2AService"


@for_each("written", [None, Version.V0_3])
def test_a_service_that_is_not_known_is_not_called_and_neither_is_one_without_its_scope(
    written: Version | None,
) -> None:
    call = over_grpc(Operation.GET_TASK, Version.V0_3, tenant="acme")
    for tenant, service, reason in (
        (None, SCOPED, "asks for a scope"),
        (None, "acme.v9.Service", "asks for a gRPC service that is not known"),
        ("acme", "acme.v9.Service", "asks for a gRPC service that is not known"),
    ):
        cards = Cards(1, (CardInterface(GRPC_0_3, "agent:1", tenant, service),))
        with pytest.raises(MethodNotAllowed, match=reason) as refused:
            where(behind_grpc(cards, version=written), call)
        assert "acme.v9" not in refused.value.message
        # Another interface serves instead.
        both = Cards(1, (CardInterface(GRPC_1_0, "agent:1"), *cards.spoken))
        assert where(behind_grpc(both), call).dialect == GRPC_1_0


def test_the_file_gives_the_scope_that_the_card_does_not() -> None:
    cards = Cards(1, (CardInterface(GRPC_0_3, "agent:1", None, SCOPED),))
    named, unnamed = (over_grpc(Operation.GET_TASK, Version.V0_3, tenant=tenant) for tenant in ("acme", None))
    for tenant, told in (("keep", "acme"), ("other", "other")):
        agent = behind_grpc(cards, tenant=tenant)
        assert agent.tenant(named, where(agent, named)) == told
    with pytest.raises(BadParams, match="name it as the tenant"):
        where(behind_grpc(cards, tenant="keep"), unnamed)
    with pytest.raises(MethodNotAllowed, match="asks for a scope"):
        where(behind_grpc(cards, tenant="strip"), named)


# ---- Tenants that no path can say ------------------------------------------------------------------------------------


def test_a_tenant_that_no_path_can_say_goes_where_the_message_says_it() -> None:
    url = "http://agent:8000/base"
    agent = dialects(offers((REST, url), (RPC, url)), tenant="keep")
    assert where(agent, restful("GET", "/acme/tasks/t")).dialect == REST
    for tenant in ("orgs/42", "..", "tasks", "a b"):
        call = replace(restful("GET", "/tasks/t"), tenant=tenant)
        assert where(agent, call).dialect == RPC
        with pytest.raises(BadParams, match=r"over HTTP\+JSON"):
            where(dialects(offers((REST, url)), tenant="keep"), call)
        with pytest.raises(MethodNotAllowed, match="no path can say its tenant"):
            where(dialects(offers((REST, url)), tenant="orgs/7"), call)
        with pytest.raises(BadParams):
            where(dialects(binding=Binding.REST, tenant="keep"), call)


def test_an_agent_over_http_and_json_is_told_what_its_own_card_asks_for_unless_it_climbs() -> None:
    url = "http://agent:8000/base"
    agent = dialects(offers((REST, url, "orgs/42")))
    call = restful("GET", "/tasks/t")
    assert agent.tenant(call, where(agent, call)) == "orgs/42"
    for climbing in ("..", ".", "a/../b", "../a", "a/.", "a\\..\\b"):
        assert dialects(offers((REST, url, climbing))).interfaces()[REST].tenants == ()
    assert dialects(offers((RPC, url, "../a"))).interfaces()[RPC].tenants == ("../a",)
