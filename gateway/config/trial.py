"""Asking the routing table: the tests that travel with a file, and the same question from operators."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from gateway.a2a.fault import REASONS, BadRequest, MethodNotAllowed, NoEndpoint
from gateway.a2a.operation import Operation
from gateway.a2a.path import read_rest, segments
from gateway.config.finding import Findings
from gateway.config.model import Config, RouteTest
from gateway.config.problem import KeyPath, Problem, printable
from gateway.config.tenancy import Names
from gateway.config.wording import nearest
from gateway.principal import ANONYMOUS_TENANT, Principal
from gateway.routing.route import Knock, Verdict
from gateway.routing.table import Table, path_segments

_METHODS = ("GET", "HEAD", "POST", "DELETE")


@dataclass(frozen=True, slots=True)
class Question:
    """A request as far as routing looks at it.

    Attributes:
        path: As a client sends it, with the path of `public_url` unless something in front removes it.
        tenant: The A2A `tenant` field, where the body or the query has one.
    """

    method: str
    path: str
    principal: Principal | None
    tenant: str | None = None
    host: str = ""


def ask(table: Table, config: Config, question: Question, *, everything: bool = False) -> Verdict:
    """Whose agent answers, and why: what traffic would get.

    Args:
        everything: Explain every rule of every agent, not only those of the endpoint.
    """
    try:
        path = segments(question.path.split("?", 1)[0].encode("ascii", "replace"))
        prefix = public_prefix(config)
        if path[: len(prefix)] != prefix:
            return Verdict(None, NoEndpoint)
        path = path[len(prefix) :]
        endpoint = table.locate(question.host.lower(), path)
        knock = Knock(path, question.host.lower(), question.tenant, question.principal)
        if endpoint is None:
            return table.explain(knock, everything=everything)[1]
        call = read_rest(question.method, path[len(endpoint.path) :], tenanted=endpoint.tenanted)
    except BadRequest:
        return Verdict(None, BadRequest)
    if call is None:
        return Verdict(None, NoEndpoint)
    if call.allowed:
        return Verdict(None, MethodNotAllowed)
    named = {tenant for tenant in (call.tenant, question.tenant) if tenant is not None}
    if len(named) > 1:
        # Two places that disagree are refused (design §6.5).
        return Verdict(None, BadRequest)
    knock = Knock(path, knock.host, call.tenant or question.tenant, question.principal)
    return table.explain(knock, everything=everything, card=call.operation is Operation.GET_CARD)[1]


def public_prefix(config: Config) -> tuple[str, ...]:
    """Segments of the path that incoming requests carry before anything of the gateway's."""
    if config.gateway.prefix_stripped or config.gateway.public_url is None:
        return ()
    return path_segments(urlsplit(config.gateway.public_url).path)


def caller(
    config: Config, *, tenant: str | None = None, key: str | None = None, claims: Mapping[str, object] | None = None
) -> Principal | None:
    """Who calls, by what a test says of it; None for a stranger, where the configuration does not admit any.

    Args:
        tenant: The caller's tenant, proven by a token with these claims.
        key: The name of an API key of the file; it goes before `tenant`.

    Raises:
        KeyError: the file has no such key.
    """
    if key is not None:
        known = {} if config.auth is None else config.auth.api_keys
        shown = known[key]
        narrowed = None if shown.agents is None else frozenset(shown.agents)
        return Principal(shown.tenant, key, "api_key", key=key, narrowed=narrowed)
    if tenant is not None and tenant != ANONYMOUS_TENANT:
        return Principal(tenant, method="jwt", claims=dict(claims or {}))
    if config.auth is None or config.gateway.anonymous:
        return Principal(ANONYMOUS_TENANT)
    return None


# ---- the tests of the file -----------------------------------------------------------------------------------------


def check_tests(config: Config, names: Names, findings: Findings) -> None:
    """Find what is wrong with the tests themselves."""
    for number, test in enumerate(config.tests):
        at: KeyPath = ("tests", number)
        if test.key is not None:
            findings.known((*at, "key"), test.key, names.keys, "API key")
            if test.tenant is not None or test.claim:
                findings.error((*at, "key"), "a caller shows a key or a token, not both", "remove `tenant` and `claim`")
        elif test.claim and test.tenant is None:
            findings.error((*at, "claim"), "nobody has these claims", "add the caller's `tenant`")
        if test.expect.agent is not None:
            findings.known((*at, "expect", "agent"), test.expect.agent, names.agents, "agent")
        if test.expect.reason is not None and test.expect.reason not in REASONS:
            remedy = nearest(test.expect.reason, REASONS) or f"reasons are: {', '.join(REASONS)}"
            findings.error((*at, "expect", "reason"), f"{printable(test.expect.reason)!r} is no reason", remedy)
        if test.expect.reason is not None and (test.expect.agent or test.expect.backend):
            remedy = "expect an agent, or the reason why none answers"
            findings.error((*at, "expect", "reason"), "a refusal has no agent", remedy)
        if test.request.method not in _METHODS:
            remedy = f"write one of {', '.join(_METHODS)}"
            findings.error(
                (*at, "request", "method"), f"{printable(test.request.method)!r} is no method of A2A", remedy
            )


def failed_tests(config: Config, table: Table, findings: Findings) -> Iterator[Problem]:
    """Run the tests; each that fails is a problem at what it expects.

    The configuration has no errors: every name that a test has is known.
    """
    for number, test in enumerate(config.tests):
        who = caller(config, tenant=test.tenant, key=test.key, claims=test.claim)
        question = Question(test.request.method, test.request.path, who, test.request.tenant, test.request.host or "")
        verdict = ask(table, config, question)
        if not _as_expected(test, verdict):
            at: KeyPath = ("tests", number, "expect")
            fact = f"the test {printable(test.name)!r} fails: expected {_expected(test)}, got {_got(verdict)}"
            yield Problem(findings.marks.place(at), findings.marks.find(at), fact, _why(verdict))


def _as_expected(test: RouteTest, verdict: Verdict) -> bool:
    expect, route = test.expect, verdict.route
    if route is None:
        return expect.reason == verdict.reason
    if expect.reason is not None or expect.agent not in (None, route.agent):
        return False
    return expect.backend is None or expect.backend.rstrip("/") == route.url.rstrip("/")


def _expected(test: RouteTest) -> str:
    expect = test.expect
    if expect.reason is not None:
        return expect.reason
    return " at ".join(part for part in (expect.agent, expect.backend) if part is not None)


def _got(verdict: Verdict) -> str:
    return f"{verdict.route.agent} at {verdict.route.url}" if verdict.route is not None else str(verdict.reason)


def _why(verdict: Verdict) -> str:
    told = [f"{one.rule.agent} ({one.rule.place}): {one.why}" for one in verdict.candidates[:4]]
    return "; ".join(told) or "no agent is found at this path; `a2a-gateway route --explain` shows all"
