"""`a2a-gateway stdio`: connect a host on stdio, such as an editor, with an agent behind HTTP or gRPC.

It is a gateway with one agent and without a listener: the host's frames take the pipeline (`proxy/pipeline.py`) like
requests, and are translated between versions and bindings. The credential is for the agent, or for the gateway in
front of it.
"""

import asyncio
import logging
import os
import shlex
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO
from urllib.parse import quote, urlsplit

import msgspec
import uvloop

from gateway import __version__
from gateway.a2a.bindings.jsonrpc import METHODS
from gateway.a2a.card import is_clean_path, spoken
from gateway.a2a.fault import (
    EXTENDED_AGENT_CARD_NOT_CONFIGURED,
    METHOD_NOT_FOUND,
    UNSUPPORTED_OPERATION,
    Draining,
    Fault,
)
from gateway.a2a.framing.lsp import BadFrame, Framing
from gateway.a2a.operation import Operation
from gateway.a2a.paths import fits_path
from gateway.background import Background
from gateway.cards.serve import PublicUrl
from gateway.commands.config_file import examine_own
from gateway.commands.find_agent import SHOW_ONE, WELL_KNOWN, FoundAgent, credential, find_agent, open_client
from gateway.commands.output import CommandFailed
from gateway.config import effective
from gateway.config.load import Examined
from gateway.config.routes import routing_table
from gateway.listener.stdio import Pipes, StdioClient
from gateway.network.address import is_grpc
from gateway.proxy.pipeline import Pipeline
from gateway.push.ssrf import Resolver, WebhookPolicy
from gateway.push.webhooks import Webhooks
from gateway.snapshot import Snapshot
from gateway.telemetry import log
from gateway.telemetry.access_log import AccessLog
from gateway.telemetry.metrics import GatewayMetrics

GRACE = 30.0
"""Seconds for calls that are open at the end of the host's input."""
_LAST_WORDS = 1.0
_NAME = "agent"
_PUBLIC = "http://stdio.invalid"
"""The public URL of this gateway, which has no listener."""
_SECRET = "CREDENTIAL"  # noqa: S105 - the name of it
_CARD_METHODS = tuple(name for name, (operation, _) in METHODS.items() if operation is Operation.GET_EXTENDED_CARD)
# Codes of agents without an extended card (1.0 §5.4).
_NO_EXTENDED_CARD = (EXTENDED_AGENT_CARD_NOT_CONFIGURED.code, UNSUPPORTED_OPERATION.code, METHOD_NOT_FOUND.code)
# Other interfaces and their credentials are of no use to a host on stdio.
_LEFT_OUT = ("additionalInterfaces", "securitySchemes", "security", "securityRequirements", "signatures")

_ENDING = (signal.SIGTERM, signal.SIGINT)

logger = logging.getLogger("gateway.commands.stdio")


@dataclass(frozen=True, slots=True)
class Bridge:
    """The agent and the way to call it.

    Attributes:
        backend: The origin of the command line, which is the only one that is called, with a path if that of the card
            differs (`served_path`); the whole URL of an agent behind gRPC.
        card: URL of its card, or None to ask over gRPC.
        headers: The header of the credential, if any.
        tenant: The A2A `tenant` field, instead of that of the card.
    """

    backend: str
    card: str | None
    headers: Mapping[str, str] = field(repr=False)
    tenant: str | None = None

    def examined(self) -> Examined:
        """Return the equivalent configuration.

        Raises:
            CommandFailed: It is invalid.
        """
        # The user has typed the URL: plain http is accepted, as by `send`.
        agent: dict[str, object] = {"backend": {"url": self.backend, "allow_insecure": True}, "isolation": "none"}
        agent["identity_headers"] = {"tenant": None, "subject": None}
        agent["connections"] = {"max": 1_000, "queue": 1_000}
        if self.card is not None:
            agent["card"] = {"url": self.card}
        if self.headers:
            # The text of the configuration, which problems quote, must not hold the credential.
            agent["upstream_auth"] = {"header": dict.fromkeys(self.headers, f"${{{_SECRET}}}")}
        if self.tenant is not None:
            agent["upstream_tenant"] = self.tenant
        tree = {"version": 1, "gateway": {"listen": "127.0.0.1:0"}, "agents": {_NAME: agent}}
        environ = dict(zip((_SECRET,), self.headers.values(), strict=False))
        return examine_own(msgspec.json.encode(tree).decode(), "stdio", environ)


