"""Questions about routing, asked without a request."""

from typing import Any

from gateway.a2a.fault import (
    AuthMissing,
    BadParams,
    BadRequest,
    Fault,
    MethodNotAllowed,
    NoEndpoint,
    NoRoute,
    NotAdmitted,
    TenantDeniedEndpoint,
)
from gateway.a2a.operation import Operation
from gateway.principal import Principal
from gateway.routing.explain import Question, RouteAnswer, ask
from gateway.routing.route import AgentRules, Place, Reach, Route, Rule
from gateway.routing.table import Table
from tests.table import for_each

HERE = Place("gateway.yaml", 1)
ACME, GLOBEX, NOBODY = Principal("acme"), Principal("globex"), Principal("initech", method="jwt")


def agent(name: str, path: tuple[str, ...], *, tenant: str | None = None, **more: Any) -> AgentRules:
    conditions = frozenset({("tenant", tenant)} if tenant else ())
    rule = Rule(name, None, path, conditions, HERE)
    return AgentRules(name, (rule,), {None: Route(name, name, f"http://{name}:8000")}, HERE, **more)


TABLE = Table.build(
    [
        agent("billing", ("billing",)),
        agent("support", ("desk",), tenant="support"),
        agent("hidden", ("hidden",), public=False),
    ],
    {"acme": Reach(frozenset({"billing", "support"})), "globex": Reach(frozenset({"support"}))},
)


def asked(path: str, **more: object) -> RouteAnswer:
    return ask(TABLE, Question(path, **{"principal": ACME, **more}))  # type: ignore[arg-type] # of the test's own making


def fault(path: str, **more: object) -> type[Fault] | None:
    return asked(path, **more).verdict.fault


@for_each(
    ("path", "field"),
    [
        ("/desk", "support"),
        ("/desk/support", None),
        ("/desk/support", "support"),
        ("/desk/support?tenant=support", "support"),
        ("/desk?tenant=support", ""),
        ("/desk/support/message:send", None),
        ("/desk/support/v1/message:send", None),
    ],
)
def test_the_tenant_is_found_in_every_place(path: str, field: str | None) -> None:
    answer = asked(path, tenant=field)
    assert answer.verdict.route is not None
    assert answer.tenant == "support"


@for_each(
    ("path", "field"),
    [
        ("/desk/support", "billing"),
        ("/desk/support?tenant=billing", None),
        ("/desk?tenant=support", "billing"),
        ("/desk", ".."),
        ("/desk", "tasks"),
        ("/desk", "a\0b"),
        ("/desk", "a\x85b"),
        ("/desk", "x" * 257),
        ("/desk", "ä" * 129),
    ],
)
def test_tenants_that_differ_or_are_none_are_refused(path: str, field: str | None) -> None:
    assert fault(path, tenant=field) is BadParams


@for_each(
    "path",
    ["/..", "/billing/tasks/%ff", "/billing/tasks/x%3acancel", "//", "billing", "/ä", "/\ud800", "/billing?a=1&a=2"],
)
def test_a_path_that_no_request_may_have_is_refused(path: str) -> None:
    assert fault(path) is BadRequest


@for_each("path", ["/", "/nothing", "/billing/nothing", "/billing/tasks/a/b", "/desk/support/nothing"])
def test_paths_without_an_agent_look_the_same_everywhere(path: str) -> None:
    assert fault(path) is NoEndpoint
    assert fault(path, principal=GLOBEX) is NoEndpoint
    assert fault(path, principal=None) is AuthMissing
    assert fault(path, principal=NOBODY) is NotAdmitted


def test_a_caller_learns_nothing_of_a_forbidden_agent() -> None:
    assert fault("/billing", principal=GLOBEX) is TenantDeniedEndpoint
    assert fault("/billing", method="GET", principal=GLOBEX) is TenantDeniedEndpoint
    assert fault("/desk", principal=GLOBEX) is NoRoute


def test_a_path_is_for_its_own_methods() -> None:
    assert fault("/billing", method="GET") is MethodNotAllowed
    assert fault("/billing/tasks/t", method="DELETE") is MethodNotAllowed


def test_a_card_is_anybodys_unless_it_is_private() -> None:
    answer = asked("/billing/.well-known/agent-card.json", method="GET", principal=None)
    assert answer.verdict.route is not None
    assert answer.operation is Operation.GET_CARD
    assert fault("/hidden/.well-known/agent-card.json", method="GET", principal=None) is TenantDeniedEndpoint


