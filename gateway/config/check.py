"""The one entry of `check`, `serve` and a reload: read a configuration, then check its meaning."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

from gateway.config import effective
from gateway.config.agent import Agent, backends, token_endpoints
from gateway.config.checks.agents import check_agents
from gateway.config.checks.callers import check_callers
from gateway.config.checks.findings import Findings
from gateway.config.checks.gateway import check_gateway
from gateway.config.checks.literals import literal_secrets
from gateway.config.checks.routes import check_routes
from gateway.config.files import matching, stamp, stamp_of
from gateway.config.load import Examined, dress, load
from gateway.config.model import Config
from gateway.config.problem import KeyPath, in_order
from gateway.config.routes import failed_tests, routing_table
from gateway.config.values import PeerTls


def examine(
    path: Path,
    environ: Mapping[str, str],
    *,
    text: str | bytes | None = None,
    today: date | None = None,
    literals: bool = False,
) -> Examined:
    """Read a configuration in three passes: syntax, schema, meaning; mistakes are problems of the result.

    Args:
        path: The main file.
        environ: The environment for `${VAR}`.
        text: The text of the main file, if it is not to be read; `path` is its name then. Bytes are piped text, `str`
            is text that the program itself wrote.
        today: The day in UTC, for keys that expire; default today.
        literals: Whether to warn of secrets in plain text, too.
    """
    loaded = load(path, environ, text)
    findings = Findings(loaded.marks)
    config = loaded.config
    if config is not None:
        _check(config, findings, datetime.now(UTC).date() if today is None else today)
        if not config.agents:
            # Such a file is wrong, or its `include:` found too little.
            tell = findings.warning if isinstance(text, str) else findings.error
            tell(("agents",), "there is no agent", "add `agents:` with `name: { backend: https://… }`")
    problems = dress(findings.problems, loaded.sources)
    if any(problem.severity == "error" for problem in problems):
        config = None
    failed = () if config is None else failed_tests(config, routing_table(config, loaded.marks), loaded.marks)
    # Without the lines that they stand on.
    written_out = literal_secrets(loaded.tree, loaded.marks) if literals else ()
    return replace(
        loaded,
        config=config,
        problems=in_order((*loaded.problems, *problems, *written_out), [source.file for source in loaded.sources]),
        failed=dress(failed, loaded.sources),
        tree={},
        sources=(),
    )


def examine_again(examined: Examined, config: Config) -> Examined:
    """Return the same with another configuration, merged from the files and from the one that runs.

    A mistake in the merged one is an error of the whole: a listener that is open to all may keep its address while its
    guard is no longer in the file.
    """
    findings = Findings(examined.marks)
    _check(config, findings, datetime.now(UTC).date())
    errors = tuple(problem for problem in findings.problems if problem.severity == "error")
    return replace(examined, config=None if errors else config, problems=(*errors, *examined.problems))


def _check(config: Config, findings: Findings, today: date) -> None:
    check_gateway(config, findings)
    check_callers(config, findings, today)
    check_agents(config, findings)
    check_routes(config, findings)


# ---- the files of a configuration ----------------------------------------------------------------------------------


def files(examined: Examined) -> tuple[Path, ...]:
    """Return the files that were read, those that match `include:` now, certificates, authorities, cards and key sets.

    For a configuration with errors, only the files that were read.
    """
    paths = dict.fromkeys(examined.files)
    config = examined.config
    if config is None:
        return tuple(paths)
    for pattern in config.include:
        # A reload reports what is wrong.
        with suppress(OSError, ValueError):
            paths |= dict.fromkeys(matching(pattern, examined.files[0].parent))
    return tuple(paths | dict.fromkeys(named(examined).values()))


def stamped(examined: Examined) -> Examined:
    """Return the same with stamps of the files that it names, as they are before they are used.

    Its hash covers these, too: another certificate is another configuration.
    """
    beside = dict.fromkeys(named(examined).values())
    if not beside:
        return examined
    stamps = {path: stamp_of(path) for path in beside}
    text_hash = stamp(b"".join((bytes.fromhex(examined.text_hash), *stamps.values()))).hex()
    return replace(examined, stamps={**stamps, **examined.stamps}, text_hash=text_hash)


def named(examined: Examined) -> dict[KeyPath, Path]:
    """Return certificates, authorities, cards and key sets, by the key that names them; those of `defaults` once."""
    config, marks = examined.config, examined.marks
    if config is None:
        return {}
    paths: dict[KeyPath, Path | None] = {}
    tls = config.gateway.tls
    if tls is not None:
        at: KeyPath = ("gateway", "tls")
        paths |= {(*at, "cert"): marks.folder(at) / tls.cert, (*at, "key"): marks.folder(at) / tls.key}
    admin = config.gateway.admin.tls
    if admin is not None:
        at = ("gateway", "admin", "tls")
        paths |= {(*at, "cert"): marks.folder(at) / admin.cert, (*at, "key"): marks.folder(at) / admin.key}
        paths[*at, "client_ca"] = None if admin.client_ca is None else marks.folder(at) / admin.client_ca
    if config.auth is not None and config.auth.mtls is not None:
        at = ("auth", "mtls")
        paths[*at, "ca"] = marks.folder(at) / config.auth.mtls.ca
    peers: list[tuple[PeerTls | None, KeyPath]] = [(config.push.tls, ("push", "tls"))]
    if config.auth is not None:
        peers += [(issuer.tls, ("auth", "issuers", name, "tls")) for name, issuer in config.auth.issuers.items()]
    for name, agent in config.agents.items():
        peers += [(endpoint.tls, (*path, "tls")) for endpoint, path in token_endpoints(agent, ("agents", name))]
        trust, (_, at) = effective.agent_trust(config, name, marks), effective.agent_tls(config, name)
        paths[*at, "ca"] = trust.authorities
        paths[*at, "cert"], paths[*at, "key"] = trust.shown or (None, None)
        paths |= {path: marks.folder(path) / file for path, file in _card_files(agent, ("agents", name, "card"))}
        for backend, path in backends(agent, ("agents", name)):
            if backend.card is not None:
                paths[*path, "card"] = marks.folder((*path, "card")) / backend.card
    paths |= {(*at, "ca"): effective.authorities(written, at, marks) for written, at in peers}
    return {at: file for at, file in paths.items() if file is not None}


def _card_files(agent: Agent, at: KeyPath) -> Iterator[tuple[KeyPath, str]]:
    """Yield the files that `card` of an agent names, each with its path in the configuration."""
    if agent.card is None:
        return
    if agent.card.file is not None:
        yield at, agent.card.file
    if agent.card.verify is not None and not agent.card.verify.is_fetched:
        yield (*at, "verify", "keys"), agent.card.verify.keys
