"""What a configuration names and the gateway opens when it starts: the ledger, the audit log, certificates."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from gateway.config import effective
from gateway.config.certificate import CertificateUnusable, ServerTls, ask, read_authorities
from gateway.config.client import Mtls
from gateway.config.model import Config, Tls
from gateway.config.problem import KeyPath, Problem
from gateway.config.state import StateUrl
from gateway.config.yaml import Marks
from gateway.listener.server import ListenFailed, server_tls
from gateway.listener.tls import PemTls
from gateway.policy.shared import SharedRates
from gateway.tasks import opening
from gateway.tasks.counted import counted
from gateway.tasks.ledger import Ledger
from gateway.tasks.store import Bounds, Store, StoreBroken
from gateway.telemetry.audit import AuditLog


class StartFailed(Exception):  # noqa: N818 - told to the operator as it is
    """What the configuration names cannot be used; the text says where it is written and why."""


async def open_ledger(
    config: Config,
    marks: Marks,
    counts: Callable[[str], dict[str, float]],
    *,
    state: StateUrl | None = None,
) -> tuple[Ledger | None, SharedRates | None]:
    """The ledger, where the configuration asks for one, and how requests are counted together where it is shared.

    Args:
        counts: Gives, for an operation, what is counted of it by what came of it.
        state: Where it is kept, instead of where the configuration says.

    Raises:
        StartFailed: its store can never work as it is written.
    """
    if not effective.keeps_state(config):
        return None, None
    place = state or effective.state(config, marks, os.environ, Path.cwd())
    kept = config.gateway.ledger
    bounds = Bounds(ended=int(kept.ended), open=int(kept.open), tasks=kept.tasks, contexts=kept.contexts)
    try:
        if place.kind == "sqlite" and state is None and config.gateway.state is None:
            # Nobody was asked to make the default directory.
            with suppress(OSError):
                place.path.parent.mkdir(mode=0o700, exist_ok=True)
        store = opening.make(place)
        ledger = Ledger(counted(store, counts), bounds)
        try:
            await ledger.open()
        except BaseException:
            await ledger.aclose()
            raise
    except StoreBroken as error:
        raise StartFailed(f"{marks.place(('gateway', 'state'))}: {error}") from error
    return ledger, _shared_rates(store) if place.is_shared else None


def open_audit(config: Config, marks: Marks, output: BinaryIO) -> AuditLog:
    """The audit log.

    Args:
        output: What is standard output here; several processes take turns at theirs.

    Raises:
        StartFailed: its file cannot be written.
    """
    path = effective.audit(config, marks)
    if path == effective.STANDARD_OUTPUT:
        return AuditLog(output)
    try:
        return AuditLog.open(path)
    except OSError as error:
        at: KeyPath = ("observe", "audit")
        fact = f"the audit log {path} cannot be written: {error.strerror}"
        remedy = "let the gateway write there, or name a file where it may; - is standard output"
        raise StartFailed(Problem(marks.place(at), at, fact, remedy).as_text()) from error


def open_tls(written: Tls, marks: Marks, clients: Mtls | None = None) -> ServerTls:
    """The certificate that the configuration names, and those of clients that it asks for.

    Raises:
        ListenFailed: it cannot be used, or what they are verified by cannot.
    """
    folder = Path(marks.place(("gateway", "tls")).file).parent
    context = server_tls(folder / written.cert, folder / written.key)
    if clients is not None:
        file = Path(marks.place(("auth", "mtls")).file).parent / clients.ca
        try:
            ask(context, read_authorities(file), required=clients.require)
        except CertificateUnusable as error:
            raise ListenFailed(f"cannot verify clients by {file}: it {error.fact}") from error
    return context


def open_grpc_tls(written: Tls, marks: Marks, clients: Mtls | None = None) -> PemTls:
    """The same for gRPC clients, as grpc-core reads it.

    Raises:
        ListenFailed: as `open_tls`.
    """
    trusted = open_tls(written, marks, clients).authorities
    folder = Path(marks.place(("gateway", "tls")).file).parent
    try:
        chain, key = (folder / written.cert).read_bytes(), (folder / written.key).read_bytes()
        if clients is None:
            return PemTls(chain, key)
        file = Path(marks.place(("auth", "mtls")).file).parent / clients.ca
        return PemTls(chain, key, read_authorities(file).pem.encode("ascii"), trusted)
    except (OSError, CertificateUnusable) as error:
        raise ListenFailed(f"cannot read certificates: {error}") from error


def asked_of_clients(config: Config) -> Mtls | None:
    """How clients are asked for certificates; None where they are not."""
    return None if config.auth is None else config.auth.mtls


def _shared_rates(store: Store) -> SharedRates | None:
    """How requests are counted together with other gateways: through the Redis that keeps the ledger, too."""
    from gateway.tasks.redis import RedisStore  # noqa: PLC0415 - only those who have one pay for it

    return SharedRates(store.client, store.client.address.named) if isinstance(store, RedisStore) else None
