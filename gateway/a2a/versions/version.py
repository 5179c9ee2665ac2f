"""The contract of a version: translate its objects to the hub's, and the hub's to its own.

The hub is A2A 1.0 as ProtoJSON writes it: camelCase names, enumerations by name, `Part` and results as oneofs. A form
*lifts* its own objects to the hub and *lowers* the hub's objects to its own. Any two versions understand each other
through the hub: V files, never V by V. The hub's objects for each operation:

| operation | parameters | result |
|---|---|---|
| both sends | `SendMessageRequest` | `{"task": ...}` or `{"message": ...}` |
| GetTask, CancelTask | `{"id", "historyLength"?}`, `{"id", "metadata"?}` | `Task` |
| ListTasks | `ListTasksRequest` | `ListTasksResponse` |
| SubscribeToTask | `{"id"}` | none |
| CreateTaskPush… | the configuration, flat: `{"id"?, "taskId", "url", "token"?, "authentication"?}` | the same |
| Get…, Delete… | `{"taskId", "id"?}` | the configuration, flat; `{}` |
| List… | `{"taskId", "pageSize"?, "pageToken"?}` | `{"configs": [...], "nextPageToken"?}` |
| an event of a stream | none | `StreamResponse`: `{"task" | "message" | "statusUpdate" | "artifactUpdate": ...}` |

The `tenant` field is not part of it: the caller removes it before and adds it after. Cards are rebuilt, never
translated. A GET of a push configuration without an `id` means the task's only one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from gateway.a2a import task_state
from gateway.a2a.dialect import Version
from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.task_state import HUB_STATES, STATES

TERMINAL = frozenset(HUB_STATES[STATES.index(state)] for state in task_state.TERMINAL)
INTERRUPTED = frozenset(HUB_STATES[STATES.index(state)] for state in task_state.INTERRUPTED)
"""The same states as in `task_state`, as the hub spells them."""
RESTING = TERMINAL | INTERRUPTED
"""States in which older versions end a stream."""


class Misfit(ValueError):  # noqa: N818 - named after what is wrong, as every refusal here
    """An object that breaks the rules of its version.

    Attributes:
        field: The path of the wrong member, as `message.parts[0].kind`; empty for the whole.
        words: The mistake, for its author: never a value, which may be long or secret.
    """

    def __init__(self, field: str, words: str) -> None:
        super().__init__(f"{field}: {words}" if field else words)
        self.field = field
        self.words = words

    def beneath(self, path: str) -> "Misfit":
        """Return the same mistake as seen from further up, where `path` leads to the object with the mistake."""
        if not self.field:
            return Misfit(path, self.words)
        return Misfit(f"{path}{self.field}" if self.field[0] == "[" else f"{path}.{self.field}", self.words)


class Memo(msgspec.Struct):
    """State of one call between its frames, for members that one version omits and another requires.

    Attributes:
        task_id: The task of the call in the hub's words: named by the request, or by an earlier frame.
        context_id: Its context, likewise.
        message_id: An id for a message that has none, as those of 0.1; the same when the same request comes again.
        new_id: An id for a task whose client has to make one (0.1), where the request names none.
        history: Most messages of history that the client wants of a task; None for all.
        artifacts: Index of each artifact by its `artifactId`, which 0.1 counts; in the order of their appearance.
    """

    task_id: str | None = None
    context_id: str | None = None
    message_id: str = ""
    new_id: str = ""
    history: int | None = None
    artifacts: dict[str, int] = msgspec.field(default_factory=dict)


Step = Callable[[Any, Memo], Any]
"""Translates one value; most steps are a `schema.Schema`. The value may be changed in place."""


def _keep(value: Tree, memo: Memo) -> Tree:  # noqa: ARG001 - as every step
    """Return the object as it is."""
    return value


def _keep_object(result: Tree, memo: Memo) -> Tree:  # noqa: ARG001 - as every step
    """Return an agent's result as it is, which is an object."""
    if type(result) is not dict:
        raise Misfit("", "must be an object")
    return result


@dataclass(frozen=True, slots=True)
class Rules:
    """The steps for one operation; those that are left out keep the object as it is.

    Attributes:
        params_up: Lifts a client's parameters.
        params_down: Lowers those for an agent.
        result_up: Lifts an agent's result.
        result_down: Lowers that for a client.
    """

    params_up: Step = _keep
    params_down: Step = _keep
    result_up: Step = _keep_object
    result_down: Step = _keep


_NO_RULES = Rules()


@dataclass(frozen=True, slots=True)
class Form:
    """The objects of one version in one spelling, translated to the hub and back.

    Trees are consumed: an argument may be changed in place and become part of the result. Unknown members survive where
    the other side can hold them. Integers stay integers; other numbers come as `decimal.Decimal`, which the encoder
    writes digit by digit. A member that is null counts as absent.

    Attributes:
        answers: Operations that an agent of this version has.
        rules: The steps for each operation; objects of other operations stay as they are.
        event_up: Lifts one event of an agent's stream.
        event_down: Lowers one event, as one or more events of this version; told whether the stream ends with it.
    """

    version: Version
    answers: frozenset[Operation]
    rules: Mapping[Operation, Rules]
    event_up: Step
    event_down: Callable[[Tree, Memo, bool], tuple[Tree, ...]]

    def lift_params(self, operation: Operation, params: Tree, memo: Memo) -> Tree:
        """Return a client's parameters in the hub's words.

        Raises:
            Misfit: a member has a wrong type or value, or one is missing that the version requires.
        """
        lifted: Tree = self.rules.get(operation, _NO_RULES).params_up(params, memo)
        return lifted

    def lower_params(self, operation: Operation, params: Tree, memo: Memo) -> Tree:
        """Return the hub's parameters as an agent of this version reads them."""
        if operation.sends and not params["message"].get("messageId"):
            params["message"]["messageId"] = memo.message_id
        lowered: Tree = self.rules.get(operation, _NO_RULES).params_down(params, memo)
        return lowered

    def lift_result(self, operation: Operation, result: Any, memo: Memo) -> Tree:  # noqa: ANN401 - null, or a list
        """Return an agent's result in the hub's words.

        Raises:
            Misfit: as `lift_params`.
        """
        if operation is Operation.DELETE_PUSH_CONFIG:
            return {}
        lifted: Tree = self.rules.get(operation, _NO_RULES).result_up(result, memo)
        return lifted

    def lower_result(self, operation: Operation, result: Tree, memo: Memo) -> Any:  # noqa: ANN401 - as above
        """Return the hub's result as a client of this version reads it."""
        return self.rules.get(operation, _NO_RULES).result_down(result, memo)

    def lift_event(self, event: Tree, memo: Memo) -> Tree:
        """Return one event of an agent's stream in the hub's words.

        Raises:
            Misfit: as `lift_params`.
        """
        lifted: Tree = self.event_up(event, memo)
        return lifted

    def lower_event(self, event: Tree, memo: Memo, *, last: bool) -> tuple[Tree, ...]:
        """Return the hub's event as a client of this version reads it: one event, or several equivalent ones.

        Args:
            last: Whether the stream ends with it; older versions say so in the event.
        """
        return self.event_down(event, memo, last)