def test_the_query_of_a_card_names_no_tenant() -> None:
    card = "/desk/support/.well-known/agent-card.json"
    assert asked(card + "?tenant=other", method="GET").tenant == "support"


def whys(path: str, *, everything: bool = True, prefix: tuple[str, ...] = (), **more: object) -> dict[str, str]:
    question = Question(path, **{"principal": ACME, **more})  # type: ignore[arg-type] # of the test's own making
    verdict = ask(TABLE, question, prefix=prefix, everything=everything).verdict
    assert not any(candidate.taken for candidate in verdict.candidates)
    return {candidate.rule.agent: candidate.why for candidate in verdict.candidates}


def test_a_path_outside_of_the_public_one_is_told_as_that() -> None:
    assert set(whys("/billing", prefix=("base",)).values()) == {"is below /base, and the path is not"}


def test_a_path_that_goes_on_wrongly_is_told_as_that_and_nothing_is_taken() -> None:
    assert whys("/billing/nothing", everything=False) == {
        "billing": "is here, but what follows in the path names nothing of A2A"
    }


# ---- over gRPC -----------------------------------------------------------------------------------------------------

V1, V03, SCOPED = (
    f"/{service}/GetTask" for service in ("lf.a2a.v1.A2AService", "a2a.v1.A2AService", "a2a.v1.ScopedA2AService")
)
GRPC = Table.build(
    [
        agent("billing", ("billing",)),
        agent("support", ("desk",), tenant="help"),
        AgentRules(
            "status",
            (Rule("status", "status.example", (), frozenset(), HERE),),
            {None: Route("status", "status", "http://status:8000")},
            HERE,
        ),
    ],
    {"acme": Reach(frozenset({"billing", "support", "status"})), "globex": Reach(frozenset({"status"}))},
    grpc=True,
)


def called(path: str, **more: object) -> RouteAnswer:
    question = Question(path, **{"principal": ACME, **more})  # type: ignore[arg-type] # of the test's own making
    return ask(GRPC, question, prefix=("base",), everything=True)


@for_each(
    ("path", "tenant", "host", "found"),
    [
        (V1, "billing", "", "billing"),
        (V1, "help", "any.example", "support"),
        (V1, "status", "Status.Example", "status"),
        (SCOPED, "billing", "", "billing"),
    ],
)
def test_a_method_of_grpc_is_asked_by_tenant_and_scope(path: str, tenant: str | None, host: str, found: str) -> None:
    answer = called(path, tenant=tenant, host=host)
    assert answer.verdict.route is not None
    assert (answer.verdict.route.agent, answer.operation) == (found, Operation.GET_TASK)
    assert answer.tenant == tenant
    assert answer.endpoint is GRPC.grpc_endpoint
    assert [candidate.taken for candidate in answer.verdict.candidates].count(True) == 1


@for_each(
    ("path", "tenant", "why"),
    [
        (SCOPED, None, "requests of the scoped service have a `scope`, and this one has none"),
        (SCOPED, "", "requests of the scoped service have a `scope`, and this one has none"),
        (V03, "billing", "requests of this service have no tenant; those of the scoped one have it as their `scope`"),
    ],
)
def test_impossible_grpc_requests_are_refused_with_their_reason(path: str, tenant: str | None, why: str) -> None:
    verdict = called(path, tenant=tenant).verdict
    assert (verdict.route, verdict.fault) == (None, BadParams)
    assert {candidate.why for candidate in verdict.candidates} == {why}


@for_each("tenant", ["..", "tasks", "v1", "a\nb", "\x7f", "x" * 257, "ä" * 129])
def test_over_grpc_too_a_tenant_is_one(tenant: str) -> None:
    assert called(V1, tenant=tenant).verdict.fault is BadParams


@for_each("tenant", ["a/b", "../support", "ä", "support ", "Support", "\uff53upport", "sup\u200dport"])
def test_a_tenant_is_compared_exactly(tenant: str) -> None:
    assert fault("/desk", tenant=tenant) is NoRoute
    assert called(V1, tenant=tenant).verdict.fault is NoRoute


def test_a_caller_without_agents_is_refused_before_the_request_is_read() -> None:
    assert called(SCOPED, principal=None).verdict.fault is AuthMissing
    assert called(SCOPED, principal=NOBODY).verdict.fault is NotAdmitted
    assert called(SCOPED, principal=GLOBEX).verdict.fault is BadParams
