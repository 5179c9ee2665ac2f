"""The settings that hold for an agent: its own, else those of `defaults`, else what is built in.

`program` has the process of a backend that is a command, and `masked` the whole configuration for operators.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from gateway.a2a.card import parse_card
from gateway.a2a.command import CommandLine, command_of
from gateway.a2a.json import Tree
from gateway.config.agent import (
    DEFAULT_AFFINITY,
    DEFAULT_BREAKER,
    DEFAULT_EJECT,
    DEFAULT_HEALTH,
    DEFAULT_IDENTITY_HEADERS,
    DEFAULT_RETRY,
    DEFAULT_TIMEOUTS,
    USUAL_HEADERS,
    Affinity,
    Agent,
    AgentTls,
    Backend,
    CardSign,
    Defaults,
    Health,
    IdentityHeaders,
    Isolation,
    Retry,
    Stdio,
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
from gateway.config.model import Config, Tls, Tracing
from gateway.config.problem import KeyPath
from gateway.config.secrets import MASK
from gateway.config.values import SYSTEM, Part, PeerTls
from gateway.config.yaml import Marks
from gateway.network.address import Listen, read_listen
from gateway.tasks.state_url import StateUrl, default_state

STANDARD_OUTPUT = Path("-")
"""The name of standard output as a file."""

_DRAIN_DELAY = 5.0

P = TypeVar("P", bound=Part)


def timeouts(config: Config, agent: Agent | None = None) -> Timeouts:
    """Return the agent's timeouts, or those of agents without their own; every key is set."""
    return _first([one.timeouts for one in _written(config, agent)] + [DEFAULT_TIMEOUTS])


def connections(config: Config, agent: Agent | None = None) -> Connections:
    """Return the bounds on the agent's connections and answers; every key is set."""
    return _first([one.connections for one in _written(config, agent)] + [DEFAULT_CONNECTIONS])


def cards(config: Config, agent: Agent | None = None) -> Cards:
    """Return the fetch settings of the agent's card, completed by `defaults`."""
    own = {} if agent is None else {name: getattr(agent.cards, name) for name in agent.cards.model_fields_set}
    return config.defaults.cards.model_copy(update=own)


def card_sign(config: Config, agent: Agent | None = None) -> CardSign | None:
    """Return the signing of the agent's served card, or the default one; None if it is not signed."""
    own = None if agent is None or agent.card is None else agent.card.sign
    written = config.defaults.card.sign if own is None else own
    return written if written is not None and written.enabled else None


def affinity(config: Config, agent: Agent | None = None) -> Affinity:
    """Return the replica that follow-ups go to; every key is set."""
    return _first([one.affinity for one in _written(config, agent)] + [DEFAULT_AFFINITY])


def health(config: Config, agent: Agent | None = None) -> Health:
    """Return the health checks of the agent; every key but `path` is set."""
    written = [one.health for one in _written(config, agent)]
    parts = {
        "eject": _first([*(one.eject for one in written), DEFAULT_EJECT]),
        "breaker": _first([*(one.breaker for one in written), DEFAULT_BREAKER]),
    }
    return _first([*written, DEFAULT_HEALTH]).model_copy(update=parts)


def retry(config: Config, agent: Agent | None = None) -> Retry:
    """Return the retry settings; every key is set."""
    return _first([one.retry for one in _written(config, agent)] + [DEFAULT_RETRY])


def allow_insecure(config: Config, agent: Agent) -> bool:
    """Return whether plain http or grpc to other machines is accepted for the agent."""
    return config.defaults.allow_insecure if agent.allow_insecure is None else agent.allow_insecure


def drain_delay(config: Config) -> float:
    """Return the seconds between not being ready and not accepting."""
    written = config.gateway.drain.delay
    if written is not None:
        return written
    # No load balancer is in front of a loopback listener.
    grpc = config.gateway.listen_grpc
    over_grpc = () if grpc is None else (read_listen(grpc),)
    return 0.0 if all(listen.is_loopback for listen in (*listens(config), *over_grpc)) else _DRAIN_DELAY


def listens(config: Config) -> tuple[Listen, ...]:
    """Return the addresses for clients over HTTP."""
    return tuple(read_listen(text) for text in config.gateway.listen)


def isolation(config: Config, agent: Agent) -> Isolation:
    """Return the isolation of the agent's tasks."""
    return agent.isolation or config.defaults.isolation


def unknown_tasks(config: Config, agent: Agent) -> UnknownTasks:
    """Return the policy for tasks of the agent that the gateway never saw."""
    return agent.unknown_tasks or config.defaults.unknown_tasks


def keeps_owners(config: Config, agent: Agent) -> bool:
    """Return whether the agent's tasks have owners, so that a ledger is kept of them.

    They have none with `isolation: none`. They have none without `auth:`, unless another key of the file needs owners:
    then there is nothing to protect, and a gateway on trial writes no file.
    """
    if isolation(config, agent) == "none":
        return False
    written = config.defaults.model_fields_set & {"isolation", "unknown_tasks"}
    if config.auth is not None or agent.isolation or agent.unknown_tasks or written:
        return True
    return any(tenant.limits.open_tasks is not None for tenant in config.tenants.values())


