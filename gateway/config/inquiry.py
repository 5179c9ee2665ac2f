"""Where a request would go, asked by an operator: the answer of `a2a-gateway route` and of `POST /-/route`."""

import re
from typing import Any

import msgspec

from gateway.config.client_rule import NobodyKnown
from gateway.config.model import Config
from gateway.config.problem import printable
from gateway.config.trial import advice, caller, public_prefix
from gateway.principal import Principal
from gateway.routing.endpoint import host_named
from gateway.routing.question import Answer, Question, ask
from gateway.routing.table import Table


class Inquiry(msgspec.Struct, forbid_unknown_fields=True):
    """What an operator asks.

    Attributes:
        path: As a client sends it; over gRPC that of a method.
        tenant: The A2A `tenant` field, or the `scope` of a method that has one.
        as_: The caller's tenant, proven by a token with `claim`; a stranger where neither this nor `key` nor
            `certificate` is given.
        key: The name of the API key that the caller shows.
        certificate: The name on the certificate that it shows: a URI, a DNS name or `CN=…`.
    """

    path: str
    method: str = "POST"
    tenant: str | None = None
    as_: str | None = msgspec.field(default=None, name="as")
    key: str | None = None
    certificate: str | None = None
    host: str | None = None
    claim: dict[str, Any] = {}


def reply(config: Config, table: Table, inquiry: Inquiry, *, everything: bool = False) -> dict[str, Any]:
    """Which agent and backend answer, or the reason why none does, with every candidate explained.

    Args:
        everything: Explain every match of every agent, not only those at the endpoint.

    Raises:
        LookupError: there can be no such caller or no such request; the text is for the operator.
    """
    try:
        who = caller(config, tenant=inquiry.as_, key=inquiry.key, certificate=inquiry.certificate, claims=inquiry.claim)
    except NobodyKnown as error:
        raise LookupError(f"nobody has this certificate: {error}") from error
    except KeyError as error:
        raise LookupError(f"there is no API key {inquiry.key!r} in the configuration") from error
    _agree(inquiry, who)
    _refuse_odd(inquiry)
    question = Question(inquiry.path, inquiry.method, inquiry.host or "", inquiry.tenant, who)
    answer = ask(table, question, prefix=public_prefix(config), everything=everything)
    verdict = answer.verdict
    route, rule = verdict.route, verdict.rule
    return {
        "agent": None if route is None else route.agent,
        "backend": None if route is None else route.url,
        "reason": verdict.reason,
        "hint": _hint(config, inquiry, answer) or None,
        "match_line": None if rule is None else str(rule.place),
        "caller": None if who is None else {"tenant": who.tenant, "method": who.method, "key": who.key},
        "candidates": [
            {"agent": each.rule.agent, "line": str(each.rule.place), "taken": each.taken, "why": each.why}
            for each in verdict.candidates
        ],
    }


def _hint(config: Config, inquiry: Inquiry, answer: Answer) -> str:
    if answer.verdict.route is not None:
        return ""
    if answer.verdict.signs_in:
        return "several agents are here for callers with a credential: a stranger reads a card that says how to sign in"
    return advice(config, inquiry.path) or answer.fact


def _agree(inquiry: Inquiry, who: Principal | None) -> None:
    """See that all that is said of the caller can be true of one.

    Raises:
        LookupError: it cannot.
    """
    if inquiry.certificate is not None and (inquiry.key or inquiry.as_ or inquiry.claim):
        raise LookupError("a certificate says whose it is: name no key, no tenant and no claims beside it")
    if inquiry.key is not None and who is not None:
        if inquiry.as_ is not None and inquiry.as_ != who.tenant:
            whose = f"the API key {inquiry.key!r} is of the tenant {who.tenant!r}, not of {inquiry.as_!r}"
            raise LookupError(f"{whose}: name one of the two")
        if inquiry.claim:
            raise LookupError("a caller shows a key or a token, not both: claims come with a token, so name no key")
    elif inquiry.claim and (inquiry.as_ is None or who is None or who.method == "anonymous"):
        raise LookupError("nobody has these claims: they come with a token, so name the tenant that it is of")


def _refuse_odd(inquiry: Inquiry) -> None:
    """See that a client could send such a request at all.

    Raises:
        LookupError: it could not.
    """
    if _METHOD.fullmatch(inquiry.method) is None:
        meant = inquiry.method.upper()
        remedy = f"write {meant}" if _METHOD.fullmatch(meant) is not None else "write POST or GET"
        raise LookupError(f"{printable(inquiry.method)!r} is no method of HTTP: {remedy}")
    if host_named(inquiry.host or "") is None:
        raise LookupError(f"{printable(inquiry.host or '')!r} is no host: write a name, such as agents.example.com")


# As the listener reads them.
_METHOD = re.compile("[A-Z][A-Z-]{0,31}")
