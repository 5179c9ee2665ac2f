"""The first and the last event of a stream, for clients whose generation wants more than the agent's.

1.0 just closes a stream. Before, the last event says `final: true` (0.3 §7.2.2), and some clients treat a stream that
closes without it as broken. So an event that may be the last, because the task ends or waits for its client, is held
back until another one comes or the stream ends.
"""

from gateway.a2a.dialect import Version
from gateway.a2a.json import Tree
from gateway.a2a.versions.version import INTERRUPTED, TERMINAL


class Ending:
    """The event of one stream that is held back, in the hub's form.

    Args:
        version: The client's generation.
    """

    __slots__ = ("_held", "_rested", "_version")

    def __init__(self, version: Version) -> None:
        self._version = version
        self._held: Tree | None = None
        # A status that was sent as not final, and may yet have been the last.
        self._rested: Tree | None = None

    @property
    def holds(self) -> bool:
        """Return whether an event is held back."""
        return self._held is not None

    def hold(self, event: Tree) -> bool:
        """Hold an event back if it may be the last, and return whether it is; the one before has been taken."""
        if self._version is Version.V1_0:
            return False
        if self._may_end(event):
            self._held = event
            return True
        if "statusUpdate" in event:
            self._rested = None
        return False

    def take(self, *, last: bool) -> Tree | None:
        """Return the event that was held back, or None.

        Args:
            last: Whether the stream has ended. A final or waiting status that was sent as not final is repeated then.
        """
        event, self._held = self._held, None
        if last:
            event, self._rested = event or self._rested, None
        elif event is not None:
            self._rested = _bare(event)
        return event

    @property
    def is_over(self) -> bool:
        """Return whether nothing can follow the event that is held back."""
        return self._held is not None and _state(self._held) in TERMINAL

    def _may_end(self, event: Tree) -> bool:
        oldest = self._version is Version.V0_1
        if "message" in event:
            return oldest
        return ("statusUpdate" in event or (oldest and "task" in event)) and _state(event) in _RESTS


def _state(event: Tree) -> str | None:
    body = event.get("statusUpdate") or event.get("task") or {}
    state: str | None = (body.get("status") or {}).get("state")
    return state


def _bare(event: Tree) -> Tree | None:
    """Return the status of an event without its message, to repeat it; None where it has none."""
    body = event.get("statusUpdate") or event.get("task")
    if not body:
        return None
    status = {name: value for name, value in body["status"].items() if name != "message"}
    ids = {"taskId": body.get("taskId") or body.get("id"), "contextId": body.get("contextId")}
    return {"statusUpdate": {**ids, "status": status}}


def opening(event: Tree) -> tuple[Tree, ...]:
    """Return the first events of a stream whose agent begins it with this one.

    A Task or a Message begins a stream (1.0 §3.1.2). An update is preceded by its Task, with id, context and state; an
    update that says no more than that is replaced by it.
    """
    update = event.get("statusUpdate") or event.get("artifactUpdate")
    if update is None:
        return (event,)
    # A task that writes an artifact is working.
    status = update.get("status") or {"state": "TASK_STATE_WORKING"}
    # Without its message: clients move that into the history when the update repeats the status.
    known = {name: status[name] for name in ("state", "timestamp") if name in status}
    ids = {"id": update.get("taskId"), "contextId": update.get("contextId")}
    task = {"task": {**{name: value for name, value in ids.items() if value is not None}, "status": known}}
    says_more = status.keys() != known.keys() or any(value for name, value in update.items() if name not in _TOLD)
    # A final or waiting state is also told by an update, even where the Task has it.
    return (task, event) if says_more or status.get("state") in _RESTS else (task,)


_TOLD = frozenset({"taskId", "contextId", "status"})
_RESTS = TERMINAL | INTERRUPTED
