"""Where a request would go, asked without sending it: by the command line, the admin port and the `tests:` of the file.

The question takes the very steps that traffic takes: the path is read by the same parser, the rules by the same table.
"""

from dataclasses import dataclass

from gateway.a2a.fault import BadParams, BadRequest, Fault, MethodNotAllowed, NoEndpoint
from gateway.a2a.operation import Operation
from gateway.a2a.path import NAME, PathCall, read_rest, segments
from gateway.principal import Principal
from gateway.routing.route import Knock, Verdict
from gateway.routing.table import Endpoint, Table


@dataclass(frozen=True, slots=True)
class Question:
    """A request as far as routing looks at it.

    Attributes:
        path: As in a request, behind the public prefix.
        tenant: The A2A `tenant` field in the body or the query, or None.
        principal: Who asks, or None for a stranger.
    """

    path: str
    method: str = "POST"
    host: str = ""
    tenant: str | None = None
    principal: Principal | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """What routing says.

    Attributes:
        operation: What the path names in HTTP+JSON; None for JSON-RPC.
    """

    verdict: Verdict
    endpoint: Endpoint | None = None
    operation: Operation | None = None
    tenant: str | None = None


def ask(table: Table, question: Question, *, everything: bool = False) -> Answer:
    """Resolve a question, every candidate explained.

    Args:
        everything: Explain every rule of every agent, not only those at the endpoint.
    """
    try:
        path = segments(question.path.partition("?")[0].encode("utf-8"))
    except BadRequest:
        return Answer(Verdict(None, BadRequest))
    host = question.host.lower()
    endpoint = table.locate(host, path)
    try:
        rest = None if endpoint is None else _rest(question.method, path, endpoint)
    except BadRequest:
        return Answer(Verdict(None, BadRequest), endpoint)
    named, refused = _tenant(question.tenant, None if rest is None else rest.tenant)
    if refused is not None:
        return Answer(Verdict(None, refused), endpoint)
    card = rest is not None and rest.card is not None
    _, verdict = table.explain(Knock(path, host, named, question.principal), everything=everything, card=card)
    if endpoint is not None and rest is None and verdict.route is not None:
        # The agent is here, but this path names nothing of it.
        verdict = Verdict(None, NoEndpoint, None, verdict.candidates)
    if rest is not None and rest.allowed and verdict.route is not None:
        verdict = Verdict(None, MethodNotAllowed, verdict.rule, verdict.candidates)
    return Answer(verdict, endpoint, None if rest is None else rest.operation, named)


def _rest(method: str, path: tuple[str, ...], endpoint: Endpoint) -> PathCall | None:
    return read_rest(method, path[len(endpoint.path) :], tenanted=endpoint.tenanted)


def _tenant(field: str | None, segment: str | None) -> tuple[str | None, type[Fault] | None]:
    """The tenant that both places agree on, or why there is none to go by."""
    field = field or None
    if field is not None and NAME.fullmatch(field) is None:
        return None, BadParams
    if field is not None and segment is not None and field != segment:
        return None, BadParams
    return (segment if field is None else field), None
