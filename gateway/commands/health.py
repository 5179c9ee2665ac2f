"""`a2a-gateway health` with `--url` or `-c`; `liveness.py` is the probe without options."""

from collections.abc import Mapping
from pathlib import Path

import httpx

from gateway.commands.find_agent import check_url, explain
from gateway.commands.liveness import PATH
from gateway.commands.output import CommandFailed
from gateway.config.load import load
from gateway.config.model import Admin
from gateway.network.address import read_listen

_TIMEOUT = 2.0


def health_url(path: Path, environ: Mapping[str, str]) -> str:
    """Return the URL of the admin listener of this file, or the path of its Unix socket, for probes from this machine.

    Errors elsewhere in the file are ignored: the gateway may have read an earlier version.

    Raises:
        CommandFailed: The file has no address, or port 0.
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
    if listen.path:
        return listen.path
    if listen.port == 0:
        raise CommandFailed(f"{path}: gateway.admin.listen has port 0, so the system picked one: give it with --url")
    is_tls = isinstance(admin, dict) and admin.get("tls") is not None
    return f"{'https' if is_tls else 'http'}://{listen.authority}"


def probe(url: str, *, verify: bool = True) -> None:
    """Check that the gateway is alive at a URL, or at the path of a Unix socket.

    Args:
        verify: Whether its certificate is verified. On the same machine it names another host, and a gateway whose
            certificate has expired is still alive.

    Raises:
        CommandFailed: It does not confirm that within two seconds.
    """
    transport = httpx.HTTPTransport(verify=verify, uds=url if url.startswith("/") else None)
    if url.startswith("/"):
        target = f"http://localhost{PATH}"
    else:
        check_url(url)
        target = url.rstrip("/") + PATH
    try:
        with httpx.Client(trust_env=False, timeout=_TIMEOUT, transport=transport) as client:
            answer = client.get(target)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise explain(error, target) from error
    if answer.status_code != httpx.codes.OK:
        raise CommandFailed(f"{target} answered {answer.status_code}")
