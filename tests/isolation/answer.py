"""A client's answer in any dialect: all of it as bytes, and the tasks and contexts that it names."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from google.protobuf.json_format import MessageToDict  # type: ignore[import-untyped]  # protobuf has no types

from tests.isolation.agent_over_grpc import messages
from tests.isolation.ask import GRPC_0_3, SCHEMA, Ask
from tests.support.gateway import Answer as HttpAnswer

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Sight:
    """A task, or something of it, that an answer names.

    Attributes:
        task: Empty where it is of a message without a task.
    """

    task: str
    context: str


@dataclass(frozen=True, slots=True)
class Told:
    """One answer.

    Attributes:
        ok: Whether it is a good one, or a stream that began well.
        plain: All of it but for the request's id; two answers with the same look alike to their client.
        text: All of it, to be searched.
        results: Its content: the result, or the events.
    """

    ok: bool
    plain: Any
    text: str
    results: tuple[Any, ...]

    @property
    def sights(self) -> list[Sight]:
        """The tasks that it is about, in order."""
        return [sight for result in self.results for sight in _sights(result)]

    def __str__(self) -> str:
        return self.text if len(self.text) < 600 else f"{self.text[:300]} ... {self.text[-300:]}"


def over_http(answer: HttpAnswer) -> Told:
    """Return the contents of an answer over HTTP."""
    documents: list[Any] = []
    if b"data:" in answer.body[:1024] or answer.header("content-type") == "text/event-stream":
        documents = [json.loads(line[5:]) for line in answer.body.split(b"\n") if line.startswith(b"data:")]
    elif answer.body:
        documents = [json.loads(answer.body)]
    results: list[Any] = []
    errors: list[Any] = []
    for document in documents:
        (errors if isinstance(document, dict) and "error" in document else results).append(document)
    ok = answer.status < 400 and (not errors or bool(results))
    inside = [document.get("result") if "jsonrpc" in document else document for document in results]
    head = "\n".join(f"{name}: {value}" for name, value in answer.headers)
    return Told(ok, answer.anonymous, f"{answer.status}\n{head}\n\n{answer.body.decode()}", tuple(inside))


def over_grpc(ask: Ask, said: list[bytes], code: str, words: str = "", *, trailers: Tree, headers: Tree) -> Told:
    """Return the contents of an answer over gRPC.

    Args:
        said: The messages.
        code: The name of the status; `words` are its message.
    """
    name = GRPC_0_3.get(ask.operation, ask.operation) if ask.speech.version == "0.3" else ask.operation
    _, gives = messages(SCHEMA[ask.speech.version], name)
    results = tuple(MessageToDict(gives.FromString(message)) for message in said)
    request = str(trailers.get("x-request-id") or headers.get("x-request-id") or "-")
    pairs = [(key, _readable(value)) for each in (headers, trailers) for key, value in sorted(each.items())]
    everything = (tuple(map(_readable, said)), code, words, tuple(pairs))
    plain = str(everything).replace(request, "ID")
    return Told(bool(said) or code == "OK", plain, f"{everything} {results}", results)


def _readable(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")


def _sights(result: Any) -> Iterator[Sight]:
    if isinstance(result, list):
        for each in result:
            yield from _sights(each)
    if not isinstance(result, dict):
        return
    for name in ("task", "statusUpdate", "artifactUpdate", "message"):
        if isinstance(result.get(name), dict) and "status" not in result:
            yield from _sights(result[name])
            return
    for task in result.get("tasks", ()):
        yield from _sights(task)
    is_message = "role" in result
    task = result.get("taskId") or ("" if is_message else result.get("id", ""))
    context = result.get("contextId") or result.get("sessionId") or ""
    if (context or "status" in result) and "url" not in result:
        yield Sight(task, context)
