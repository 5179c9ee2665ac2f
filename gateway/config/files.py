"""Every file that a configuration is made of, or is served with."""

import glob
from dataclasses import replace
from pathlib import Path

from gateway.config import effective
from gateway.config.backend import backends
from gateway.config.check import Examined
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
        names = glob.glob(pattern, root_dir=main)  # noqa: PTH207 - Path.glob takes no absolute pattern
        found |= {main / name: None for name in sorted(names)}
    return tuple(found | dict.fromkeys(_beside(examined, config)))


def stamped(examined: Examined) -> Examined:
    """The same with stamps of the files that it is served with, as they are now: before anything is made of them."""
    if examined.config is None:
        return examined
    stamps = {path: stamp_of(path) for path in _beside(examined, examined.config)}
    text_hash = examined.text_hash
    commands = [stamps[path] for path in command_cards(examined).values()]
    if commands:
        text_hash = stamp(b"".join((bytes.fromhex(text_hash), *commands))).hex()
    return replace(examined, stamps={**stamps, **examined.stamps}, text_hash=text_hash)


def command_cards(examined: Examined) -> dict[KeyPath, Path]:
    """The cards that name the commands of backends, by where they are written."""
    agents = {} if examined.config is None else examined.config.agents
    return {
        (*path, "card"): _folder(examined, (*path, "card")) / backend.card
        for name, agent in agents.items()
        for backend, path in backends(agent, ("agents", name))
        if backend.card is not None
    }


def _beside(examined: Examined, config: Config) -> tuple[Path, ...]:
    found: dict[Path, None] = {}
    if config.gateway.tls is not None:
        at = _folder(examined, ("gateway", "tls"))
        found |= {at / config.gateway.tls.cert: None, at / config.gateway.tls.key: None}
    for name, agent in config.agents.items():
        authorities = effective.authorities(config, name, examined.marks)
        if authorities is not None:
            found[authorities] = None
        found |= dict.fromkeys(effective.shown_certificate(config, name, examined.marks) or ())
        if agent.card is not None and agent.card.file is not None:
            found[_folder(examined, ("agents", name, "card")) / agent.card.file] = None
    return tuple(found | dict.fromkeys(command_cards(examined).values()))


def _folder(examined: Examined, path: KeyPath) -> Path:
    return Path(examined.marks.place(path).file).parent
