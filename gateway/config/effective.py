"""What holds for an agent: its own words, else those of `defaults`, else what is built in."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from gateway.config.address import read_listen
from gateway.config.agent import (
    DEFAULT_IDENTITY_HEADERS,
    DEFAULT_TIMEOUTS,
    USUAL_HEADERS,
    Agent,
    IdentityHeaders,
    Isolation,
    Timeouts,
    UnknownTasks,
)
from gateway.config.limit import (
    DEFAULT_CONNECTIONS,
    DEFAULT_LIMITS,
    DEFAULT_TENANT_LIMITS,
    Cards,
    Connections,
    Limits,
    TenantLimits,
)
from gateway.config.model import Config
from gateway.config.part import Part
from gateway.config.peer_tls import SYSTEM, PeerTls
from gateway.config.problem import KeyPath
from gateway.config.push import Push
from gateway.config.replica import (
    DEFAULT_AFFINITY,
    DEFAULT_BREAKER,
    DEFAULT_EJECT,
    DEFAULT_HEALTH,
    DEFAULT_RETRY,
    Affinity,
    Health,
    Retry,
)
from gateway.config.source import Marks
from gateway.config.state import StateUrl, default_state

STANDARD_OUTPUT = Path("-")
"""Stands for no file, but where the access log goes."""

_DRAIN_DELAY = 5.0

P = TypeVar("P", bound=Part)


def timeouts(config: Config, agent: Agent | None = None) -> Timeouts:
    """How long the agent, or one that says nothing of it, may take; every key is written."""
    written = [config.defaults.timeouts] if agent is None else [agent.timeouts, config.defaults.timeouts]
    return _first([*written, DEFAULT_TIMEOUTS])


def connections(config: Config, agent: Agent | None = None) -> Connections:
    """The bounds on the agent's connections and answers; every key is written."""
    written = [config.defaults.connections] if agent is None else [agent.connections, config.defaults.connections]
    return _first([*written, DEFAULT_CONNECTIONS])


def cards(config: Config, agent: Agent | None = None) -> Cards:
    """How the agent's card is read; what it does not write is that of `defaults`."""
    own = {} if agent is None else {name: getattr(agent.cards, name) for name in agent.cards.model_fields_set}
    return config.defaults.cards.model_copy(update=own)


def affinity(config: Config, agent: Agent | None = None) -> Affinity:
    """Which replica follow-ups go to; every key is written."""
    written = [config.defaults.affinity] if agent is None else [agent.affinity, config.defaults.affinity]
    return _first([*written, DEFAULT_AFFINITY])


def health(config: Config, agent: Agent | None = None) -> Health:
    """How it is found out whether the agent can be asked; every key is written but `path`, where nobody is."""
    written = [config.defaults.health] if agent is None else [agent.health, config.defaults.health]
    found = _first([*written, DEFAULT_HEALTH])
    parts = {
        "eject": _first([*(one.eject for one in written), DEFAULT_EJECT]),
        "breaker": _first([*(one.breaker for one in written), DEFAULT_BREAKER]),
    }
    return found.model_copy(update=parts)


def retry(config: Config, agent: Agent | None = None) -> Retry:
    """Which calls are sent again; every key is written."""
    written = [config.defaults.retry] if agent is None else [agent.retry, config.defaults.retry]
    return _first([*written, DEFAULT_RETRY])


def drain_delay(config: Config) -> float:
    """Seconds between not being ready and not accepting."""
    written = config.gateway.drain.delay
    if written is not None:
        return written
    # Nobody balances what only this machine can reach.
    listeners = [text for text in (config.gateway.listen, config.gateway.listen_grpc) if text is not None]
    return 0.0 if all(read_listen(text).is_loopback for text in listeners) else _DRAIN_DELAY


def isolation(config: Config, agent: Agent) -> Isolation:
    """Whose tasks a caller of the agent may touch."""
    return agent.isolation or config.defaults.isolation


def unknown_tasks(config: Config, agent: Agent) -> UnknownTasks:
    """What becomes of tasks of the agent that the gateway never saw."""
    return agent.unknown_tasks or config.defaults.unknown_tasks


def tenure(config: Config, agent: Agent) -> bool:
    """Whether the agent's tasks have owners, so that a ledger is kept of them.

    Not with `isolation: none`. And not where nobody is proven, for want of any `auth:`, unless something in the file
    asks for it: then there is nothing to protect, and a gateway that is tried out writes no file.
    """
    if isolation(config, agent) == "none":
        return False
    written = config.defaults.model_fields_set & {"isolation", "unknown_tasks"}
    if config.auth is not None or agent.isolation or agent.unknown_tasks or written:
        return True
    return any(tenant.limits.open_tasks is not None for tenant in config.tenants.values())


def keeps_state(config: Config) -> bool:
    """Whether the store is used at all, so that it has to be there.

    A Redis is used for limits too, which gateways share by it.
    """
    if config.push.mode == "relay" or any(tenure(config, agent) for agent in config.agents.values()):
        return True
    return config.gateway.state is not None and config.gateway.state.is_shared


