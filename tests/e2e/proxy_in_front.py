"""nginx, HAProxy and Envoy in front of a gateway, with the files of `deploy/`."""

import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import trustme

from benchmarks.edge import envoy
from tests.e2e.process import ROOT, Lines
from tests.support.assembly import certified

WAIT = 30.0
"""Seconds within which a proxy ends."""

_NGINX = """\
daemon off;
pid {folder}/nginx.pid;
error_log stderr notice;
events {{ }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {file};
}}
"""
"""Changes that let the system's nginx.conf load the file of `deploy/` and use nothing outside a folder."""

PROGRAMS = {
    name: shutil.which(name, path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin") for name in ("nginx", "haproxy")
} | {"envoy": envoy.binary()}
"""The path of each proxy; None where it is not installed."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Of this machine, free and kept so: of the proxy, and of the gateway behind it.

    Attributes:
        public: Where clients find the proxy.
        http: `gateway.listen`.
        grpc: `gateway.listen_grpc`.
    """

    public: int
    http: int
    grpc: int


@contextmanager
def reserved_ports() -> Iterator[Ports]:
    """Ports that the system picks for nobody else until the end of the block."""
    with ExitStack() as stack:
        found = []
        for _ in range(3):
            holder = stack.enter_context(socket.socket())
            # Another socket with the same option, as servers have, may listen there nevertheless.
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind(("127.0.0.1", 0))
            found.append(holder.getsockname()[1])
        yield Ports(*found)


@dataclass(frozen=True, slots=True)
class Front:
    """A proxy that runs.

    Attributes:
        authority: The authority of its certificate.
        log: Its output.
    """

    ports: Ports
    authority: trustme.CA
    log: Lines

    @property
    def url(self) -> str:
        return f"https://{self.address}"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.ports.public}"

    @property
    def trust(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        return context


@contextmanager
def in_front(name: str, ports: Ports, folder: Path, more: Mapping[str, str] = MappingProxyType({})) -> Iterator[Front]:
    """The proxy with its file of `deploy/`, until the end of the block; little but addresses is changed in it.

    Args:
        more: Further changes.
    """
    place = folder / name
    place.mkdir()
    # The workers of nginx, which is started by root, are nobody.
    place.chmod(0o755)
    authority = certified(place)
    chain, key = place / "tls/chain.pem", place / "tls/key.pem"
    both = place / "tls/all.pem"
    both.write_bytes(chain.read_bytes() + key.read_bytes())
    changes = {
        "127.0.0.1:8080": f"127.0.0.1:{ports.http}",
        "127.0.0.1:8081": f"127.0.0.1:{ports.grpc}",
        **more,
    }
    program = PROGRAMS[name]
    assert program is not None
    if name == "nginx":
        changes |= {
            "listen 443 ssl": f"listen 127.0.0.1:{ports.public} ssl",
            "server_name agents.example.com": "server_name 127.0.0.1",
            "/etc/ssl/a2a-gateway/chain.pem": str(chain),
            "/etc/ssl/a2a-gateway/key.pem": str(key),
        }
        file = _rendered("nginx.conf", changes, place)
        main = place / "main.conf"
        main.write_text(_NGINX.format(folder=place, file=file))
        command, ready = [program, "-c", str(main), "-e", "stderr"], "start worker process "
    elif name == "haproxy":
        changes |= {
            "bind :443 ": f"bind 127.0.0.1:{ports.public} ",
            "check port 8080 ": f"check port {ports.http} ",
            # On a busy machine the gateway may take longer than that to say that it is ready, and would get no call.
            "inter 2s": "inter 60s",
            "/etc/ssl/a2a-gateway/all.pem": str(both),
        }
        command, ready = [program, "-W", "-db", "-f", str(_rendered("haproxy.cfg", changes, place))], "Loading success"
    else:
        changes |= {
            "address: 0.0.0.0, port_value: 443 ": f"address: 127.0.0.1, port_value: {ports.public} ",
            "port_value: 8080 ": f"port_value: {ports.http} ",
            "port_value: 8081 ": f"port_value: {ports.grpc} ",
            "/etc/ssl/a2a-gateway/chain.pem": str(chain),
            "/etc/ssl/a2a-gateway/key.pem": str(key),
        }
        file = _rendered("envoy.yaml", changes, place)
        # The default log level does not say when its worker accepts connections.
        options = ["--concurrency", "1", "--disable-hot-restart", "--component-log-level", "main:debug"]
        command, ready = [program, "-c", str(file), *options], "worker entering dispatch loop"
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    log = Lines(process.stderr)
    try:
        log.find(lambda line: ready in line)
        yield Front(ports, authority, log)
    finally:
        process.terminate()
        process.wait(WAIT)
        log.close()


def _rendered(name: str, changes: Mapping[str, str], folder: Path) -> Path:
    text = (ROOT / "deploy" / name).read_text()
    for shipped, own in changes.items():
        assert shipped in text, f"deploy/{name} has no {shipped!r}"
        text = text.replace(shipped, own)
    file = folder / name
    file.write_text(text)
    return file
