"""nginx: as the cheapest agent there is, and as a plain proxy."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.edge.process import Process, started

_ENDLESS = 1_000_000_000


def binary() -> str | None:
    """Return the path of nginx, or None; Debian has it outside of the PATH of ordinary users."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")


@contextmanager
def fixed_agent(folder: Path, port: int, answer: bytes) -> Iterator[Process]:
    """Answer every request with the same JSON."""
    assert b"'" not in answer
    location = f"default_type application/json; return 200 '{answer.decode()}';"
    server = f"access_log off; location / {{ {location} }} location /.well-known/ {{ return 404; }}"
    with _running("agent", folder, port, server) as process:
        yield process


@contextmanager
def plain_proxy(folder: Path, port: int, agent: int) -> Iterator[Process]:
    """Pass everything on to `agent` over connections that are kept; nothing is checked."""
    upstream = f"upstream agent {{ server 127.0.0.1:{agent}; keepalive 256; keepalive_requests {_ENDLESS}; }}"
    location = (
        "proxy_pass http://agent; proxy_http_version 1.1; proxy_set_header Connection ''; "
        "proxy_buffering off; proxy_read_timeout 600s; proxy_send_timeout 600s;"
    )
    log = f"access_log {folder}/nginx.log combined buffer=64k flush=5s;"
    with _running("nginx", folder, port, f"{log} location / {{ {location} }}", upstream) as process:
        yield process


@contextmanager
def _running(name: str, folder: Path, port: int, server: str, more: str = "") -> Iterator[Process]:
    found = binary()
    assert found is not None
    home = folder / f"{name}.d"
    home.mkdir()
    temporary = " ".join(
        f"{kind}_temp_path {home}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    user = "user root;" if os.geteuid() == 0 else ""
    (home / "nginx.conf").write_text(
        f"{user} worker_processes 1; worker_rlimit_nofile 20000; daemon off; pid {home}/pid;\n"
        f"error_log {home}/error.log;\n"
        f"events {{ worker_connections 16384; }}\n"
        f"http {{ {temporary} keepalive_requests {_ENDLESS}; {more}\n"
        f"server {{ listen 127.0.0.1:{port} backlog=16384; {server} }} }}\n"
    )
    command = [found, "-p", home, "-e", home / "error.log", "-c", home / "nginx.conf"]
    with started(name, command, folder=folder, ports=[port]) as process:
        yield process
