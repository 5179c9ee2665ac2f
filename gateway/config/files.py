"""Every file that a configuration is made of, or is served with."""

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from gateway.config import effective
from gateway.config.backend import backends
from gateway.config.check import Examined
from gateway.config.inclusion import matching
from gateway.config.model import Config
from gateway.config.problem import KeyPath
from gateway.config.stamp import stamp, stamp_of


def files(examined: Examined) -> tuple[Path, ...]:
    """The files that were read, those that its patterns match by now, certificates, authorities and written cards.

    One that has errors is made of what was read of it.
    """
    found = dict.fromkeys(examined.files)
    config = examined.config
    if config is None:
        return tuple(found)
    main = examined.files[0].parent
    for pattern in config.include:
        # Whoever reads them is told what is wrong.
        with suppress(OSError, ValueError):
            found |= dict.fromkeys(matching(pattern, main))
    return tuple(found | dict.fromkeys(_beside(examined)))


def stamped(examined: Examined) -> Examined:
    """The same with stamps of the files that it is served with, as they are now: before anything is made of them.

    Its hash is over those, too: a certificate that is another is another configuration.
    """
    if examined.config is None:
        return examined
    stamps = {path: stamp_of(path) for path in _beside(examined)}
    text_hash = examined.text_hash
    if stamps:
        text_hash = stamp(b"".join((bytes.fromhex(text_hash), *stamps.values()))).hex()
    return replace(examined, stamps={**stamps, **examined.stamps}, text_hash=text_hash)


def named(examined: Examined) -> dict[KeyPath, Path]:
    """Certificates, authorities and written cards, by where they are written; one of the defaults once."""
    config = examined.config
    if config is None:
        return {}
    found: dict[KeyPath, Path] = {}
    if config.gateway.tls is not None:
        at: KeyPath = ("gateway", "tls")
        folder = _folder(examined, at)
        found |= {(*at, "cert"): folder / config.gateway.tls.cert, (*at, "key"): folder / config.gateway.tls.key}
    if config.auth is not None and config.auth.mtls is not None:
        at = ("auth", "mtls")
        found[*at, "ca"] = _folder(examined, at) / config.auth.mtls.ca
    found |= _authorities(examined, config)
    for name, agent in config.agents.items():
        at = ("defaults", "tls") if agent.tls is None else ("agents", name, "tls")
        authorities = effective.authorities(config, name, examined.marks)
        if authorities is not None:
            found[*at, "ca"] = authorities
        shown = effective.shown_certificate(config, name, examined.marks)
        if shown is not None:
            found[*at, "cert"], found[*at, "key"] = shown
        if agent.card is not None and agent.card.file is not None:
            at = ("agents", name, "card")
            found[at] = _folder(examined, at) / agent.card.file
        for backend, path in backends(agent, ("agents", name)):
            if backend.card is not None:
                at = (*path, "card")
                found[at] = _folder(examined, at) / backend.card
    return found


def _authorities(examined: Examined, config: Config) -> dict[KeyPath, Path]:
    """Those that vouch for issuers and webhooks."""
    issuers = () if config.auth is None else config.auth.issuers
    found: dict[KeyPath, Path | None] = {
        ("auth", "issuers", name, "tls", "ca"): effective.issuer_authorities(config, name, examined.marks)
        for name in issuers
    }
    found["push", "tls", "ca"] = effective.webhook_authorities(config, examined.marks)
    return {at: file for at, file in found.items() if file is not None}


def _beside(examined: Examined) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(named(examined).values()))


def _folder(examined: Examined, path: KeyPath) -> Path:
    return Path(examined.marks.place(path).file).parent
