"""Where a request would go, asked by an operator: the answer of `a2a-gateway route` and of `POST /-/route`."""

from typing import Any

import msgspec

from gateway.config.model import Config
from gateway.config.trial import caller, public_prefix
from gateway.routing.question import Question, ask
from gateway.routing.table import Table


class Inquiry(msgspec.Struct, forbid_unknown_fields=True):
    """What an operator asks.

    Attributes:
        path: As a client sends it.
        tenant: The A2A `tenant` field.
        as_: The caller's tenant, proven by a token with `claim`; a stranger where neither this nor `key` is given.
        key: The name of the API key that the caller shows.
    """

    path: str
    method: str = "POST"
    tenant: str | None = None
    as_: str | None = msgspec.field(default=None, name="as")
    key: str | None = None
    host: str | None = None
    claim: dict[str, Any] = {}


def reply(config: Config, table: Table, inquiry: Inquiry, *, everything: bool = False) -> dict[str, Any]:
    """Which agent and backend answer, or the reason why none does, with every candidate explained.

    Args:
        everything: Explain every match of every agent, not only those at the endpoint.

    Raises:
        LookupError: the file has no such API key; the text is for the operator.
    """
    try:
        who = caller(config, tenant=inquiry.as_, key=inquiry.key, claims=inquiry.claim)
    except KeyError as error:
        raise LookupError(f"there is no API key {inquiry.key!r} in the configuration") from error
    question = Question(inquiry.path, inquiry.method.upper(), inquiry.host or "", inquiry.tenant, who)
    verdict = ask(table, question, prefix=public_prefix(config), everything=everything).verdict
    route, rule = verdict.route, verdict.rule
    return {
        "agent": None if route is None else route.agent,
        "backend": None if route is None else route.url,
        "reason": verdict.reason,
        "match_line": None if rule is None else str(rule.place),
        "caller": None if who is None else {"tenant": who.tenant, "method": who.method, "key": who.key},
        "candidates": [
            {"agent": each.rule.agent, "line": str(each.rule.place), "taken": each.taken, "why": each.why}
            for each in verdict.candidates
        ],
    }
