"""The setup of `a2a-gateway demo`: ports, throw-away keys, a configuration, and commands to try."""

import os
import shlex
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gateway.commands.key import NewKey, new_key
from gateway.commands.output import CommandFailed
from gateway.demo import stdio_agent

PUBLIC_PORT = 8080
GRPC_PORT = 8081
ADMIN_PORT = 9090

TENANTS = {"acme": "acme", "globex": "globex", "flaky-bot": "globex"}
"""The keys of the demo, with their tenants."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One run of the demo.

    Attributes:
        agents: URL of the fleet.
        over_grpc: Port at which the fleet answers over gRPC.
        public: Port for clients.
        grpc: Port for clients of gRPC.
        admin: Port for operators.
        keys: By name.
    """

    agents: str
    over_grpc: int
    public: int
    grpc: int
    admin: int
    keys: Mapping[str, NewKey]

    @property
    def url(self) -> str:
        """Where clients find the gateway."""
        return f"http://127.0.0.1:{self.public}"

    def configuration(self) -> str:
        """Return the demo's `gateway.yaml`: three ways to pick an agent, and two tenants with tasks of their own."""
        keys = "".join(
            f"    {name}: {{ sha256: {self.keys[name].sha256}, tenant: {tenant}{_narrowed(name)} }}\n"
            for name, tenant in TENANTS.items()
        )
        # JSON is YAML, also for paths with special characters.
        counter = msgspec.json.encode([sys.executable, stdio_agent.__file__, "--pace", "0.3"]).decode()
        return f"""\
version: 1

gateway:
  listen: 127.0.0.1:{self.public}
  listen_grpc: 127.0.0.1:{self.grpc}
  admin: 127.0.0.1:{self.admin}
  state: memory                 # owners of tasks; left out, it is a file in the working directory
  drain: 2s

auth:
  api_keys:
{keys}
tenants:
  acme: [echo, clock, travel, counter]
  globex: [echo, travel, flaky]

agents:
  echo:                         # by path: /echo; over gRPC, by its name in the tenant field
    backend: {self.agents}/echo
    expose: [jsonrpc, rest, grpc]
  clock:                        # by path: /clock; the agent itself is asked over gRPC
    backend: grpc://127.0.0.1:{self.over_grpc}
    card: {self.agents}/clock
  travel:                       # by the message's tenant field, at /a2a
    match: {{ path: /a2a, tenant: travel }}
    backend: {self.agents}/travel
  flaky:                        # by the caller's key, at /a2a
    match: {{ path: /a2a, key: flaky-bot }}
    backend: {self.agents}/flaky
  counter:                      # by path: /counter; a program that the gateway runs, and talks to by its pipes
    backend: {{ stdio: {{ command: {counter} }} }}

observe:
  log: {{ format: text, level: warning }}
  audit: /dev/null
"""

    def environment(self) -> str:
        """Return the keys as lines for a shell, one variable each."""
        return "".join(
            f"export A2A_KEY_{name.upper().replace('-', '_')}={key.text}   # tenant {TENANTS[name]}\n"
            for name, key in self.keys.items()
        )

    def save(self, folder: Path) -> None:
        """Write `gateway.yaml` and `keys.env` into a folder, which is made if it is missing.

        Raises:
            CommandFailed: One of the files exists, or cannot be written.
        """
        texts = {"gateway.yaml": self.configuration(), "keys.env": self.environment()}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in texts.items():
                # Keys are secrets: only their owner may read them.
                descriptor = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    file.write(text)
        except FileExistsError as error:
            raise CommandFailed(f"{error.filename} exists: name another folder, or remove it") from error
        except OSError as error:
            raise CommandFailed(f"{error.filename} cannot be written: {error.strerror}") from error

    def moved(self) -> str:
        """Return a line for each usual port that was taken, with the one used instead; empty if there is none."""
        ports = ((PUBLIC_PORT, self.public), (GRPC_PORT, self.grpc), (ADMIN_PORT, self.admin))
        return "".join(f"Port {usual} is taken: using {used} instead.\n" for usual, used in ports if used != usual)

    def welcome(self, program: str) -> str:
        """Return the first output of the demo: its addresses, the keys and their tenants, and commands to try.

        Args:
            program: The shell command that starts this command line.
        """
        acme, globex, flaky = (self.keys[name].text for name in TENANTS)
        call = f'{{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":{{"message":{_message("Go")}}}}}'
        request = f'{{"tenant":"echo","message":{_message("Hello")}}}'
        send = f"{program} send"
        return f"""\
A2A gateway: {self.url}   (gRPC: 127.0.0.1:{self.grpc}, page for operators: http://127.0.0.1:{self.admin}/)

  agent    URL                              picked by         speaks  tenants
  echo     {self.url}/echo       path              HTTP    acme, globex
  clock    {self.url}/clock      path              gRPC    acme
  travel   {self.url}/a2a        the tenant field  HTTP    acme, globex
  flaky    {self.url}/a2a        the key           HTTP    globex
  counter  {self.url}/counter    path              stdio   acme

Keys, made for this run:

{self.environment()}
Try these from another terminal:

  # echo, found by its path
  {send} {self.url}/echo Hello --key {acme}

  # clock, streaming ten events; behind the gateway it speaks gRPC
  {send} {self.url}/clock Go --key {acme}

  # travel, found by the tenant field that its card asks for; it asks back, so answer with --task
  {send} {self.url}/a2a/travel "To Lisbon" --key {acme}

  # acme's list of travel's tasks, and globex's: both may call it, and neither sees the other's
  {_listing(self.url, acme)}
  {_listing(self.url, globex)}

  # flaky, found by the key; fails every third time
  {send} {self.url}/a2a Dare --key {flaky}

  # counter, a program on stdio (gateway/demo/stdio_agent.py, to be copied); one event a number
  {send} {self.url}/counter "count 5" --key {acme}

  # globex may not call the clock
  {send} {self.url}/clock Go --key {globex}

  # without this program; over gRPC, which has no paths, the tenant field has the agent's name
  curl -N {self.url}/clock -H 'X-API-Key: {acme}' \\
    -H 'A2A-Version: 1.0' -H 'Content-Type: application/json' -d {shlex.quote(call)}
  grpcurl -plaintext -H 'x-api-key: {acme}' \\
    -d {shlex.quote(request)} 127.0.0.1:{self.grpc} lf.a2a.v1.A2AService/SendMessage
  curl {self.url}/echo/.well-known/agent-card.json
  curl -s http://127.0.0.1:{self.admin}/metrics | grep requests_total

One line per request follows. Ctrl-C ends the demo.
"""


