"""Two callers that have one word for their context, and how it is seen that they have two conversations."""

import re
import uuid
from collections.abc import Iterator

from a2a.types import GetTaskRequest, ListTasksRequest, Message, StreamResponse, Task

from tests.e2e.sdk import texts
from tests.e2e.shared_site import Party, Speech, Witness, asking

_CONTEXT = re.compile(r'"?context_?[iI]d"?: ?"([^"]*)"')


async def check_two_conversations(ours: Party, theirs: Party, agent: Witness, asked_in: Speech) -> None:
    """Under one word for a context each caller has a conversation of its own, and sees nothing of the other's."""
    context = f"chat-{uuid.uuid4().hex[:6]}"
    parties = {"ours": ours, "theirs": theirs}
    words: dict[str, list[str]] = {who: [f"{who}-{turn}-{uuid.uuid4()}" for turn in range(2)] for who in parties}
    tasks: dict[str, list[str]] = {who: [] for who in parties}
    for turn in range(2):
        for who, party in parties.items():
            tasks[who].append(await _converse(party, context, words[who][turn]))
    told = {who: {context_of(agent, word) for word in words[who]} for who in words}
    assert [len(contexts) for contexts in told.values()] == [1, 1]
    assert len(told["ours"] | told["theirs"] | {context}) == 3
    if asked_in.version == "1.0":
        for who, party in parties.items():
            recalled = await party.send("recall", context=context)
            assert texts(recalled)[0].partition(": ")[2] == ", ".join(words[who])
            if party.speech.version == "1.0":
                listed = await party.unary.list_tasks(ListTasksRequest(context_id=context, include_artifacts=True))
                assert {task.id for task in listed.tasks} == {*tasks[who], recalled.id}
                assert listed.total_size == len(listed.tasks)
                assert not any(set(_contexts(task)) - {context} for task in listed.tasks)


async def _converse(party: Party, context: str, word: str) -> str:
    """Say something in a context, and see it and nothing else everywhere; the task."""
    request = asking(f"remember {word}", context=context)
    events = [event async for event in party.streaming.send_message(request)]
    assert {found for event in events for found in _contexts_of(event)} == {context}
    assert word in str(events)
    [task_id] = {found.id if isinstance(found, Task) else found.task_id for found in map(_inner, events)}
    task = await party.unary.get_task(GetTaskRequest(id=task_id))
    assert set(_contexts(task)) == {context}
    assert texts(task)[0].endswith(word)
    assert [part.text for message in task.history for part in message.parts][:1] == [f"remember {word}"]
    return str(task.id)


def _inner(event: StreamResponse) -> Task | Message:
    found: Task | Message = getattr(event, event.WhichOneof("payload") or "")
    return found


def _contexts_of(event: StreamResponse) -> Iterator[str]:
    found = _inner(event)
    return _contexts(found) if isinstance(found, Task) else iter((found.context_id,))


def _contexts(task: Task) -> Iterator[str]:
    """Every context that a task names."""
    yield task.context_id
    for message in (*task.history, task.status.message):
        if message.message_id:
            yield message.context_id


def context_of(agent: Witness, word: str) -> str:
    """The context under which the agent heard a word."""
    [context] = set(_CONTEXT.findall(agent.call(word)))
    return str(context)
