"""What a person sees of an answer: each event of a task as text, whatever version of A2A it is spelled in."""

from dataclasses import dataclass, replace

import msgspec

from gateway.a2a.tree import Tree

_MEMBERS = ("task", "message", "msg", "statusUpdate", "artifactUpdate")
_KINDS = {"status-update": "statusUpdate", "artifact-update": "artifactUpdate", "task": "task", "message": "message"}


@dataclass(frozen=True, slots=True)
class Sight:
    """One event, as a person sees it.

    Attributes:
        text: What to print, ending with a line end; may be empty.
        state: The task's state in lower case, such as `input-required`; empty where there is no task.
        task: The task's id, or empty.
        context: The context's id, or empty.
    """

    text: str
    state: str = ""
    task: str = ""
    context: str = ""

    def after(self, before: "Sight | None") -> "Sight":
        """This event with what is still true from the one before it."""
        if before is None:
            return self
        return replace(
            self,
            state=self.state or before.state,
            task=self.task or before.task,
            context=self.context or before.context,
        )


def see(result: Tree) -> Sight:
    """Read one result or event: 1.0 and 0.3 HTTP+JSON wrap it in a member, 0.3 JSON-RPC names its `kind`."""
    kind = next((member for member in _MEMBERS if isinstance(result.get(member), dict)), "")
    if kind:
        event = result[kind]
    else:
        event, kind = result, _KINDS.get(str(result.get("kind"))) or _bare(result)
    context = _word(event.get("contextId") or event.get("sessionId"))
    of_task = _word(event.get("taskId") or (event.get("id") if kind in ("statusUpdate", "artifactUpdate") else ""))
    if kind in ("message", "msg"):
        return Sight(_lines(event), "", of_task, context)
    if kind == "artifactUpdate":
        return Sight(_lines(event.get("artifact")), "", of_task, context)
    status: Tree = event["status"] if isinstance(event.get("status"), dict) else {}
    state = _state(status.get("state"))
    said = _lines(status.get("message") or status.get("update"))
    if kind == "statusUpdate":
        return Sight(f"[{state}] {said}" if said else f"[{state}]\n", state, of_task, context)
    if kind != "task":
        return Sight("(an event of a kind that is not known)\n")
    artifacts = event.get("artifacts")
    text = f"task {_word(event.get('id'))}\n" + (f"[{state}] {said}" if said else f"[{state}]\n")
    text += "".join(_lines(artifact) for artifact in (artifacts if isinstance(artifacts, list) else ()))
    return Sight(text, state, _word(event.get("id")), context)


def _bare(result: Tree) -> str:
    """What 0.1 answers with: its events and tasks are told apart by their members alone."""
    if "artifact" in result:
        return "artifactUpdate"
    return "statusUpdate" if "final" in result else "task" if "status" in result else ""


def safe(text: str) -> str:
    """The text without anything that a terminal would obey, for an agent is another party; line ends and tabs stay."""
    return "".join(char if char.isprintable() or char in "\n\t" else "�" for char in text)


def _lines(holder: object) -> str:
    """The parts of a message or an artifact, as lines."""
    if not isinstance(holder, dict):
        return ""
    parts = holder.get("parts") or holder.get("content")
    lines = [_part(part) for part in (parts if isinstance(parts, list) else ()) if isinstance(part, dict)]
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


def _part(part: Tree) -> str:
    if isinstance(part.get("text"), str):
        return safe(part["text"])
    if "data" in part:
        return safe(msgspec.json.encode(part["data"]).decode())
    file: Tree = part["file"] if isinstance(part.get("file"), dict) else part
    name = file.get("filename") or file.get("name") or file.get("url") or file.get("uri") or ""
    return safe(f"(a file {name})")


def _state(value: object) -> str:
    state = safe(str(value)).removeprefix("TASK_STATE_").lower().replace("_", "-")
    return "canceled" if state == "cancelled" else state


def _word(value: object) -> str:
    return safe(value) if isinstance(value, str) else ""