def set_up(agents: str, over_grpc: int) -> Stage:
    """Pick the ports and make the keys of one run.

    Args:
        agents: URL of the fleet.
        over_grpc: Its port of gRPC.
    """
    public, grpc, admin = free_ports(PUBLIC_PORT, GRPC_PORT, ADMIN_PORT)
    keys = {name: new_key(name, tenant) for name, tenant in TENANTS.items()}
    return Stage(agents, over_grpc, public, grpc, admin, keys)


def free_ports(*wanted: int) -> list[int]:
    """Return each wanted loopback port if it is free, else one that the system picks; all different."""
    with ExitStack() as held:
        return [_held(port, held) for port in wanted]


def free_port(wanted: int) -> int:
    """As `free_ports`, of one."""
    [port] = free_ports(wanted)
    return port


def _held(wanted: int, held: ExitStack) -> int:
    for port in (wanted, 0):
        try:
            listener = held.enter_context(socket.create_server(("127.0.0.1", port)))
        except OSError:
            continue
        return int(listener.getsockname()[1])
    return 0


def _listing(url: str, key: str) -> str:
    return f"curl -s {url}/a2a/travel/tasks -H 'X-API-Key: {key}' -H 'A2A-Version: 1.0'"


def _message(text: str) -> str:
    return f'{{"messageId":"1","role":"ROLE_USER","parts":[{{"text":"{text}"}}]}}'


def _narrowed(name: str) -> str:
    return ", agents: [flaky]" if name == "flaky-bot" else ""
