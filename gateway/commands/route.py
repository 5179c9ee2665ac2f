"""`a2a-gateway route`: the agent that a request would reach, and why."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jwt
import msgspec

from gateway.a2a.card import CardInvalid, parse_card
from gateway.a2a.fault import Fault
from gateway.a2a.sanitized_card import Discretion, SanitizedCard, sanitize
from gateway.catalog.directory import AgentListing, Directory
from gateway.catalog.ranking import Changes, FirstByte
from gateway.commands.output import CommandFailed, paint
from gateway.config.agent import Agent
from gateway.config.load import Examined
from gateway.config.model import Config
from gateway.config.routes import explain_request, routing_table
from gateway.identity.jwt import tenant_of
from gateway.routing.explain import Inquiry
from gateway.routing.route import backend_key
from gateway.routing.table import Table

_UNREAD = "only the gateway that runs reads it: ask by `POST /-/route`"


def explain_route(examined: Examined, inquiry: Inquiry, *, everything: bool = False) -> dict[str, Any]:
    """Return the answer of the routing table of a configuration.

    Args:
        examined: A configuration without errors.
        everything: Explain every match of every agent, not only those at the endpoint.

    Raises:
        CommandFailed: There is no such caller.
    """
    assert examined.config is not None
    resolver = routing_table(examined.config, examined.marks)
    try:
        return explain_request(
            examined.config, resolver, inquiry, everything=everything, ranking=_directory(examined, resolver)
        )
    except LookupError as error:
        raise CommandFailed(str(error.args[0]), code=2) from error


@dataclass(frozen=True, slots=True)
class _Card:
    """The card of an agent, where the configuration names a file with it."""

    sanitized: SanitizedCard | None
    stale: bool = False
    personal: bool = False
    version: int = 1
    is_settled: bool = True
    error: str | None = None


def _directory(examined: Examined, resolver: Table) -> Directory:
    """Return the skills of cards in files; no card is fetched, and health is unknown."""
    config, changes = examined.config, Changes()
    assert config is not None
    listings = []
    for name, agent in config.agents.items():
        card = _card(examined, name, agent)
        for tenant in (*((None,) if agent.backend else ()), *agent.by_tenant):
            key = backend_key(name, tenant)
            listings.append(AgentListing(name, key, card, FirstByte(changes), agent.trust, agent.latency))
    return Directory(resolver, listings, changes)


def _card(examined: Examined, name: str, agent: Agent) -> _Card:
    if agent.card is None or agent.card.file is None:
        return _Card(None, error=_UNREAD)
    file = Path(examined.marks.place(("agents", name, "card")).file).parent / agent.card.file
    try:
        return _Card(sanitize(parse_card(file.read_bytes()), Discretion(overrides=agent.card.set, name=name)))
    except (OSError, CardInvalid) as error:
        return _Card(None, error=str(error))


def as_text(answer: dict[str, Any]) -> str:
    """Return the answer for people: HTTP status, the agent and its backend or the reason, and each candidate."""
    status = paint(str(answer["status"]), "green" if answer["agent"] is not None else "red")
    if answer["agent"] is not None:
        lines = [f"{status} {answer['agent']} at {answer['backend']}", f"  by {answer['match_line']}"]
    else:
        lines = [f"{status} {answer['reason'] or 'no agent'}"]
    if answer["hint"]:
        lines.append(f"  → {answer['hint']}")
    lines += [
        f"  {'taken' if each['taken'] else 'not taken'}: {each['agent']} ({each['line']}): {each['why']}"
        for each in answer["candidates"]
    ]
    return "\n".join(lines) + "\n"


def read_claims(pairs: list[str]) -> dict[str, Any]:
    """Return claims written as `name=value`; the value is JSON if possible, else text.

    Raises:
        CommandFailed: a pair has no `=`.
    """
    claims: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not name or not equals:
            raise CommandFailed(f"{pair!r} is not a claim: write name=value", code=2)
        try:
            claims[name] = msgspec.json.decode(value)
        except ValueError:
            claims[name] = value
    return claims


# ---- a recorded request, and a real credential -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Recorded:
    """The parts of a recorded HTTP request that routing uses.

    Attributes:
        credential: The bearer token or API key, or None.
        tenant: The A2A `tenant` field of the body, or None.
    """

    method: str
    path: str
    host: str | None
    credential: str | None
    tenant: str | None


def read_request(text: bytes) -> Recorded:
    """Read a request as HTTP/1.1 writes it: request line, header fields, an empty line, the body (RFC 9112 §2.1).

    Raises:
        CommandFailed: it is not such a text.
    """
    head, _, body = text.replace(b"\r\n", b"\n").lstrip(b"\n").partition(b"\n\n")
    first, *lines = head.decode("latin-1").split("\n")
    words = first.split()
    fields = {
        name.strip().lower(): value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon
    }
    if len(words) not in (2, 3) or len(fields) != len([line for line in lines if line.strip()]):
        raise CommandFailed(
            "the request is not one of HTTP/1.1: write METHOD PATH, header fields, an empty line, body", code=2
        )
    scheme, _, token = fields.get("authorization", "").partition(" ")
    return Recorded(
        words[0],
        words[1],
        fields.get("host"),
        fields.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else None),
        _tenant_field(body),
    )


def _tenant_field(body: bytes) -> str | None:
    if not body.strip():
        return None
    try:
        tree = msgspec.json.decode(body)
    except ValueError as error:
        raise CommandFailed(f"the body of the request is no JSON, correct it: {error}", code=2) from error
    params = tree.get("params", tree) if isinstance(tree, dict) else None
    tenant = params.get("tenant") if isinstance(params, dict) else None
    return tenant if isinstance(tenant, str) else None


def read_credential(config: Config, text: str) -> dict[str, Any]:
    """Return the members of an inquiry for the caller that shows an API key or a token.

    The signature of a token is not checked: that takes the keys of its issuer.

    Raises:
        CommandFailed: No gateway with this configuration accepts it.
    """
    auth = config.auth
    digest = hashlib.sha256(text.encode()).hexdigest()
    for name, key in auth.api_keys.items() if auth is not None else ():
        if digest in key.sha256:
            return {"key": name}
    try:
        claims = jwt.decode(text, options={"verify_signature": False})
    except jwt.PyJWTError as error:
        raise CommandFailed(
            f"give another credential: this is neither an API key of the file nor a token: {error}",
            code=2,
        ) from error
    iss = str(claims.get("iss", ""))
    issuer = next((one for one in (auth.issuers.values() if auth is not None else ()) if one.issuer == iss), None)
    if issuer is None:
        raise CommandFailed(
            f"the token is of the issuer {iss!r}, which is not in `auth.issuers`: add it, or use another token",
            code=2,
        )
    try:
        return {"as_": tenant_of(issuer.as_settings(), claims, config.tenants), "claim": claims}
    except Fault as fault:
        raise CommandFailed(f"{fault.message}: {fault.detail}", code=2) from fault