def state(config: Config, marks: Marks, environ: Mapping[str, str], cwd: Path) -> StateUrl:
    """Where the gateway keeps what it knows of tasks; relative paths are relative to the file.

    Args:
        environ: Where STATE_DIRECTORY may be, for a file that does not say.
        cwd: The working directory, for the same.
    """
    if config.gateway.state is None:
        return default_state(environ, cwd)
    return config.gateway.state.beside(Path(marks.place(("gateway", "state")).file).parent)


def limits(config: Config, agent: Agent, tenant: str | None = None) -> Limits:
    """How much may be asked of a backend of the agent; what is None is not limited.

    Args:
        tenant: Whose `by_tenant` backend it is; None for the `backend` of an agent.
    """
    own = [] if tenant is None else [agent.by_tenant[tenant].limits]
    return _first([*own, agent.limits, config.defaults.limits, DEFAULT_LIMITS])


def tenant_limits(config: Config, tenant: str) -> TenantLimits:
    """How much a tenant may ask; what is None is not limited.

    What `tenants."*"` says is for each that is not named, for callers without a credential too.
    """
    entry = config.tenants.get(tenant, config.tenants.get("*"))
    written = [] if entry is None else [entry.limits]
    return _first([*written, DEFAULT_TENANT_LIMITS])


def identity_headers(config: Config, agent: Agent | None = None) -> IdentityHeaders:
    """The headers by which the agent, or one that says nothing of it, is told who calls.

    Every one is written, with its name; an empty name is off.
    """
    own = [] if agent is None else [agent.identity_headers]
    written = [*own, config.defaults.identity_headers, DEFAULT_IDENTITY_HEADERS]
    found = _first(written)
    claims: dict[str, str] = {}
    names: dict[str, object] = {}
    for key, usual in USUAL_HEADERS.items():
        # Who writes a name alone wants the usual value, whatever stands in `defaults`.
        said = next(part for part in written if key in part.claims or getattr(part, key) is not None)
        if key in said.claims:
            claims[key] = said.claims[key]
            own = getattr(said, key)
            names[key] = getattr(found, key) or usual if own is None else own
    return found.model_copy(update={**names, "claims": claims})


def push(config: Config) -> Push:
    """What holds for webhooks."""
    return config.push


def audit(config: Config, marks: Marks) -> Path | None:
    """The file of the audit events, `STANDARD_OUTPUT`, or None where they go into the gateway's own log."""
    written = config.observe.audit
    if written is None:
        return None
    if written.file == "-":
        return STANDARD_OUTPUT
    return Path(marks.place(("observe", "audit")).file).parent / written.file


def shown_certificate(config: Config, name: str, marks: Marks) -> tuple[Path, Path] | None:
    """The PEM files of the certificate that an agent is shown, and of its key; None for none.

    Args:
        name: The agent's.
    """
    own = config.agents[name].tls
    written = config.defaults.tls if own is None else own
    if written is None or written.cert is None or written.key is None:
        return None
    at = ("defaults", "tls") if own is None else ("agents", name, "tls")
    folder = Path(marks.place(at).file).parent
    return folder / written.cert, folder / written.key


def server_name(config: Config, name: str) -> str | None:
    """What an agent is asked for over TLS, and has to be on its certificate; None for the host of its URL.

    Args:
        name: The agent's.
    """
    own = config.agents[name].tls
    written = config.defaults.tls if own is None else own
    return None if written is None else written.server_name


def authorities(config: Config, name: str, marks: Marks) -> Path | None:
    """The PEM file with the authorities that vouch for an agent's backends, or None for those of the system.

    Args:
        name: The agent's.
    """
    own = config.agents[name].tls
    written = config.defaults.tls if own is None else own
    if written is None or written.ca == SYSTEM:
        return None
    at = ("defaults", "tls") if own is None else ("agents", name, "tls")
    return Path(marks.place(at).file).parent / written.ca


def issuer_authorities(config: Config, name: str, marks: Marks) -> Path | None:
    """The PEM file with the authorities that vouch for an issuer, or None for those of the system.

    Args:
        name: The issuer's.
    """
    written = None if config.auth is None else config.auth.issuers[name].tls
    return _authority_file(written, ("auth", "issuers", name, "tls"), marks)


def webhook_authorities(config: Config, marks: Marks) -> Path | None:
    """The PEM file with the authorities that vouch for webhooks, or None for those of the system."""
    return _authority_file(config.push.tls, ("push", "tls"), marks)


def _authority_file(written: PeerTls | None, at: KeyPath, marks: Marks) -> Path | None:
    if written is None or written.ca == SYSTEM:
        return None
    return Path(marks.place(at).file).parent / written.ca


def _first(parts: Sequence[P]) -> P:
    """The first part, with what it leaves out taken from the next ones."""
    filled: dict[str, object] = {}
    for part in reversed(parts):
        written = {name: getattr(part, name) for name in type(part).model_fields}
        filled |= {name: value for name, value in written.items() if value is not None}
    return parts[0].model_copy(update=filled)
