"""Frames of an agent on stdio that behaves, and good answers in both generations.

For `stdio_agent.py`, a script that needs nothing but Python, and has this beside it.
"""

import json
import os
import resource
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, TextIO

Tree = dict[str, Any]

GOOD = {
    "ok": "is answered by a message that says `ok`",
    "pid": "… that says which process it is",
    "echo …": "… that says the rest of the text",
    "headers": "… whose data are the header fields of the frame, and the parameters",
    "environment": "… whose data are what the process was given: `environment()`",
    "task": "is answered by a task that is completed, and found by GetTask in the same process",
    "stream N": "is answered by a stream of N pieces of an artifact, between the task and its end",
}


@dataclass
class Call:
    """A request that was read."""

    id: Any
    method: str
    params: Tree
    headers: dict[str, str]

    @property
    def older(self) -> bool:
        return "/" in self.method

    @property
    def streams(self) -> bool:
        return self.method in ("SendStreamingMessage", "message/stream", "SubscribeToTask", "tasks/resubscribe")

    @property
    def text(self) -> str:
        parts = (self.params.get("message") or {}).get("parts") or [{}]
        return str(parts[0].get("text", ""))


@dataclass
class Agent:
    """The process, as its modes see it."""

    count: int
    framing: str
    journal: Path | None
    out: BinaryIO
    tasks: dict[str, Tree] = field(default_factory=dict)
    held: list[Call] = field(default_factory=list)
    reading: bool = True
    lock: TextIO | None = None

    def note(self, *words: object) -> None:
        if self.journal is not None:
            with self.journal.open("a") as file:
                file.write(" ".join(map(str, words)) + "\n")

    # ---- Writing -----------------------------------------------------------------------------------------------------

    def raw(self, data: bytes) -> None:
        self.out.write(data)
        self.out.flush()

    def frame(self, tree: Any, *fields: str, framing: str = "") -> bytes:
        content = tree if isinstance(tree, bytes) else json.dumps(tree).encode()
        if (framing or self.framing) == "ndjson":
            return content + b"\n"
        head = [f"Content-Length: {len(content)}", "Content-Type: application/json", *fields]
        return "".join(f"{line}\r\n" for line in head).encode() + b"\r\n" + content

    def answer(self, call: Call, result: Any, *fields: str) -> None:
        self.raw(self.frame({"jsonrpc": "2.0", "id": call.id, "result": result}, *fields))

    def fail(self, call: Call, code: int, message: str) -> None:
        self.raw(self.frame({"jsonrpc": "2.0", "id": call.id, "error": {"code": code, "message": message}}))

    def says(self, call: Call, text: str, data: Any = None) -> bytes:
        """A frame with a good answer."""
        return self.frame({"jsonrpc": "2.0", "id": call.id, "result": message(call, text, data)})

    # ---- Good answers ------------------------------------------------------------------------------------------------

    def behave(self, call: Call) -> bool:
        """Answer as one should, where the call is one that always gets a good answer."""
        word, _, rest = call.text.partition(" ")
        if call.method in ("GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard"):
            self.answer(call, card())
        elif call.method in ("GetTask", "tasks/get"):
            self.find(call)
        elif word in ("ok", "pid", "echo"):
            self.raw(self.says(call, {"ok": "ok", "pid": str(os.getpid()), "echo": rest}[word]))
        elif word in ("headers", "environment"):
            told = environment() if word == "environment" else {"headers": call.headers, "params": call.params}
            self.raw(self.says(call, word, told))
        elif word == "task":
            done = task(call, f"task-{os.getpid()}-{len(self.tasks)}", "completed")
            self.tasks[done["id"]] = done
            self.answer(call, done if call.older else {"task": done})
        elif word == "stream":
            self.stream(call, int(rest))
        else:
            return False
        return True

    def find(self, call: Call) -> None:
        found = self.tasks.get(str(call.params.get("id")))
        if found is None:
            self.fail(call, -32001, "no such task")
        else:
            self.answer(call, found)

    def stream(self, call: Call, count: int, *, ends: bool = True) -> None:
        """A task, pieces of an artifact, and its end."""
        begun = task(call, "streamed", "working")
        self.answer(call, begun if call.older else {"task": begun})
        for number in range(count):
            self.answer(call, piece(call, f"{number}"))
        if ends:
            self.answer(call, status(call, "completed"))


# ---- What is said ----------------------------------------------------------------------------------------------------


def card() -> Tree:
    interfaces = [{"url": "stdio", "protocolBinding": "stdio", "protocolVersion": each} for each in ("1.0", "0.3")]
    return {
        "name": "Misbehaving",
        "description": f"Process {os.getpid()}.",
        "version": "1.0.0",
        "supportedInterfaces": interfaces,
        "capabilities": {"streaming": True, "pushNotifications": False, "extendedAgentCard": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"]}],
        "url": "stdio",
        "preferredTransport": "stdio",
        "protocolVersion": "0.3.0",
        "supportsAuthenticatedExtendedCard": True,
    }


def message(call: Call, text: str, data: Any = None) -> Tree:
    """The result of a send: a message, in the generation of the call."""
    parts: list[Tree] = [{"text": text}, *([] if data is None else [{"data": data}])]
    if call.older:
        parts = [{"kind": "text" if "text" in part else "data", **part} for part in parts]
        return {"kind": "message", "messageId": "m", "role": "agent", "parts": parts}
    return {"message": {"messageId": "m", "role": "ROLE_AGENT", "parts": parts}}


def task(call: Call, name: str, state: str) -> Tree:
    tree: Tree = {"id": name, "contextId": "c", "status": {"state": spelled(call, state)}}
    return {"kind": "task", **tree} if call.older else tree


def status(call: Call, state: str, *, final: bool = True) -> Tree:
    update: Tree = {"taskId": "streamed", "contextId": "c", "status": {"state": spelled(call, state)}}
    return {"kind": "status-update", **update, "final": final} if call.older else {"statusUpdate": update}


def piece(call: Call, text: str) -> Tree:
    part = {"kind": "text", "text": text} if call.older else {"text": text}
    update = {"taskId": "streamed", "contextId": "c", "artifact": {"artifactId": "a", "parts": [part]}, "append": True}
    return {"kind": "artifact-update", **update} if call.older else {"artifactUpdate": update}


def spelled(call: Call, state: str) -> str:
    return state if call.older else "TASK_STATE_" + state.upper().replace("-", "_")


def environment() -> Tree:
    """Return the parts of its start that a process can see."""
    # The folder itself is open while it is read.
    descriptors = {each.name: os.path.realpath(each) for each in Path("/proc/self/fd").iterdir() if each.exists()}
    limits = {name: resource.getrlimit(getattr(resource, f"RLIMIT_{name}")) for name in ("AS", "CPU", "NOFILE", "CORE")}
    return {
        "argv": sys.argv,
        "cwd": str(Path.cwd()),
        "environ": dict(os.environ),
        "pid": os.getpid(),
        "parent": os.getppid(),
        "group": os.getpgid(0),
        "session": os.getsid(0),
        "uid": os.getuid(),
        "descriptors": descriptors,
        "limits": limits,
        "umask": os.umask(os.umask(0o077)),
    }
