"""What every generation can do: say its own objects in the words of the hub, and the hub's in its own.

The hub is A2A 1.0 as ProtoJSON writes it: camelCase names, enumerations by name, `Part` and results as oneofs. A form
*lifts* what it reads to the hub and *lowers* the hub's to what it writes, so that any two of them understand each other
by way of it: V files, never V by V. What the hub holds for each operation:

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

The `tenant` field is no part of it: who translates takes it out before and puts it in after. Cards are rebuilt
(`served_card`), never translated. A GET of a push configuration that names no `id` means the task's only one.
"""

from typing import Any, ClassVar, Protocol

import msgspec

from gateway.a2a.dialect import Version
from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation

TERMINAL = frozenset({
    "TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED",
})  # fmt: skip
"""States after which nothing comes (1.0 §4.1.3), as the hub spells them."""
INTERRUPTED = frozenset({"TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED"})
"""States in which a task waits for its client."""


class Misfit(ValueError):  # noqa: N818 - named after what is wrong, as every refusal here
    """A tree that is not what its generation says.

    Attributes:
        field: The way to it from the parameters or the result down, as `message.parts[0].kind`; empty for the whole.
        words: What is wrong there, for whoever wrote it: never a value, which may be long or secret.
    """

    def __init__(self, field: str, words: str) -> None:
        super().__init__(f"{field}: {words}" if field else words)
        self.field = field
        self.words = words


class Loss(msgspec.Struct, frozen=True):
    """One thing that another generation cannot be told.

    Attributes:
        what: The member or value, in its own generation's words.
        toward: The generation, or the spelling of one, that has no word for it.
        instead: What happens: what is written in its place, or that it is dropped or refused.
    """

    what: str
    toward: str
    instead: str


class Memo(msgspec.Struct):
    """What is remembered of one call between its frames, where one generation leaves out what another must say.

    Attributes:
        task_id: The task that the call is about, as the hub knows it: named by the request, or by an earlier frame.
        context_id: Its context, likewise.
        message_id: An id for a message that has none, as those of 0.1; the same when the same request comes again.
        new_id: An id for a task whose client has to make one (0.1), where the request names none.
        history: Most messages of history that the client wants of a task; None for all.
        artifacts: Index of each artifact by its `artifactId`, which 0.1 counts; in the order in which they were met.
    """

    task_id: str | None = None
    context_id: str | None = None
    message_id: str = ""
    new_id: str = ""
    history: int | None = None
    artifacts: dict[str, int] = msgspec.field(default_factory=dict)


class Form(Protocol):
    """One generation's objects in one spelling.

    Trees are consumed: what is given may be changed in place and become part of what is returned. Members that no
    generation knows survive where the other side can hold them. Integers stay integers; other numbers come as
    `decimal.Decimal`, which the encoder writes digit by digit. A member that is null counts as absent.

    Attributes:
        answers: Operations that an agent of this generation has.
        losses: What cannot be said in this form, and what happens to it.
    """

    version: ClassVar[Version]
    answers: ClassVar[frozenset[Operation]]
    losses: ClassVar[tuple[Loss, ...]]

    def lift_params(self, operation: Operation, params: Tree, memo: Memo) -> Tree:
        """A client's parameters, in the hub's words.

        Raises:
            Misfit: a member of a wrong type or value, or one missing that the generation requires.
        """

    def lower_params(self, operation: Operation, params: Tree, memo: Memo) -> Tree:
        """The hub's parameters, as an agent of this generation reads them."""

    def lift_result(self, operation: Operation, result: Any, memo: Memo) -> Tree:  # noqa: ANN401 - null, or a list
        """An agent's result, in the hub's words.

        Raises:
            Misfit: as `lift_params`.
        """

    def lower_result(self, operation: Operation, result: Tree, memo: Memo) -> Any:  # noqa: ANN401 - as above
        """The hub's result, as a client of this generation reads it."""

    def lift_event(self, event: Tree, memo: Memo) -> Tree:
        """One event of an agent's stream, in the hub's words.

        Raises:
            Misfit: as `lift_params`.
        """

    def lower_event(self, event: Tree, memo: Memo, *, last: bool) -> tuple[Tree, ...]:
        """The hub's event, as a client of this generation reads it: one event, or what it takes to say the same.

        Args:
            last: Whether the stream ends with it; older generations say so in the event.
        """