def bridge(agent: str, *, key: str | None = None, token: str | None = None, tenant: str | None = None) -> Bridge:
    """Find the agent at a URL.

    Raises:
        CommandFailed: There is none, or it cannot be called.
    """
    headers = credential(key, token)
    if is_grpc(agent):
        return Bridge(agent, None, headers, tenant)
    with open_client(headers) as client:
        found = find_agent(client, agent, shown=bool(headers), tenant=tenant)
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(found.url))
    return Bridge(origin + served_path(found), found.url, headers, tenant)


def served_path(found: FoundAgent) -> str:
    """Return the agent's path at the typed origin if its card has it behind a prefix; else an empty text.

    A gateway with `prefix_stripped` advertises `https://public/PREFIX/agent` and serves `/agent` behind the proxy.
    The sign is a card of another origin whose path, without its beginning, is the typed one.
    """
    typed = urlsplit(found.url)
    base = next((typed.path.removesuffix(name) for name in WELL_KNOWN if typed.path.endswith(name)), "")
    segments = _segments(base)
    if not segments:
        return ""
    for interface in spoken(found.card):
        try:
            offered = urlsplit(interface.url)
        except ValueError:
            continue
        advertised = _segments(offered.path) if is_clean_path(offered.path) else []
        if (offered.scheme, offered.netloc) == (typed.scheme, typed.netloc) or _is_prefix(advertised, segments):
            continue
        for start in range(1, len(advertised)):
            if _is_prefix(advertised[start:], segments):
                return "/" + "/".join(advertised[start:])
    return ""


def _segments(path: str) -> list[str]:
    return [segment for segment in path.split("/") if segment]


def _is_prefix(one: list[str], other: list[str]) -> bool:
    """Return whether one path begins with the other: a tenant or an interface's own path may follow."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def address(examined: Examined, name: str, tenant: str | None = None) -> str:
    """Return the URL of an agent at the gateway that serves the configuration.

    Args:
        tenant: The tenant, for an agent with a backend per tenant.

    Raises:
        CommandFailed: There is no such agent, or the configuration does not say where its gateway is.
    """
    config = examined.config
    assert config is not None
    agents = routing_table(config, examined.marks).agents
    if name not in agents:
        raise CommandFailed(f"there is no agent {name!r} in the configuration; it has {', '.join(sorted(agents))}")
    rules = [rule for rule in agents[name].rules if not (rule.host or "").startswith("*")]
    if not rules:
        raise CommandFailed(f"{name!r} is found at any host of a pattern: give its URL")
    url = config.gateway.public_url
    if url is None:
        listen = next(each for each in effective.listens(config) if not each.path)
        if listen.port == 0:
            raise CommandFailed("gateway.listen has port 0, so the system picks one: give the agent's URL")
        url = f"{'http' if config.gateway.tls is None else 'https'}://{listen.authority}"
    found = PublicUrl.parse(url).at(rules[0].host, rules[0].path).rstrip("/")
    # Its card is below the tenant that picks it.
    named = rules[0].tenant or (tenant if agents[name].by_tenant else None)
    if named is None:
        return found
    quoted = quote(named, safe="")
    return f"{found}/{quoted}" if fits_path(named) else f"{found}{WELL_KNOWN[0]}?tenant={quoted}"


def run(found: Bridge, framing: Framing) -> int:
    """Serve the host on standard input and output until it or a signal ends this; return the exit code.

    Raises:
        CommandFailed: The agent has no card that can be used.
    """
    log.configure("text", "warning")
    # Standard output is for frames only; other output goes to standard error.
    target = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return uvloop.run(Session(found.examined(), sys.stderr.buffer).run(sys.stdin.fileno(), target, framing))


class Session:
    """The session of one host."""

    def __init__(self, examined: Examined, access_stream: BinaryIO) -> None:
        self._examined = examined
        self._access_stream = access_stream
        self._stop = asyncio.Event()
        self._code = 0

    async def run(self, source: int, target: int, framing: Framing) -> int:
        """Serve the host; return the exit code.

        Raises:
            CommandFailed: As `run`.
        """
        loop = asyncio.get_running_loop()
        for number in _ENDING:
            loop.add_signal_handler(number, self._stop.set)
        background, access, resolver = Background(), AccessLog(self._access_stream, form="text"), Resolver()
        webhooks = Webhooks(WebhookPolicy(resolve=resolver))
        snapshot = Snapshot.build(self._examined, GatewayMetrics(__version__), _PUBLIC, webhooks=webhooks)
        try:
            snapshot.open(background)
            await _wait_for_any(snapshot.backends[_NAME].source.settled, self._stop)
            if not self._stop.is_set():
                _check_card(snapshot)
                pipeline = Pipeline(lambda: snapshot, access, lambda *_: None)
                await self._serve(pipeline, snapshot, background, source=source, target=target, framing=framing)
        finally:
            for number in _ENDING:
                loop.remove_signal_handler(number)
            await background.aclose()
            await snapshot.aclose()
            resolver.close()
            await asyncio.to_thread(access.close)
        return self._code

    async def _serve(
        self,
        pipeline: Pipeline,
        snapshot: Snapshot,
        background: Background,
        *,
        source: int,
        target: int,
        framing: Framing,
    ) -> None:
        def broke() -> None:
            client.leave()
            self._stop.set()

        command = command_line(self._examined, framing)
        rewrites = {method: partial(_own_card, snapshot, command) for method in _CARD_METHODS}
        pipes = Pipes(source, target, broke)
        client = StdioClient(pipes, pipeline.serve, path=f"/{_NAME}".encode(), framing=framing, rewrites=rewrites)
        ended = asyncio.Event()

        async def read() -> None:
            try:
                await client.run(background)
            except BadFrame as error:
                logger.error("the host sent an invalid frame: %s", error)  # noqa: TRY400 - nothing of ours failed
                self._code = 1
            # Answer the calls that have arrived.
            await client.ended(GRACE)
            ended.set()

        background.start("host", read)
        await _wait_for_any(ended, self._stop)
        pipeline.interrupt(lambda: Draining("the gateway is shutting down", retry_after=1.0))
        await client.ended(_LAST_WORDS)
        await pipes.flushed(_LAST_WORDS)
        pipes.close()


async def _wait_for_any(*events: asyncio.Event) -> None:
    """Wait until one of them is set."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()


