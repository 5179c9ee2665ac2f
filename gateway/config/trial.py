"""The routing tests that travel with a file, and the callers that they and operators speak of."""

from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from gateway.a2a.bindings.grpc_method import BY_PATH
from gateway.a2a.fault import BadRequest
from gateway.a2a.path import segments
from gateway.config.client_name import ClientName
from gateway.config.client_rule import Clients, NobodyKnown
from gateway.config.finding import Findings
from gateway.config.model import Config, RouteTest
from gateway.config.problem import KeyPath, Problem, printable
from gateway.principal import ANONYMOUS_TENANT, Principal
from gateway.routing.question import Question, ask
from gateway.routing.route import Verdict
from gateway.routing.table import Table, path_segments


def public_prefix(config: Config) -> tuple[str, ...]:
    """Segments of the path that incoming requests carry before anything of the gateway's."""
    if config.gateway.prefix_stripped or config.gateway.public_url is None:
        return ()
    return path_segments(urlsplit(config.gateway.public_url).path)


def advice(config: Config, path: str) -> str:
    """What to say of a path that leads nowhere.

    It is none, not below the public one, or of gRPC, which is not served; empty for any other.
    """
    if path in BY_PATH:
        served = config.gateway.listen_grpc is not None
        return "" if served else "this is a method of gRPC, and there is no `gateway.listen_grpc`"
    if path and not path.startswith("/"):
        meant = urlsplit(path).path if path.startswith(("http://", "https://")) else "/" + path
        return f"a path starts with a slash: write {printable(meant or '/')}"
    prefix = public_prefix(config)
    raw, mark, query = path.partition("?")
    try:
        inside = segments(raw.encode("utf-8", "surrogatepass"))[: len(prefix)] == prefix
    except BadRequest:
        return ""
    if inside:
        return ""
    front = "/" + "/".join(prefix)
    would_be = front + ("" if raw == "/" else raw) + mark + query
    return (
        f"the path lacks {front}, the path of `public_url`: clients send {printable(would_be)}; "
        "where something in front removes it, write `gateway.prefix_stripped: true`"
    )


def caller(
    config: Config,
    *,
    tenant: str | None = None,
    key: str | None = None,
    certificate: str | None = None,
    claims: Mapping[str, object] | None = None,
) -> Principal | None:
    """Who calls, by what a test says of it; None for a stranger, where the configuration does not admit any.

    Args:
        tenant: The caller's tenant, proven by a token with these claims.
        key: The name of an API key of the file; it goes before `tenant`.
        certificate: The name on a certificate: a URI, a DNS name or `CN=…`; it goes before `tenant`, too.

    Raises:
        KeyError: the file has no such key.
        NobodyKnown: it says nobody's certificate has such a name.
    """
    if certificate is not None:
        return certified(config, certificate)
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


def certified(config: Config, subject: str) -> Principal:
    """Who calls with a certificate that has this name and no other."""
    mtls = None if config.auth is None else config.auth.mtls
    if mtls is None:
        raise NobodyKnown("there is no `auth.mtls`")
    name = ClientName.read(subject)
    whose = Clients(mtls.clients).find([name])
    san = () if name.kind == "common_name" else (name.text,)
    return whose.principal({"san": san, "client": whose.client})


# ---- the tests of the file -----------------------------------------------------------------------------------------


def failed_tests(config: Config, table: Table, findings: Findings) -> Iterator[Problem]:
    """Run the tests; each that fails is a problem at what it expects.

    The configuration has no errors: every name that a test has is known.
    """
    for number, test in enumerate(config.tests):
        who = caller(config, tenant=test.tenant, key=test.key, certificate=test.certificate, claims=test.claim)
        request = test.request
        question = Question(request.path, request.method, request.host or "", request.tenant, who)
        verdict = ask(table, question, prefix=public_prefix(config)).verdict
        if not _as_expected(test, verdict):
            at: KeyPath = ("tests", number, "expect")
            fact = f"the test {printable(test.name)!r} fails: expected {_expected(test)}, got {_got(verdict)}"
            remedy = advice(config, request.path) or _why(verdict)
            yield Problem(findings.marks.place(at), findings.marks.find(at), fact, remedy)


def _as_expected(test: RouteTest, verdict: Verdict) -> bool:
    expect, route = test.expect, verdict.route
    if route is None:
        return expect.reason == verdict.reason
    if expect.reason is not None or expect.agent not in (None, route.agent):
        return False
    return expect.backend is None or expect.backend.rstrip("/") in {
        url.rstrip("/") for url in (route.url, *route.others)
    }


def _expected(test: RouteTest) -> str:
    expect = test.expect
    if expect.reason is not None:
        return expect.reason
    return " at ".join(part for part in (expect.agent, expect.backend) if part is not None)


def _got(verdict: Verdict) -> str:
    if verdict.signs_in:
        return "a card that says how to sign in"
    return f"{verdict.route.agent} at {verdict.route.url}" if verdict.route is not None else str(verdict.reason)


def _why(verdict: Verdict) -> str:
    told = [f"{one.rule.agent} ({one.rule.place}): {one.why}" for one in verdict.candidates[:4]]
    return "; ".join(told) or "no agent is found at this path; `a2a-gateway route --explain` shows all"
