"""Which event of a stream is the last, for clients of generations that are told so in the event itself.

1.0 just closes. Before, the last event says `final: true` (0.3 §7.2.2), and some clients take a stream that closes
without it for one that broke off. So an event that may be the last, which ends the task or makes it wait for its
client, is held back until another one comes or the stream ends.
"""

from gateway.a2a.dialect import Version
from gateway.a2a.tree import Tree
from gateway.a2a.versions.version import INTERRUPTED, TERMINAL


class Ending:
    """The end of one stream, in the words of the hub.

    Args:
        version: The client's generation.
    """

    __slots__ = ("_held", "_rested", "_version")

    def __init__(self, version: Version) -> None:
        self._version = version
        self._held: Tree | None = None
        # A status that went out as one that another event follows, and may yet have been the last.
        self._rested: Tree | None = None

    @property
    def holds(self) -> bool:
        """Whether an event is held back."""
        return self._held is not None

    def hold(self, event: Tree) -> bool:
        """Hold an event back if it may be the last; what was held before has been taken."""
        if self._version is Version.V1_0:
            return False
        if self._may_end(event):
            self._held = event
            return True
        if "statusUpdate" in event:
            self._rested = None
        return False

    def take(self, *, last: bool) -> Tree | None:
        """The event that was held back, or None.

        Args:
            last: Whether the stream has come to its end. The status in which its task rests is said again then, if it
                went out as one that another event follows.
        """
        event, self._held = self._held, None
        if last:
            event, self._rested = event or self._rested, None
        elif event is not None:
            self._rested = _bare(event)
        return event

    @property
    def is_over(self) -> bool:
        """Whether nothing can follow the event that is held back."""
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
    """The status of an event without its message, to say again; None where it has none."""
    body = event.get("statusUpdate") or event.get("task")
    if not body:
        return None
    status = {name: value for name, value in body["status"].items() if name != "message"}
    ids = {"taskId": body.get("taskId") or body.get("id"), "contextId": body.get("contextId")}
    return {"statusUpdate": {**ids, "status": status}}


def opening(event: Tree) -> tuple[Tree, ...]:
    """Return the events with which a stream begins whose agent begins it with this one, so that the Task comes first.

    A Task or a Message begins a stream (1.0 §3.1.2). An update is preceded by the Task that it is about, with its id,
    its context and the state that the update tells; an update that tells no more than that is not said again.
    """
    update = event.get("statusUpdate") or event.get("artifactUpdate")
    if update is None:
        return (event,)
    # A task whose artifact is being written is worked on.
    status = update.get("status") or {"state": "TASK_STATE_WORKING"}
    # Without its message: clients move that into the history once the update brings the same status again.
    known = {name: status[name] for name in ("state", "timestamp") if name in status}
    ids = {"id": update.get("taskId"), "contextId": update.get("contextId")}
    task = {"task": {**{name: value for name, value in ids.items() if value is not None}, "status": known}}
    says_more = status.keys() != known.keys() or any(value for name, value in update.items() if name not in _TOLD)
    # The end of a task, and that it waits for its client, is said by an update, also where a Task has said it.
    return (task, event) if says_more or status.get("state") in _RESTS else (task,)


_TOLD = frozenset({"taskId", "contextId", "status"})
_RESTS = TERMINAL | INTERRUPTED
