"""Every file that a configuration is made of, or is served with."""

import glob
from pathlib import Path

from gateway.config import effective
from gateway.config.check import Examined
from gateway.config.problem import KeyPath


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
    return tuple(found)


def _folder(examined: Examined, path: KeyPath) -> Path:
    return Path(examined.marks.place(path).file).parent