def _check_card(snapshot: Snapshot) -> None:
    """Check that the way to call the agent is known.

    Raises:
        CommandFailed: It has no card, which alone says how to call it.
    """
    backend = snapshot.backends[_NAME]
    card = backend.source.card
    if card is None:
        if is_grpc(backend.url):
            # The dialect of the client is assumed then.
            return
        raise CommandFailed(f"{backend.url}: the agent's card cannot be read: {backend.source.error}")
    if (card.get("security") or card.get("securityRequirements")) and not backend.upstream.treatment.credentials:
        logger.warning("the agent requires a credential. %s", SHOW_ONE)


def command_line(examined: Examined, framing: Framing) -> str:
    """Return the command line of this bridge; its credential is in A2A_KEY or A2A_TOKEN."""
    assert examined.config is not None
    agent = examined.config.agents[_NAME]
    url = agent.backend[0].url if agent.card is None or agent.card.url is None else agent.card.url
    for path in WELL_KNOWN:
        url = url.removesuffix(path)
    words = [os.environ.get("A2A_GATEWAY_PROGRAM") or "a2a-gateway", "stdio", "--agent", url]
    words += [] if agent.upstream_tenant is None else ["--tenant", agent.upstream_tenant]
    words += [] if framing is Framing.LSP else ["--framing", framing.value]
    return shlex.join(words)


async def _own_card(snapshot: Snapshot, command: str, body: bytes) -> bytes:
    """Return the answer to a request for the extended card, with this program as the only interface.

    An agent without one gets its public card returned, because stdio has no other way to read it.

    Args:
        command: The command line of this bridge.
    """
    answer = _members.decode(body)
    error = msgspec.json.decode(answer.get("error", b"null"))
    if isinstance(error, dict) and error.get("code") in _NO_EXTENDED_CARD:
        # If that fails, the agent's own error is returned.
        with suppress(Fault):
            rule = snapshot.table.agents[_NAME].rules[0]
            answer["result"] = msgspec.Raw(snapshot.backends[_NAME].cards.card(rule, None, "").body)
            del answer["error"]
    if "result" not in answer:
        return body
    card = _members.decode(answer["result"])
    for name in _LEFT_OUT:
        card.pop(name, None)
    interfaces = [
        {"url": command, "protocolBinding": "stdio", "protocolVersion": version} for version in ("1.0", "0.3")
    ]
    own = {"supportedInterfaces": interfaces, "url": command, "preferredTransport": "stdio", "protocolVersion": "0.3.0"}
    # The bridge itself serves it.
    capabilities = {**_members.decode(card.get("capabilities", b"{}")), "extendedAgentCard": True}
    extended = {**card, **own, "capabilities": capabilities, "supportsAuthenticatedExtendedCard": True}
    return msgspec.json.encode({**answer, "result": extended})


_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