def keeps_state(config: Config) -> bool:
    """Return whether the store is used, and so has to exist.

    The gateway's own keys for cards are in it. A Redis is also used for limits that gateways share.
    """
    agents = config.agents.values()
    by_skill = any(match.by_skill for agent in agents for match in agent.match)
    if config.push.mode == "relay" or by_skill or any(keeps_owners(config, agent) for agent in agents):
        return True
    signs = (card_sign(config, agent) for agent in (None, *config.agents.values()))
    if any(each is not None and each.is_made for each in signs):
        return True
    return config.gateway.state is not None and config.gateway.state.is_shared


def state(config: Config, marks: Marks, environ: Mapping[str, str], cwd: Path) -> StateUrl:
    """Return where task state is kept; relative paths are relative to the file.

    Args:
        environ: May have STATE_DIRECTORY, for a file without `state`.
        cwd: The working directory, for the same.
    """
    if config.gateway.state is None:
        return default_state(environ, cwd)
    return config.gateway.state.beside(marks.folder(("gateway", "state")))


def limits(config: Config, agent: Agent, tenant: str | None = None) -> Limits:
    """Return the limits of a backend of the agent; None is no limit.

    Args:
        tenant: The tenant of a `by_tenant` backend; None for the `backend` of an agent.
    """
    own = [] if tenant is None else [agent.by_tenant[tenant].limits]
    return _first([*own, agent.limits, config.defaults.limits, DEFAULT_LIMITS])


def tenant_limits(config: Config, tenant: str) -> TenantLimits:
    """Return the limits of a tenant; None is no limit.

    `tenants."*"` applies to each tenant that is not named, and to callers without a credential.
    """
    entry = config.tenants.get(tenant, config.tenants.get("*"))
    written = [] if entry is None else [entry.limits]
    return _first([*written, DEFAULT_TENANT_LIMITS])


def identity_headers(config: Config, agent: Agent | None = None) -> IdentityHeaders:
    """Return the identity headers for an agent.

    Every one is written, with its name; an empty name is off.
    """
    own = [] if agent is None else [agent.identity_headers]
    written = [*own, config.defaults.identity_headers, DEFAULT_IDENTITY_HEADERS]
    headers = _first(written)
    claims: dict[str, str] = {}
    names: dict[str, object] = {}
    for key, usual in USUAL_HEADERS.items():
        # A name alone has the usual value, not that of `defaults`.
        source = next(part for part in written if key in part.claims or getattr(part, key) is not None)
        if key in source.claims:
            claims[key] = source.claims[key]
            own = getattr(source, key)
            names[key] = getattr(headers, key) or usual if own is None else own
    return headers.model_copy(update={**names, "claims": claims})


def audit(config: Config, marks: Marks) -> Path | None:
    """Return the file of the audit events, `STANDARD_OUTPUT`, or None for the gateway's own log."""
    written = config.observe.audit
    if written is None:
        return None
    if written.file == "-":
        return STANDARD_OUTPUT
    return marks.folder(("observe", "audit")) / written.file


def access_log(config: Config, marks: Marks) -> Path | None:
    """Return the file of the access log; None for standard output."""
    written = config.observe.log.file
    return None if written is None else marks.folder(("observe", "log", "file")) / written


def tracing(config: Config) -> Tracing | None:
    """Return the settings of traces, or None without traces."""
    written = config.observe.tracing
    return written if written is not None and written.otlp else None


class AgentTrust(NamedTuple):
    """The TLS settings that hold for an agent.

    Attributes:
        authorities: The PEM file of the authorities for its backends, or None for those of the system.
        shown: The PEM files of the gateway's client certificate and key, or None.
        server_name: The name that its certificate must have; None for the host of its URL.
    """

    authorities: Path | None = None
    shown: tuple[Path, Path] | None = None
    server_name: str | None = None


def agent_tls(config: Config, name: str) -> tuple[AgentTls, KeyPath]:
    """Return the `tls` that holds for an agent, and its path."""
    own = config.agents[name].tls
    if own is not None:
        return own, ("agents", name, "tls")
    return AgentTls() if config.defaults.tls is None else config.defaults.tls, ("defaults", "tls")


def agent_trust(config: Config, name: str, marks: Marks) -> AgentTrust:
    """Return the TLS settings that hold for an agent."""
    written, at = agent_tls(config, name)
    shown = None
    if written.cert is not None and written.key is not None:
        shown = marks.folder(at) / written.cert, marks.folder(at) / written.key
    return AgentTrust(authorities(written, at, marks), shown, written.server_name)


