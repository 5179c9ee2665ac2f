"""What `a2a-gateway demo` sets up: ports, throw-away keys, a configuration, and commands to try."""

import shlex
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from gateway.command.key import NewKey, new_key

PUBLIC_PORT = 8080
ADMIN_PORT = 9090

TENANTS = {"acme": "acme", "globex": "globex", "flaky-bot": "globex"}
"""The keys of the demo, and whose they are."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One run of the demo.

    Attributes:
        agents: URL of the fleet.
        public: Port for clients.
        admin: Port for operators.
        keys: By name.
    """

    agents: str
    public: int
    admin: int
    keys: Mapping[str, NewKey]

    @property
    def url(self) -> str:
        """Where clients find the gateway."""
        return f"http://127.0.0.1:{self.public}"

    def configuration(self) -> str:
        """The demo's `gateway.yaml`: the three ways to pick an agent, and two tenants."""
        keys = "".join(
            f"    {name}: {{ sha256: {self.keys[name].sha256}, tenant: {tenant}{_narrowed(name)} }}\n"
            for name, tenant in TENANTS.items()
        )
        return f"""\
version: 1

gateway:
  listen: 127.0.0.1:{self.public}
  admin: 127.0.0.1:{self.admin}
  drain: 2s

auth:
  api_keys:
{keys}
tenants:
  acme: [echo, clock, travel]
  globex: [echo, travel, flaky]

defaults:
  isolation: none               # two tenants share these agents, and the agents do not mind

agents:
  echo:                         # by path: /echo
    backend: {self.agents}/echo
  clock:                        # by path: /clock
    backend: {self.agents}/clock
  travel:                       # by the message's tenant field, at /a2a
    match: {{ path: /a2a, tenant: travel }}
    backend: {self.agents}/travel
  flaky:                        # by the caller's key, at /a2a
    match: {{ path: /a2a, key: flaky-bot }}
    backend: {self.agents}/flaky

observe:
  log: {{ format: text, level: warning }}
"""

    def welcome(self, program: str) -> str:
        """What the demo says first: where it is, whose keys there are, and what to try.

        Args:
            program: How a shell starts this command line.
        """
        acme, globex, flaky = (self.keys[name].text for name in TENANTS)
        message = '{"messageId":"1","role":"ROLE_USER","parts":[{"text":"Go"}]}'
        call = f'{{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":{{"message":{message}}}}}'
        send = f"{program} send"
        return f"""\
A2A gateway: {self.url}   (operators: http://127.0.0.1:{self.admin})

Keys, made for this run:
  acme       {acme}
  globex     {globex}
  flaky-bot  {flaky}   (a key of globex)

Four agents in this process; try them from another terminal:

  # echo, found by its path
  {send} {self.url}/echo Hello --key {acme}

  # clock, streaming ten events
  {send} {self.url}/clock Go --key {acme}

  # travel, found by the tenant field that its card asks for; it asks back, so answer with --task
  {send} {self.url}/a2a/travel "To Lisbon" --key {acme}

  # flaky, found by the key; fails every third time
  {send} {self.url}/a2a Dare --key {flaky}

  # globex may not call the clock
  {send} {self.url}/clock Go --key {globex}

  # without this program
  curl -N {self.url}/clock -H 'X-API-Key: {acme}' \\
    -H 'A2A-Version: 1.0' -H 'Content-Type: application/json' -d {shlex.quote(call)}
  curl {self.url}/echo/.well-known/agent-card.json
  curl -s http://127.0.0.1:{self.admin}/metrics | grep requests_total

One line per request follows. Ctrl-C ends the demo.
"""


def set_up(agents: str) -> Stage:
    """Pick the ports and make the keys of one run."""
    public = free_port(PUBLIC_PORT)
    admin = free_port(ADMIN_PORT)
    return Stage(agents, public, admin, {name: new_key(name, tenant) for name, tenant in TENANTS.items()})


def free_port(wanted: int) -> int:
    """The wanted loopback port if it is free, else one that the system picks."""
    for port in (wanted, 0):
        try:
            with socket.create_server(("127.0.0.1", port)) as listener:
                return int(listener.getsockname()[1])
        except OSError:
            continue
    return 0


def _narrowed(name: str) -> str:
    return ", agents: [flaky]" if name == "flaky-bot" else ""
