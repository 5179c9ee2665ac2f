"""Read the notifications that agents post to webhooks, and translate them to a client's version.

| generation | the body |
|---|---|
| 1.0 (§4.3.3) | a `StreamResponse`: one of `task`, `message`, `statusUpdate` and `artifactUpdate` |
| 0.3, 0.2 | a bare Task; a2a-js posts bare events as well, told apart by `kind` |
| 0.1 | a bare Task |

Agents post in their own version, whatever version the configuration came in: the body itself shows it.
"""

import msgspec

from gateway.a2a import json as strict_json
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import BadRequest, UpstreamProtocol
from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.progress import Progress, read_bare
from gateway.a2a.translation import FORMS
from gateway.a2a.versions.version import Memo, Misfit

CONTENT_TYPES = {
    Version.V1_0: "application/a2a+json",
    Version.V0_3: "application/json",
    Version.V0_1: "application/json",
}
"""The content type of a notification, by its version."""

_EVENTS = ("task", "statusUpdate", "artifactUpdate", "message")
_WRAPPERS = (*_EVENTS, "status_update", "artifact_update")
_NOTIFIED = frozenset({"task", "status", "artifact", "message"})


def read(body: bytes) -> Progress | None:
    """Return the task of a notification with its context and state; None for a body that is no notification."""
    progress = read_bare(body)
    return progress if progress is not None and progress.legible and progress.event in _NOTIFIED else None


def translate(
    body: bytes, ours: Version, *, asked: Version | None = None, task_id: str = "", name: str = "", session: str = ""
) -> bytes | None:
    """Return a notification in a client's version; the same bytes where that is the agent's too.

    Clients of 0.1 read Tasks only: a status update or a Message becomes a Task; an artifact update becomes None.

    Args:
        body: One that `read` could read.
        asked: The version in which the agent was asked, if known; decides where the body does not.
        task_id: The agent's id of the task.
        name: A 0.1 client's id of it, where that differs; empty otherwise.
        session: Likewise for the context.

    Raises:
        UpstreamProtocol: it breaks the rules of its version.
    """
    memo = Memo(task_id=task_id or None)
    try:
        tree = strict_json.read(msgspec.Raw(body))
        theirs = generation(tree, asked)
        if theirs is ours and not name:
            return body
        event = _lift(tree, theirs, memo)
        for kind, members in event.items():
            if name:
                members["id" if kind == "task" else "taskId"] = name
            if session and members.get("contextId"):
                members["contextId"] = session
        memo.task_id = name or memo.task_id
        lowered = _lower(event, ours, memo)
        return None if lowered is None else strict_json.write(lowered)
    except Misfit as misfit:
        words = "the agent's notification is not what its version of A2A says"
        raise UpstreamProtocol(words, detail=str(misfit)[:200]) from misfit
    except (BadRequest, RecursionError) as error:
        raise UpstreamProtocol("the agent's notification is no JSON that can be translated") from error


def generation(tree: Tree, asked: Version | None = None) -> Version:
    """Return the version of a notification.

    Args:
        asked: As in `translate`.
    """
    wrapped = next((tree[name] for name in _WRAPPERS if isinstance(tree.get(name), dict)), None)
    if wrapped is not None:
        return Version.V0_3 if wrapped.get("kind") else Version.V1_0
    if isinstance(tree.get("kind"), str):
        return Version.V0_3
    return Version.V0_1 if "sessionId" in tree or asked is Version.V0_1 else Version.V0_3


def _lift(tree: Tree, theirs: Version, memo: Memo) -> Tree:
    """Return the task, message or update in the hub's wrapper."""
    form = FORMS[Dialect(Binding.JSONRPC, theirs)]
    if theirs is Version.V0_1 and "artifact" not in tree and "final" not in tree:
        # In a stream of 0.1 one without artifacts would be an event.
        return {"task": form.lift_result(Operation.GET_TASK, tree, memo)}
    event = form.lift_event(tree, memo)
    return next({name: event[name]} for name in _EVENTS if name in event)


def _lower(event: Tree, ours: Version, memo: Memo) -> Tree | None:
    form = FORMS[Dialect(Binding.JSONRPC, ours)]
    if ours is not Version.V0_1:
        # 0.3 marks by `final` that a task ended or waits, and a notification has no stream that could end instead.
        return form.lower_event(event, memo, last=True)[0]
    if "artifactUpdate" in event:
        return None
    if "message" in event:
        answer: Tree = form.lower_result(Operation.SEND_MESSAGE, event, memo)
        return answer
    update = event.get("statusUpdate")
    if update is not None:
        event = {"task": {"id": update.pop("taskId"), **update}}
    task: Tree = form.lower_result(Operation.GET_TASK, event["task"], memo)
    return task
