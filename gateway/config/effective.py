"""What holds for an agent: its own words, else those of `defaults`, else what is built in."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from gateway.config.address import read_authority, read_listen
from gateway.config.agent import DEFAULT_TIMEOUTS, SYSTEM, Agent, Isolation, Timeouts
from gateway.config.limit import DEFAULT_CONNECTIONS, Connections
from gateway.config.model import Config
from gateway.config.part import Part
from gateway.config.source import Marks

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


def drain_delay(config: Config) -> float:
    """Seconds between not being ready and not accepting."""
    written = config.gateway.drain.delay
    if written is not None:
        return written
    # Nobody balances what only this machine can reach.
    listeners = [text for text in (config.gateway.listen, config.gateway.listen_grpc) if text is not None]
    return 0.0 if all(read_listen(text).is_loopback for text in listeners) else _DRAIN_DELAY


def grpc_host(config: Config) -> str:
    """What clients of gRPC name as the authority, in lower case, without the port; empty where nobody knows."""
    public, listen = config.gateway.public_grpc, config.gateway.listen_grpc
    try:
        if public is not None:
            return read_authority(public)[0]
        return "" if listen is None else read_listen(listen).host.lower()
    except ValueError:
        # It is no address, which is told elsewhere.
        return ""


def isolation(config: Config, agent: Agent) -> Isolation:
    """Whose tasks a caller of the agent may touch."""
    return agent.isolation or config.defaults.isolation


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


def _first(parts: Sequence[P]) -> P:
    """The first part, with what it leaves out taken from the next ones."""
    filled: dict[str, object] = {}
    for part in reversed(parts):
        written = {name: getattr(part, name) for name in type(part).model_fields}
        filled |= {name: value for name, value in written.items() if value is not None}
    return parts[0].model_copy(update=filled)
