"""Trees of A2A 0.1, by the letter, and of the hub as far as 0.1 can be told; for property tests."""

from typing import Any

from hypothesis import strategies as st

from tests.support.ancient import STATES, Tree

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
"""Any JSON."""
IDS = st.text("abcdefgh-0123", min_size=1, max_size=6)
WORDS = st.text(max_size=6)
FILLED = st.text(min_size=1, max_size=6)
METADATA = st.dictionaries(st.sampled_from(("a", "b", "type", "messageId")), ANYTHING, min_size=1, max_size=2)
"""Metadata that holds something, since empty metadata and none mean the same."""
MOMENTS = st.datetimes().map(lambda moment: moment.isoformat(timespec="milliseconds") + "Z")


def some(*, may: dict[str, st.SearchStrategy[Any]], **must: st.SearchStrategy[Any]) -> st.SearchStrategy[Tree]:
    return st.fixed_dictionaries(must, optional=may)


# ---- 0.1 -----------------------------------------------------------------------------------------------------------

_MORE: dict[str, st.SearchStrategy[Any]] = {"metadata": METADATA}
_NAMES: dict[str, st.SearchStrategy[Any]] = {"name": FILLED, "mimeType": FILLED}

PARTS = (
    some(type=st.just("text"), text=WORDS, may=_MORE)
    | some(type=st.just("data"), data=st.dictionaries(WORDS, ANYTHING, max_size=3), may=_MORE)
    | some(type=st.just("file"), file=some(bytes=st.just("AP8="), may=_NAMES) | some(uri=FILLED, may=_NAMES), may=_MORE)
)
MESSAGES = some(role=st.sampled_from(("user", "agent")), parts=st.lists(PARTS, max_size=3), may=_MORE)
STATUSES = some(state=st.sampled_from(STATES), may={"message": MESSAGES, "timestamp": MOMENTS})
_ARTIFACT: dict[str, st.SearchStrategy[Any]] = {"name": WORDS, "description": WORDS, **_MORE}
ARTIFACTS = some(parts=st.lists(PARTS, max_size=2), may=_ARTIFACT)


def _numbered(artifacts: list[Tree]) -> list[Tree]:
    return [{**artifact, "index": index} for index, artifact in enumerate(artifacts)]


TASKS = some(
    id=IDS,
    sessionId=IDS,
    status=STATUSES,
    may={
        "artifacts": st.lists(ARTIFACTS, min_size=1, max_size=3).map(_numbered),
        "history": st.lists(MESSAGES, min_size=1, max_size=3),
        **_MORE,
    },
)
_RESTING = ("completed", "canceled", "failed", "input-required")
STATUS_EVENTS = some(id=IDS, status=STATUSES, may=_MORE).flatmap(
    lambda event: (
        st.just(event["status"]["state"] in _RESTING)
        .flatmap(lambda rests: st.booleans() if rests else st.just(value=False))
        .map(lambda final: {**event, "final": final})
    )
)
ARTIFACT_EVENTS = some(
    id=IDS,
    artifact=some(
        parts=st.lists(PARTS, max_size=2),
        index=st.just(0),
        append=st.booleans(),
        lastChunk=st.booleans(),
        may=_ARTIFACT,
    ),
    may=_MORE,
)
_AUTHENTICATION = some(schemes=st.lists(FILLED, min_size=1, max_size=1), may={"credentials": WORDS})
PUSHES = some(url=FILLED, may={"token": WORDS, "authentication": _AUTHENTICATION})
TASK_PUSHES = some(id=IDS, pushNotificationConfig=PUSHES, may={})
SENDS = some(
    id=IDS,
    sessionId=IDS,
    message=MESSAGES,
    historyLength=st.integers(0, 2**31 - 1),
    may={
        "acceptedOutputModes": st.lists(WORDS, min_size=1, max_size=2),
        "pushNotification": PUSHES,
        **_MORE,
    },
)


@st.composite
def spoilt(draw: st.DrawFn, trees: st.SearchStrategy[Tree]) -> Tree:
    """A tree with one value somewhere in it replaced by any JSON, or one member gone."""
    tree: Any = draw(trees)
    at: Any = tree
    while True:
        key = draw(st.sampled_from(sorted(at))) if isinstance(at, dict) else draw(st.integers(0, len(at) - 1))
        if not (isinstance(at[key], dict | list) and at[key]) or draw(st.integers(0, 2)) == 0:
            break
        at = at[key]
    if draw(st.booleans()):
        at[key] = draw(ANYTHING | IDS)
    else:
        del at[key]
    return dict(tree)


# ---- The hub -------------------------------------------------------------------------------------------------------

_BESIDE: dict[str, st.SearchStrategy[Any]] = {"mediaType": FILLED, "filename": FILLED, **_MORE}
_URIS = st.lists(FILLED, min_size=1, max_size=2)

HUB_PARTS = (
    some(text=WORDS, may=_BESIDE)
    | some(raw=st.just("AP8="), may=_BESIDE)
    | some(url=FILLED, may=_BESIDE)
    | some(data=ANYTHING, may=_BESIDE)
)
HUB_STATES = st.sampled_from((
    "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED",
    "TASK_STATE_CANCELED", "TASK_STATE_FAILED", "TASK_STATE_UNSPECIFIED",
))  # fmt: skip
ROLES = st.sampled_from(("ROLE_USER", "ROLE_AGENT"))
HUB_MESSAGES = some(
    messageId=IDS,
    taskId=st.just("t"),
    contextId=st.just("c"),
    role=ROLES,
    parts=st.lists(HUB_PARTS, max_size=3),
    may={"extensions": _URIS, "referenceTaskIds": _URIS, **_MORE},
)
HUB_ARTIFACTS = some(parts=st.lists(HUB_PARTS, max_size=2), may={**_ARTIFACT, "extensions": _URIS})


def _named(artifacts: list[Tree]) -> list[Tree]:
    return [{**artifact, "artifactId": str(index)} for index, artifact in enumerate(artifacts)]


HUB_TASKS = some(
    id=st.just("t"),
    contextId=st.just("c"),
    status=some(state=HUB_STATES, may={"message": HUB_MESSAGES, "timestamp": MOMENTS}),
    may={
        "artifacts": st.lists(HUB_ARTIFACTS, min_size=1, max_size=3).map(_named),
        "history": st.lists(HUB_MESSAGES, min_size=1, max_size=3),
        **_MORE,
    },
)
HUB_SENDS = some(
    message=HUB_MESSAGES,
    may={
        "configuration": some(
            may={
                "historyLength": st.integers(0, 2**31 - 1),
                "acceptedOutputModes": _URIS,
                "returnImmediately": st.booleans(),
                "taskPushNotificationConfig": some(url=FILLED, may={"id": IDS, "token": WORDS}),
            }
        ),
        **_MORE,
    },
)
HUB_EVENTS = (
    some(task=HUB_TASKS, may={})
    | some(message=HUB_MESSAGES, may={})
    | some(
        statusUpdate=some(
            taskId=st.just("t"),
            contextId=st.just("c"),
            status=some(state=HUB_STATES, may={"message": HUB_MESSAGES}),
            may=_MORE,
        ),
        may={},
    )
    | some(
        artifactUpdate=some(
            taskId=st.just("t"),
            contextId=st.just("c"),
            artifact=HUB_ARTIFACTS.map(lambda artifact: {**artifact, "artifactId": "0"}),
            may={"append": st.just(value=True), "lastChunk": st.just(value=True), **_MORE},
        ),
        may={},
    )
)
