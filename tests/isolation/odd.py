"""Places where an id may stand besides its own: other names, other spellings, other objects, the query, the path.

A place is a way to an object, a name in it, and a form of the id. Agents differ in where they look, and parsers in what
they take: some fold case (Go), some keep the first of two members and some the last, some coerce.
"""

import json
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

from tests.isolation.heard import CONTEXTS as HEARD_CONTEXTS
from tests.isolation.heard import folded

Tree = dict[str, Any]

PUSHES = (
    "taskPushNotificationConfig", "task_push_notification_config", "pushNotificationConfig",
    "push_notification_config", "pushNotification", "push_notification", "config", "PushNotificationConfig",
)  # fmt: skip
_PUSHES = tuple((name,) for name in PUSHES)
WAYS: tuple[tuple[str, ...], ...] = (
    (),
    ("message",),
    ("request",),
    ("Message",),
    ("configuration",),
    *((name,) for name in PUSHES),
    *(("configuration", name) for name in PUSHES),
    ("config", "pushNotificationConfig"),
    ("envelope",),
    ("query",),
)
"""From the parameters down; but the JSON-RPC envelope, and the query of the request."""
TASKS = (
    "id", "ID", "Id", "taskId", "task_id", "TaskId", "taskID", "taskid", "tas\u212aId", "\\taskId", "name", "parent",
    "Name", "referenceTaskIds", "reference_task_ids", "referencetaskids", "ReferenceTaskIds", "message.taskId",
    "\\id", "\\referenceTaskIds",
)  # fmt: skip
"""Names that a task may have; behind a backslash, with a letter escaped as JSON allows."""
_EXACT = (
    "id", "\\id", "taskId", "\\taskId", "task_id", "name", "parent", "referenceTaskIds", "\\referenceTaskIds",
    "reference_task_ids",
)  # fmt: skip
CONTEXTS = (
    "contextId", "context_id", "ContextId", "contextID", "contextid", "sessionId", "session_id", "SessionID",
    "\\contextId", "message.contextId",
)  # fmt: skip
FORMS = ("{}", "tasks/{}", "tasks/{}/pushNotificationConfigs/p", "/tasks/{}", "{} ", "{}\n", "{}\u0000", "[]", "{:}")


@dataclass(frozen=True, slots=True)
class Odd:
    """One more id in a call.

    Attributes:
        way: One of `WAYS`.
        name: One of `TASKS` or `CONTEXTS`.
        form: One of `FORMS`: what is written of the id; the last two are a list and an object that hold it.
        first: Whether it stands before what else is there.
    """

    way: tuple[str, ...]
    name: str
    form: str
    value: str
    first: bool = False

    @property
    def is_context(self) -> bool:
        """Whether it is a context, and not a task."""
        return folded(self.name.removeprefix("\\")).rpartition(".")[2] in HEARD_CONTEXTS

    @property
    def in_query(self) -> bool:
        return self.way == ("query",)

    @property
    def is_config(self) -> bool:
        """Whether it may be the name of a push configuration, which clients choose."""
        return folded(self.name.removeprefix("\\")) == "id" and (self.way == () or self.way[-1:] in _PUSHES)

    def tells(self, operation: str, binding: str, version: str) -> bool:
        """Whether somebody may look for an id there: where some generation has one, under any name that is like its."""
        sends, creates = operation.startswith("Send"), operation.startswith("Create")
        if self.in_query:
            # Over HTTP+JSON whatever is like an id is refused there, but what only 0.1 has.
            read = self.form == "{}" and self.name in ("taskId", "task_id", "contextId", "context_id")
            return read or (binding == "rest" and not self.name.lower().startswith("session"))
        name = folded(self.name.removeprefix("\\"))
        in_message = sends and self.way in (("message",), ("request",))
        in_push = self.is_in_push(sends=sends, creates=creates)
        match name:
            case "name" | "parent":
                return self.form.startswith("tasks/") and ((self.way == () and not sends) or in_push)
            case "referencetaskids":
                return self.form in ("{}", "[]") and (in_message or (sends and self.way == ()))
            case "id":
                # There it is the name of the push configuration.
                flat = version == "1.0" and "Push" in operation
                return self.form == "{}" and self.way == () and not flat
            case "taskid":
                return self.form == "{}" and (self.way == () or in_message or in_push)
            case "sessionid":
                return self.way == ()
        return name in HEARD_CONTEXTS and (self.way == () or in_message)

    def is_in_push(self, *, sends: bool, creates: bool) -> bool:
        return (sends and "config" not in self.way and self.way[-1:] in _PUSHES) or (
            creates and self.way[:1] in _PUSHES
        )

    @property
    def written(self) -> Any:
        """The value, as JSON has it."""
        if self.form == "{:}":
            return {"id": self.value}
        listed = "eference" in self.name and self.form == "{}"
        return [self.value] if listed or self.form == "[]" else self.form.format(self.value)


@cache
def telling(operation: str, binding: str, version: str) -> tuple[tuple[Odd, ...], ...]:
    """All places where an agent that is as strict as can be looks for a task: those that are alike together."""
    sends, creates = operation.startswith("Send"), operation.startswith("Create")
    found: dict[tuple[str, str], list[Odd]] = {}
    for way, name, form, first in product(WAYS, _EXACT, FORMS, (False, True)):
        odd = Odd(way, name, form, "", first=first)
        if odd.tells(operation, binding, version):
            where = "push" if odd.is_in_push(sends=sends, creates=creates) else ".".join(way)
            found.setdefault((where, folded(name.removeprefix("\\"))), []).append(odd)
    return tuple(map(tuple, found.values()))


class Twin(str):
    """A name that may stand twice in one object."""

    __slots__ = ()
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other


def put(envelope: Tree, params: Tree, odd: Odd) -> None:
    """Put an id where it is odd; objects on the way there are made."""
    held = envelope if odd.way == ("envelope",) else params
    for step in odd.way if odd.way != ("envelope",) else ():
        inside = held.get(step)
        if not isinstance(inside, dict):
            inside = held[step] = {}
        held = inside
    name: str = odd.name if odd.name not in held else Twin(odd.name)
    if odd.first:
        before = dict(held)
        held.clear()
        held[name] = odd.written
        held.update(before)
    else:
        held[name] = odd.written


def dumped(tree: Any) -> bytes:
    """JSON of a tree in which names may stand twice, and some letters of names are escaped."""
    text = json.dumps(tree, ensure_ascii=False)
    for name in (*TASKS, *CONTEXTS):
        if name[0] == "\\":
            text = text.replace(json.dumps(name), f'"\\u{ord(name[1]):04x}{name[2:]}"')
    return text.encode()
