"""The software of the matrix: agents, clients, and the environment of each.

An agent is started for one binding, so that a client of the other one is answered by the gateway's own doing. A pair
is run directly where both speak the same dialect; `direct.json` holds what came of it.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distributions
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
ENVIRONMENTS = ROOT / ".venv-conformance"
JAVASCRIPT = HERE / "javascript"

LEGACY = "a2a-sdk-0.3"
JSONRPC = "JSONRPC"
REST = "HTTP+JSON"
GRPC = "GRPC"


@dataclass(frozen=True, slots=True)
class Environment:
    """The place where a piece of software is installed.

    Attributes:
        name: Folder below `.venv-conformance`, `node`, or LEGACY; empty for the one that runs the matrix.
        package: The package whose version is told.
    """

    name: str
    package: str

    @property
    def python(self) -> Path:
        """Its interpreter; the one of a2a-sdk 0.3 is that of the end-to-end tests, which A2A_LEGACY_PYTHON names."""
        if self.name == "":
            return Path(sys.executable)
        if self.name == LEGACY:
            return Path(os.environ.get("A2A_LEGACY_PYTHON") or ROOT / ".venv-legacy" / "bin" / "python")
        return ENVIRONMENTS / self.name / "bin" / "python"

    @property
    def missing(self) -> str:
        """Why it cannot be run, or nothing."""
        if self.name == "node":
            if _node_version() < 20:
                return "there is no node of 20 or newer"
            return "" if (JAVASCRIPT / "node_modules").exists() else "npm could not install the SDKs"
        return "" if self.python.exists() else f"the environment {self.name} could not be made"

    def command(self, folder: str, script: str, *arguments: str) -> list[str]:
        """Return the command that runs one of its scripts."""
        if self.name == "node":
            return ["node", "--no-warnings", str(JAVASCRIPT / script), *arguments]
        return [str(self.python), "-W", "ignore", str(HERE / folder / script), *arguments]

    @property
    def version(self) -> str:
        """The version that is installed."""
        if self.name == "":
            return "of this version"
        if self.name == "node":
            text = (JAVASCRIPT / "node_modules" / self.package / "package.json").read_text()
            return str(json.loads(text)["version"])
        [packages] = (self.python.parents[1] / "lib").glob("python*/site-packages")
        [found] = [each for each in distributions(path=[str(packages)]) if each.metadata["Name"] == self.package]
        return found.version


@dataclass(frozen=True, slots=True)
class Fault:
    """A defect in a piece of software that breaks it even with its own generation.

    Attributes:
        why: The defect.
        errors: Its consequences.
    """

    why: str
    errors: frozenset[str]


@dataclass(frozen=True, slots=True)
class Software:
    """An agent or a client.

    Attributes:
        key: Its name in the results.
        version: The protocol version that it speaks; 0.2 is 0.3 on the wire.
        script: Which of the folder `agents` or `clients`, or of `javascript`.
        fault: Its defect; results of an agent with one are no measure for others.
        like: The client that hears directly what this one is to hear, which no agent understands without a gateway.
    """

    key: str
    environment: Environment
    version: str
    binding: str
    script: str
    fault: Fault | None = None
    like: str = ""

    @property
    def dialect(self) -> tuple[str, str]:
        """Version and binding; the version as the wire has it."""
        return "0.3" if self.version == "0.2" else self.version, self.binding


SDK_1_3 = Environment("a2a-sdk-1.3", "a2a-sdk")
SDK_0_3 = Environment(LEGACY, "a2a-sdk")
SDK_0_2 = Environment("a2a-sdk-0.2", "a2a-sdk")
FASTA2A_2 = Environment("fasta2a-2", "fasta2a")
FASTA2A_0_2 = Environment("fasta2a-0.2", "fasta2a")
A2A_CLI = Environment("a2a-cli", "a2a-cli")
JS_1_3 = Environment("node", "a2a-1.3")
JS_0_3 = Environment("node", "a2a-0.3")
DOUBLES = Environment("", "")

TITLES = {
    SDK_1_3: "a2a-sdk",
    SDK_0_3: "a2a-sdk",
    SDK_0_2: "a2a-sdk",
    FASTA2A_2: "fasta2a",
    FASTA2A_0_2: "fasta2a",
    A2A_CLI: "a2a-cli",
    JS_1_3: "@a2a-js/sdk",
    JS_0_3: "@a2a-js/sdk",
    DOUBLES: "doubles of this project: one strict by the schema of 0.1; objects of 1.0 under 0.3's method names",
}

FILES_AS_DATA = Fault(
    "fasta2a 0.2 calls a file's bytes `data`, which nobody who knows 0.1 looks for",
    frozenset({"InvalidAgentResponse", "HTTP 502", "the SDK's own JSONRPCError", "the SDK's own NotAncient"}),
)
MUTE = Fault("a2a-cli refuses every status that has a message", frozenset({"the SDK's own ValidationError"}))

AGENTS = (
    Software("py-1.3 rpc", SDK_1_3, "1.0", JSONRPC, "a2a_sdk_1_3.py"),
    Software("py-1.3 rest", SDK_1_3, "1.0", REST, "a2a_sdk_1_3.py"),
    Software("js-1.3 rpc", JS_1_3, "1.0", JSONRPC, "agent-1.3.mjs"),
    Software("js-1.3 rest", JS_1_3, "1.0", REST, "agent-1.3.mjs"),
    Software("fasta2a-2", FASTA2A_2, "1.0", JSONRPC, "fasta2a_2.py"),
    Software("py-0.3 rpc", SDK_0_3, "0.3", JSONRPC, "a2a_sdk_0_3.py"),
    Software("py-0.3 rest", SDK_0_3, "0.3", REST, "a2a_sdk_0_3.py"),
    Software("js-0.3 rpc", JS_0_3, "0.3", JSONRPC, "agent-0.3.mjs"),
    Software("js-0.3 rest", JS_0_3, "0.3", REST, "agent-0.3.mjs"),
    Software("py-0.2 rpc", SDK_0_2, "0.2", JSONRPC, "a2a_sdk_0_3.py"),
    Software("fasta2a-0.2", FASTA2A_0_2, "0.1", JSONRPC, "fasta2a_0_2.py", FILES_AS_DATA),
    Software("0.1 double", DOUBLES, "0.1", JSONRPC, "ancient.py"),
)
"""Clients and agents over HTTP."""

GRPC_AGENTS = (
    Software("py-1.3 grpc", SDK_1_3, "1.0", GRPC, "a2a_sdk_1_3.py"),
    Software("js-1.3 grpc", JS_1_3, "1.0", GRPC, "agent-1.3.mjs"),
    Software("py-1.3 as 0.3 grpc", SDK_1_3, "0.3", GRPC, "a2a_sdk_1_3.py"),
    Software("js-1.3 as 0.3 grpc", JS_1_3, "0.3", GRPC, "agent-1.3.mjs"),
    Software("py-0.3 grpc", SDK_0_3, "0.3", GRPC, "a2a_sdk_0_3.py"),
    Software("js-0.3 grpc", JS_0_3, "0.3", GRPC, "agent-0.3.mjs"),
)

EVERY_AGENT = (*AGENTS, *GRPC_AGENTS)

CLIENTS = (
    Software("py-1.3 rpc", SDK_1_3, "1.0", JSONRPC, "a2a_sdk_1_3.py"),
    Software("py-1.3 rest", SDK_1_3, "1.0", REST, "a2a_sdk_1_3.py"),
    Software("js-1.3 rpc", JS_1_3, "1.0", JSONRPC, "client-1.3.mjs"),
    Software("js-1.3 rest", JS_1_3, "1.0", REST, "client-1.3.mjs"),
    Software("py-1.3 as 0.3 rpc", SDK_1_3, "0.3", JSONRPC, "a2a_sdk_1_3.py"),
    Software("py-1.3 as 0.3 rest", SDK_1_3, "0.3", REST, "a2a_sdk_1_3.py"),
    Software("js-1.3 as 0.3 rpc", JS_1_3, "0.3", JSONRPC, "client-1.3.mjs"),
    Software("js-1.3 as 0.3 rest", JS_1_3, "0.3", REST, "client-1.3.mjs"),
    Software("py-0.3 rpc", SDK_0_3, "0.3", JSONRPC, "a2a_sdk_0_3.py"),
    Software("py-0.3 rest", SDK_0_3, "0.3", REST, "a2a_sdk_0_3.py"),
    Software("js-0.3 rpc", JS_0_3, "0.3", JSONRPC, "client-0.3.mjs"),
    Software("js-0.3 rest", JS_0_3, "0.3", REST, "client-0.3.mjs"),
    Software("a2a-cli", A2A_CLI, "0.1", JSONRPC, "a2a_cli_0_2.py", MUTE),
    Software("0.1 double", DOUBLES, "0.1", JSONRPC, "ancient.py"),
    Software("py-1.3 grpc", SDK_1_3, "1.0", GRPC, "a2a_sdk_1_3.py"),
    Software("js-1.3 grpc", JS_1_3, "1.0", GRPC, "client-1.3.mjs"),
    Software("py-1.3 as 0.3 grpc", SDK_1_3, "0.3", GRPC, "a2a_sdk_1_3.py"),
    Software("js-1.3 as 0.3 grpc", JS_1_3, "0.3", GRPC, "client-1.3.mjs"),
    Software("py-0.3 grpc", SDK_0_3, "0.3", GRPC, "a2a_sdk_0_3.py"),
    Software("js-0.3 grpc", JS_0_3, "0.3", GRPC, "client-0.3.mjs"),
    Software("1.0 in 0.3 double", DOUBLES, "1.0", JSONRPC, "mixed.py", like="py-1.3 rpc"),
)


def speak_alike(agent: Software, client: Software) -> bool:
    """Whether a pair needs no gateway to understand each other."""
    return agent.dialect == client.dialect and not client.like


@cache
def _node_version() -> int:
    if shutil.which("node") is None:
        return 0
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
    return int(said.strip().removeprefix("v").split(".")[0])