def authorities(written: PeerTls | None, at: KeyPath, marks: Marks) -> Path | None:
    """Return the PEM file of the authorities of a `tls`, or None for those of the system.

    Args:
        at: Its path in the file.
    """
    return None if written is None or written.ca == SYSTEM else marks.folder(at) / written.ca


def certificates(config: Config) -> Mapping[KeyPath, str]:
    """Return the files of the gateway's own certificates as they are written, by the path of their `tls`."""
    parts: list[tuple[KeyPath, Tls | AgentTls | None]] = [
        (("gateway",), config.gateway.tls),
        (("gateway", "admin"), config.gateway.admin.tls),
        (("defaults",), config.defaults.tls),
        *((("agents", name), agent.tls) for name, agent in config.agents.items()),
    ]
    return {(*at, "tls"): tls.cert for at, tls in parts if tls is not None and tls.cert is not None}


def _written(config: Config, agent: Agent | None) -> list[Agent | Defaults]:
    """Return the value in the file, the agent's own before `defaults`."""
    return [config.defaults] if agent is None else [agent, config.defaults]


def _first(parts: Sequence[P]) -> P:
    """Return the first part, with missing values taken from the next ones."""
    filled: dict[str, object] = {}
    for part in reversed(parts):
        written = {name: getattr(part, name) for name in type(part).model_fields}
        filled |= {name: value for name, value in written.items() if value is not None}
    return parts[0].model_copy(update=filled)


# ---- commands --------------------------------------------------------------------------------------------------------


PASSED = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR")
"""Variables of the gateway's environment that every command gets; HOME not where it runs as another user."""


@dataclass(frozen=True, slots=True)
class Program:
    """The process of a backend.

    Attributes:
        folder: Its working directory.
        card: The operator's card that names it, or None.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path
    card: Tree | None


def program(backend: Backend, folder: Path, environ: Mapping[str, str]) -> Program:
    """Return the process of a backend that is a command and was checked.

    Args:
        folder: The folder of the file that it is written in.
        environ: The gateway's own environment.

    Raises:
        OSError, CardInvalid, NoCommand: the card has changed since it was checked.
    """
    here = folder.absolute()
    stdio = Stdio() if backend.stdio is None else backend.stdio
    card, line = None, CommandLine(stdio.command)
    if backend.card is not None:
        card = parse_card((here / backend.card).read_bytes())
        line = command_of(card)
    passed = [name for name in PASSED if name != "HOME" or stdio.uid is None]
    environment = {name: environ[name] for name in (*passed, *stdio.env_from) if name in environ}
    environment |= dict(line.assignments)
    environment |= {name: value.get_secret_value() for name, value in stdio.env.items()}
    return Program(line.words, environment, here if stdio.cwd is None else here / stdio.cwd, card)


# ---- the whole configuration ----------------------------------------------------------------------------------------


def masked(config: Config) -> dict[str, Any]:
    """Return the configuration in its long form, with every credential, key hash and token masked.

    Settings that an agent leaves out have their effective value: that of `defaults`, or the built-in one.
    """
    tree: dict[str, Any] = config.model_dump(mode="json", by_alias=True, exclude={"agents": {"__all__": True}})
    for name, agent in config.agents.items():
        tree["agents"][name] = agent.model_dump(mode="json", by_alias=True)
    for key in (tree.get("auth") or {}).get("api_keys", {}).values():
        # A weak key can be found from its hash.
        key["sha256"] = [MASK for _ in key["sha256"]]
    tree["gateway"]["drain"]["delay"] = drain_delay(config)
    tree["defaults"] |= _dumped(config)
    for name in config.tenants:
        tree["tenants"][name]["limits"] = tenant_limits(config, name).model_dump(mode="json")
    for name, agent in config.agents.items():
        tree["agents"][name] |= _dumped(config, agent) | {
            "allow_insecure": allow_insecure(config, agent),
            "limits": limits(config, agent).model_dump(mode="json"),
            "isolation": isolation(config, agent),
            "unknown_tasks": unknown_tasks(config, agent),
            "tls": tree["defaults"]["tls"] if agent.tls is None else tree["agents"][name]["tls"],
        }
        for tenant in agent.by_tenant:
            own = limits(config, agent, tenant).model_dump(mode="json")
            tree["agents"][name]["by_tenant"][tenant]["limits"] = own
    return tree


def _dumped(config: Config, agent: Agent | None = None) -> dict[str, Any]:
    """Return the settings that `defaults` and agents have in common, as they hold."""
    parts = {
        effective.__name__: effective(config, agent).model_dump(mode="json", by_alias=True)
        for effective in (timeouts, connections, cards, affinity, health, retry)
    }
    headers = identity_headers(config, agent)
    # As in the file: null for a header that is off, and claims only where there are some.
    names: dict[str, Any] = {key: name or None for key, name in headers.model_dump().items()}
    return parts | {"identity_headers": names | ({"claims": dict(headers.claims)} if headers.claims else {})}
