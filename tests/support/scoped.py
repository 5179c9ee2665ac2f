"""The HTTP paths of ScopedA2AService as a client calls them, and a gateway whose agents they find by their scope."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.operation import Operation
from gateway.a2a.paths import read_rest, segments
from tests.a2a.dialects import events_of, vector
from tests.support.gateway import JSON, Answer, Pairs, Running, agent, running
from tests.support.kept import shared
from tests.support.scripted import Received, Script, ScriptedBackend, Wire, chunk, head

V0_3 = Dialect(Binding.REST, Version.V0_3)
V1_0 = Dialect(Binding.REST, Version.V1_0)
NAMES = {V0_3: "v0.3-rest", V1_0: "v1.0-rest"}
SAYS_0_3 = (b"A2A-Version", b"0.3")
SAYS_1_0 = (b"A2A-Version", b"1.0")

PROPOSED: list[str] = vector("tenant")["scoped_proposal"]["paths"]
"""Method and path of each of the ten."""


def operation_of(path: str) -> Operation:
    method, _, template = path.partition(" ")
    found = read_rest(method, segments(filled(template).encode()), tenanted=True)
    assert found is not None
    assert found.operation is not None
    return found.operation


def filled(template: str, scope: str = "acme") -> str:
    return template.format(scope=scope, id="task-7", cid="cfg-1")


def request_of(operation: Operation, dialect: Dialect) -> dict[str, Any]:
    """The vector's request of this dialect."""
    found: dict[str, Any] = vector(operation.value)["request"][NAMES[dialect]]["http"]
    return found


def said(operation: Operation, dialect: Dialect) -> bytes | None:
    """The body that a client of this dialect sends, without a tenant; None for none."""
    body = request_of(operation, dialect).get("body")
    if body is None:
        return None
    if dialect is V1_0:
        body = {name: value for name, value in body.items() if name != "tenant"}
        body.get("configuration", {}).get("taskPushNotificationConfig", {}).pop("tenant", None)
    return json.dumps(body).encode()


def plays(dialect: Dialect) -> Script:
    """An agent that answers every operation as the vectors have it."""

    async def script(wire: Wire) -> None:
        while True:
            await wire.send(answer_of(await wire.request(), dialect))

    return script


def answer_of(request: Received, dialect: Dialect) -> bytes:
    found = read_rest(request.method.decode(), segments(request.target.partition(b"?")[0]), tenanted=True)
    assert found is not None
    assert found.operation is not None
    content = vector(found.operation.value)
    if "events" in content:
        opening = head(b"transfer-encoding: chunked", content_type=b"text/event-stream")
        events = [chunk(b"data: " + event + b"\n\n") for event in events_of(content, NAMES[dialect])]
        return opening + b"".join(events) + chunk(b"")
    # 0.3 has no answer to a deletion.
    body = json.dumps(content["response"].get(NAMES[dialect], {"http": {"body": {}}})["http"]["body"]).encode()
    return head(b"content-length: %d" % len(body), content_type=b"application/json") + body


@asynccontextmanager
async def scoped(dialect: Dialect, more: str = "", before: str = "") -> AsyncIterator[tuple[Running, ScriptedBackend]]:
    """A gateway whose agents are found at the root by tenant: acme's `one` and globex's `two`, at one backend.

    Args:
        more: Further settings of each agent, as YAML in braces.
        before: Text in front of `agents:`.
    """
    async with shared(("scoped", dialect, more, before), lambda: _scoped(dialect, more, before)) as (found, used):
        if used:
            await found[0].forget()
            await found[1].plays(agent(plays(dialect)))
        yield found


@asynccontextmanager
async def _scoped(dialect: Dialect, more: str, before: str) -> AsyncIterator[tuple[Running, ScriptedBackend]]:
    async with ScriptedBackend(agent(plays(dialect))) as backend:
        at = f'{{ url: "{backend.url}", protocol: {dialect.binding.label}, a2a_version: "{dialect.version}" }}'
        text = f"""\
{before}
agents:
  one: {{ match: {{ path: /, tenant: acme }}, backend: {at} {more} }}
  two: {{ match: {{ path: /, tenant: globex }}, backend: {at} {more} }}
"""
        async with running(text) as gateway:
            yield gateway, backend


async def ask(
    gateway: Running, path: str, dialect: Dialect, headers: Pairs = (), *, scope: str = "acme", query: str = ""
) -> Answer:
    """Call one of the ten as a client of this dialect does, with the vector's body."""
    method, _, template = path.partition(" ")
    body = said(operation_of(path), dialect)
    return await gateway.ask(
        method, filled(template, scope) + query, body, (*((JSON,) if body is not None else ()), *headers)
    )


def modern(path: str) -> str:
    """Method and path as 1.0 has them."""
    return path.replace("/{scope}/v1/card", "/{scope}/extendedAgentCard").replace("/{scope}/v1/", "/{scope}/")
