"""One gateway as an operator runs it, two agents, and their tenants: one that is measured, and those that misbehave.

Tasks have owners, kept in a file, as they are without a word in the configuration. The tenant `steady` calls the agent
`shared`, which everybody may call; the others have agents of their own besides:

    stuck    its calls to `shared` hang; 50 at a time
    hung     its own agent hangs; nothing bounds it but the connections to that agent
    eager    50 requests a second
    deaf     200 streams of its own agent, which never end
    heavy    nothing bounds it
    share-1… may call `pool`, which takes 16 calls at a time for 50 ms each; weights as in `WEIGHTS`
"""

import json
import re
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benchmarks.edge.contestant import ROOT
from benchmarks.edge.process import Process, free_port
from benchmarks.edge.workload import AUDIENCE, ISSUER, ORGANISATION, Workload
from benchmarks.fairness import agent
from benchmarks.serving import serving
from gateway.commands.key import NewKey, new_key

STEADY = ORGANISATION
"""The tenant that is measured, which shows a token; the others show API keys."""
RATE = 50
"""Requests a second of the tenant that asks for more."""
STREAMS = 200
"""Streams of the tenant that reads none."""
HANGING = 400
"""Connections to the agent that hangs."""
STUCK = 50
PLACES, SERVICE = 16, 0.05
"""Calls at a time of the agent that is shared by weight, and seconds of each."""
WEIGHTS = {f"share-{number}": weight for number, weight in enumerate((1, 1, 1, 1, 2, 2, 4, 4), 1)}

_LAG = re.compile(r'^a2a_gateway_event_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE)
_CONTENT = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "A2A-Version": "1.0"}


@dataclass(frozen=True, slots=True)
class Site:
    """The running processes.

    Attributes:
        url: Where the gateway takes calls; the path is the agent's name.
        workload: The token of the tenant that is measured.
        fetches: When its identity provider gave its keys, in monotonic seconds.
        file: The configuration's.
    """

    gateway: Process
    url: str
    admin: str
    workload: Workload
    keys: Mapping[str, NewKey]
    fetches: list[float]
    file: Path
    configuration: Mapping[str, Any]

    def headers(self, tenant: str) -> dict[str, str]:
        """Return the headers of a tenant's calls."""
        shown = self.workload.headers if tenant == STEADY else {"X-API-Key": self.keys[tenant].text}
        return {**shown, **_CONTENT}

    def reload(self, number: int) -> float:
        """Have the gateway read a file that says something else each time; seconds until it was put to use.

        Args:
            number: Becomes the weight of a tenant that does nothing.
        """
        tenants = {**self.configuration["tenants"], "heavy": {"agents": ["shared"], "limits": {"weight": number}}}
        # In one step, so that nobody reads half of it.
        half = self.file.with_suffix(".new")
        half.write_text(json.dumps({**self.configuration, "tenants": tenants}))
        half.replace(self.file)
        asked = urllib.request.Request(f"{self.admin}/-/reload", method="POST")
        began = time.monotonic()
        with urllib.request.urlopen(asked, timeout=30) as answer:
            answer.read()
        return time.monotonic() - began

    def lags(self) -> dict[float, float]:
        """Return how often the gateway's event loop was at most so late, by seconds."""
        with urllib.request.urlopen(f"{self.admin}/metrics", timeout=10) as answer:
            return {float(bound): float(number) for bound, number in _LAG.findall(answer.read().decode())}


@contextmanager
def running(folder: Path) -> Iterator[Site]:
    """Start everything; all is over at the end of the block.

    Args:
        folder: For all that is written.
    """
    public, admin, shared, others = (free_port() for _ in range(4))
    workload = Workload.make()
    keys = {name: new_key(name, name) for name in ("stuck", "hung", "eager", "deaf", "heavy", *WEIGHTS)}
    with _key_set(workload) as (provider, fetches), agent.running(folder, ROOT, shared, name="shared"):
        configuration = _configuration(public, admin, provider, agents=(shared, others), keys=keys)
        with (
            agent.running(folder, ROOT, others, name="others"),
            serving(configuration, folder=folder, ports=[public], tree=ROOT) as process,
        ):
            at = f"http://127.0.0.1:{public}", f"http://127.0.0.1:{admin}"
            yield Site(process, *at, workload, keys, fetches, folder / "gateway.yaml", configuration)


def _configuration(
    public: int, admin: int, provider: int, *, agents: tuple[int, int], keys: Mapping[str, NewKey]
) -> dict[str, object]:
    shared, others = (f"http://127.0.0.1:{port}" for port in agents)

    def speaks(url: str, **more: object) -> dict[str, object]:
        return {"backend": {"url": url, "protocol": "jsonrpc", "a2a_version": "1.0"}, **more}

    issuer = {
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "jwks": f"http://127.0.0.1:{provider}/keys",
        "tenant_claim": "org",
    }
    limits: dict[str, dict[str, object]] = {
        "stuck": {"concurrency": STUCK},
        "eager": {"requests": f"{RATE}/s"},
        "deaf": {"streams": STREAMS},
        **{name: {"weight": weight} for name, weight in WEIGHTS.items()},
    }
    own = {"hung": "hangs", "deaf": "endless", **dict.fromkeys(WEIGHTS, "pool")}
    return {
        "version": 1,
        "gateway": {"listen": f"127.0.0.1:{public}", "admin": f"127.0.0.1:{admin}"},
        "auth": {
            "issuers": {"corp": issuer},
            "api_keys": {name: {"sha256": key.sha256, "tenant": name} for name, key in keys.items()},
        },
        "tenants": {
            STEADY: ["shared"],
            **{
                name: {"agents": ["shared", *filter(None, [own.get(name)])], "limits": limits.get(name, {})}
                for name in keys
            },
        },
        "agents": {
            "shared": speaks(f"{shared}/hangs/stuck"),
            "hangs": speaks(f"{others}/hangs", connections={"max": HANGING}),
            "endless": speaks(f"{others}/endless", connections={"max": STREAMS + 10}),
            "pool": speaks(f"{shared}/slow/{SERVICE * 1000:.0f}", limits={"concurrency": PLACES}),
        },
    }


@contextmanager
def _key_set(workload: Workload) -> Iterator[tuple[int, list[float]]]:
    """The identity provider: serves the key set on the port given, and writes down when it did."""
    document, fetches = workload.key_set.encode(), list[float]()

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            fetches.append(time.monotonic())
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(document)))
            self.end_headers()
            self.wfile.write(document)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1]), fetches
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
