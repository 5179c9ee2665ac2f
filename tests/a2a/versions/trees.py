"""Trees of the hub for property tests: by the letter of 1.0, each with one spelling only."""

from collections.abc import Callable
from copy import deepcopy
from decimal import Decimal
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st

from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation

MORE = settings(max_examples=2 * settings().max_examples)
"""For a test that draws an operation, a binding or a version beside what is said in it."""
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
NUMBERS = st.integers(-(10**20), 10**20) | st.decimals(allow_nan=False, allow_infinity=False).filter(
    lambda number: number.as_tuple().exponent != 0
)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(TEXTS, values, max_size=3),
    max_leaves=8,
)
METADATA = st.dictionaries(IDS.map("k-".__add__), JSON, min_size=1, max_size=3)
MOMENTS = st.builds("2026-02-03T04:05:0{}.{}Z".format, st.integers(0, 9), st.integers(0, 999_999_999))
STATES = st.sampled_from(
    [
        "TASK_STATE_" + name
        for name in (
            "SUBMITTED", "WORKING", "INPUT_REQUIRED", "AUTH_REQUIRED", "COMPLETED", "CANCELED", "FAILED", "REJECTED",
            "UNSPECIFIED",
        )
    ]
)  # fmt: skip


def record(required: dict[str, st.SearchStrategy[Any]], **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[Tree]:
    return st.fixed_dictionaries(required, optional=optional)


def parts(data: st.SearchStrategy[Any] = JSON, metadata: st.SearchStrategy[Tree] = METADATA) -> st.SearchStrategy[Tree]:
    beside = {"metadata": metadata, "mediaType": IDS, "filename": IDS}
    contents = {"text": TEXTS, "raw": st.sampled_from(["", "AP8=", "aGk="]), "url": TEXTS, "data": data}
    return st.one_of([record({name: held}, **beside) for name, held in contents.items()])


def messages(part: st.SearchStrategy[Tree], metadata: st.SearchStrategy[Tree] = METADATA) -> st.SearchStrategy[Tree]:
    return record(
        {"messageId": IDS, "role": st.sampled_from(["ROLE_USER", "ROLE_AGENT"]), "parts": st.lists(part, max_size=3)},
        contextId=IDS, taskId=IDS, metadata=metadata,
        extensions=st.lists(IDS, min_size=1, max_size=2), referenceTaskIds=st.lists(IDS, min_size=1, max_size=2),
    )  # fmt: skip


def artifacts(part: st.SearchStrategy[Tree], metadata: st.SearchStrategy[Tree] = METADATA) -> st.SearchStrategy[Tree]:
    return record(
        {"artifactId": IDS, "parts": st.lists(part, max_size=2)},
        name=IDS, description=IDS, metadata=metadata, extensions=st.lists(IDS, min_size=1, max_size=2),
    )  # fmt: skip


def statuses(message: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
    return record({"state": STATES}, message=message, timestamp=MOMENTS)


class Hub:
    """Strategies for everything, made of these parts and metadata.

    Args:
        marks: A member that nobody knows, beside each object's own; None for none.
    """

    def __init__(
        self,
        data: st.SearchStrategy[Any] = JSON,
        metadata: st.SearchStrategy[Tree] = METADATA,
        marks: str | None = None,
    ) -> None:
        self._mark = marks
        part = self._marked(parts(data, metadata))
        self.message = self._marked(messages(part, metadata))
        artifact = self._marked(artifacts(part, metadata))
        status = self._marked(statuses(self.message))
        self.task = self._marked(
            record(
                {"id": IDS, "contextId": IDS, "status": status},
                history=st.lists(self.message, min_size=1, max_size=2),
                artifacts=st.lists(artifact, min_size=1, max_size=2),
                metadata=metadata,
            )
        )
        of_a_task = {"taskId": IDS, "contextId": IDS}
        self.status_update = self._marked(record({**of_a_task, "status": status}, metadata=metadata))
        self.artifact_update = self._marked(
            record(
                {**of_a_task, "artifact": artifact},
                metadata=metadata, append=st.just(True), lastChunk=st.just(True),
            )
        )  # fmt: skip
        self.event: st.SearchStrategy[Tree] = st.one_of(
            [
                record({"task": self.task}),
                record({"message": self.message}),
                record({"statusUpdate": self.status_update}),
                record({"artifactUpdate": self.artifact_update}),
            ]
        )
        authentication = self._marked(record({"scheme": IDS}, credentials=TEXTS))
        push = {"token": TEXTS, "authentication": authentication}
        self.config = self._marked(record({"url": IDS, "taskId": IDS}, id=IDS, **push))
        self.configuration = self._marked(
            record(
                {},
                acceptedOutputModes=st.lists(TEXTS, max_size=2),
                historyLength=st.integers(1, 2**31 - 1),
                returnImmediately=st.just(True),
                taskPushNotificationConfig=self._marked(record({"url": IDS}, id=IDS, **push)),
            )
        )
        send = self._marked(record({"message": self.message, "configuration": self.configuration}, metadata=metadata))
        self.params: dict[Operation, st.SearchStrategy[Tree]] = {
            Operation.SEND_MESSAGE: send,
            Operation.SEND_STREAMING_MESSAGE: send,
            Operation.GET_TASK: self._marked(record({"id": IDS}, historyLength=st.integers(1, 2**31 - 1))),
            Operation.LIST_TASKS: record(
                {},
                contextId=IDS, status=STATES, pageSize=st.integers(1, 100), pageToken=IDS,
                historyLength=st.integers(0, 9), statusTimestampAfter=MOMENTS, includeArtifacts=st.booleans(),
            ),
            Operation.CANCEL_TASK: self._marked(record({"id": IDS}, metadata=metadata)),
            Operation.SUBSCRIBE_TO_TASK: self._marked(record({"id": IDS})),
            Operation.CREATE_PUSH_CONFIG: self.config,
            Operation.GET_PUSH_CONFIG: record({"taskId": IDS}, id=IDS),
            Operation.LIST_PUSH_CONFIGS: record({"taskId": IDS}),
            Operation.DELETE_PUSH_CONFIG: record({"taskId": IDS, "id": IDS}),
        }  # fmt: skip
        answer: st.SearchStrategy[Tree] = record({"task": self.task}) | record({"message": self.message})
        self.results: dict[Operation, st.SearchStrategy[Tree]] = {
            Operation.SEND_MESSAGE: answer,
            Operation.SEND_STREAMING_MESSAGE: answer,
            Operation.GET_TASK: self.task,
            Operation.CANCEL_TASK: self.task,
            Operation.LIST_TASKS: record(
                {
                    "tasks": st.lists(self.task, max_size=2), "nextPageToken": TEXTS,
                    "pageSize": st.integers(1, 100), "totalSize": st.integers(0, 2**31 - 1),
                }
            ),
            Operation.CREATE_PUSH_CONFIG: self.config,
            Operation.GET_PUSH_CONFIG: self.config,
            Operation.LIST_PUSH_CONFIGS: record({"configs": st.lists(self.config, max_size=2)}),
            Operation.DELETE_PUSH_CONFIG: record({}),
        }  # fmt: skip

    def _marked(self, trees: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        mark = self._mark
        if mark is None:
            return trees
        return st.builds(lambda tree, value: {**tree, mark: value}, trees, st.none() | st.just(Decimal("1.0")))


HUB = Hub()
ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda values: st.lists(values, max_size=3) | st.dictionaries(TEXTS, values, max_size=3),
    max_leaves=20,
)


@st.composite
def damaged(draw: Callable[[st.SearchStrategy[Any]], Any], trees: st.SearchStrategy[Any], names: list[str]) -> Any:
    """Trees in which some members are something else, gone, or there though they should not be."""
    tree = deepcopy(draw(trees))
    for _ in range(draw(st.integers(0, 3))):
        place = tree
        # Down at random, and there one change.
        while True:
            inner = [value for value in (place.values() if isinstance(place, dict) else place) if _holds(value)]
            if not inner or draw(st.booleans()):
                break
            place = draw(st.sampled_from(inner))
        # A copy: what is lifted is changed in place, and the strategy keeps its samples.
        value = deepcopy(draw(ANYTHING | st.sampled_from(["", "text", "task", [], {}, [{}]])))
        if isinstance(place, list):
            place[draw(st.integers(0, len(place) - 1))] = value
        else:
            name = draw(st.sampled_from([*place, *names]))
            if draw(st.booleans()):
                place.pop(name, None)
            else:
                place[name] = value
    return tree


def _holds(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and len(value) > 0)
