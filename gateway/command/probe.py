"""`a2a-gateway health`: asks a running gateway whether it lives, for container probes."""

from collections.abc import Mapping
from pathlib import Path

import httpx

from gateway.command.answer import CommandFailed
from gateway.command.discovery import check_url, explain
from gateway.config.address import read_listen
from gateway.config.load import load
from gateway.config.model import Admin

PATH = "/-/live"

_TIMEOUT = 2.0


def health_url(path: Path, environ: Mapping[str, str]) -> str:
    """Return the URL for probes of the gateway of this file: its admin listener, from the same machine.

    Problems elsewhere in the file do not matter: the running gateway may have read it before.

    Raises:
        CommandFailed: the file says no address, or port 0, which only the gateway itself can know.
    """
    tree = load(path, environ).tree
    if not tree:
        raise CommandFailed(f"{path} cannot be read: give the address with --url")
    gateway = tree.get("gateway")
    admin = gateway.get("admin") if isinstance(gateway, dict) else None
    written = admin.get("listen") if isinstance(admin, dict) else admin
    try:
        listen = read_listen(Admin().listen if written is None else str(written))
    except ValueError as error:
        raise CommandFailed(f"{path}: gateway.admin.listen is no address: give it with --url") from error
    if listen.port == 0:
        raise CommandFailed(f"{path}: gateway.admin.listen has port 0, so the system picked one: give it with --url")
    host = listen.host
    if listen.is_any:
        host = "::1" if ":" in host else "127.0.0.1"
    return f"http://[{host}]:{listen.port}" if ":" in host else f"http://{host}:{listen.port}"


def probe(url: str) -> None:
    """Ask the gateway at `url` whether it lives.

    Raises:
        CommandFailed: it does not say so within two seconds.
    """
    check_url(url)
    target = url.rstrip("/") + PATH
    try:
        with httpx.Client(trust_env=False, timeout=_TIMEOUT) as client:
            answer = client.get(target)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise explain(error, target) from error
    if answer.status_code != httpx.codes.OK:
        raise CommandFailed(f"{target} answered {answer.status_code}")
