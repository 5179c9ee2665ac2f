"""A refusal is the same whatever the length of the call: over every binding, in the log and in the metrics."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from google.protobuf import json_format  # type: ignore[import-untyped]  # protobuf ships no types

from gateway.a2a.bindings.grpc_method import SCOPE_FIELD, method_of
from gateway.a2a.bindings.grpc_schema import request_class
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.operation import Operation
from tests.doubles.gateway import RESULT, agent, keys, running, secret
from tests.doubles.grpc_agent import grpc_over
from tests.doubles.grpc_bytes import held
from tests.doubles.grpc_gateway import LISTENS
from tests.doubles.grpc_tenants import Site, Told
from tests.doubles.scripted import ScriptedBackend, answers, refused_port, whole

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("grpc_over")]
__all__ = ("grpc_over",)

ASIDE = 256 * 1024
LIMIT = 512 * 1024
SHORT = 2048
"""Bytes of a call that is read on the loop."""
LENGTHS = (ASIDE - 1, ASIDE, LIMIT)
V0_3, V1_0 = Version.V0_3, Version.V1_0
SEND, STREAM = Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE
DIALECTS = [Dialect(binding, version) for binding in Binding for version in (V1_0, V0_3)]
MODERN = [dialect for dialect in DIALECTS if dialect.version is V1_0]
METHODS = {
    V1_0: {SEND: "SendMessage", STREAM: "SendStreamingMessage"},
    V0_3: {SEND: "message/send", STREAM: "message/stream"},
}
VERBS = {SEND: "message:send", STREAM: "message:stream"}


@dataclass(frozen=True)
class Kind:
    """A call that is refused.

    Attributes:
        reason: Why, as log and metrics say it.
        agent: The agent that is called.
        change: Changes the parameters, as the generation writes them.
        spoil: Changes the body.
    """

    reason: str
    agent: str = "echo"
    key: str = "acme"
    headers: tuple[tuple[bytes, bytes], ...] = ()
    change: Callable[[dict[str, Any], Version], None] = lambda _params, _version: None
    spoil: Callable[[bytes], bytes] = lambda body: body
    dialects: Sequence[Dialect] = tuple(DIALECTS)


@dataclass(frozen=True)
class Refusal:
    """What the client is told, and what log and metrics say of it."""

    heard: object
    said: dict[str, Any]
    counted: dict[str, float]


def _tenant(tenant: str) -> Callable[[dict[str, Any], Version], None]:
    return lambda params, _version: params.update(tenant=tenant)


def _task(params: dict[str, Any], _version: Version) -> None:
    params["message"]["taskId"] = "somebody's"


def _webhook(params: dict[str, Any], version: Version) -> None:
    name = "taskPushNotificationConfig" if version is V1_0 else "pushNotificationConfig"
    params["configuration"] = {name: {"url": "http://169.254.169.254/"}}


KINDS = {
    "nobody's key": Kind("auth_missing", key=""),
    "an agent that the caller may not reach": Kind("tenant_denied", agent="other"),
    "too many at a time": Kind("rate_limited", agent="slow"),
    "an encoded body": Kind("bad_request", headers=((b"content-encoding", b"br"),), dialects=[
        each for each in DIALECTS if each.binding is not Binding.GRPC]),
    "a version that nobody speaks": Kind("version_unsupported", headers=((b"a2a-version", b"7.0"),)),
    "half a body": Kind("bad_request", spoil=lambda body: body[:-1]),
    "a body that is none": Kind("bad_request", spoil=lambda body: b"\xff" * len(body)),
    "a tenant that is none": Kind("bad_request", agent="split", change=_tenant("a\x01"), dialects=MODERN),
    "a tenant that nobody is": Kind("no_route", agent="split", change=_tenant("nobody"), dialects=MODERN),
    "another's tenant": Kind("no_route", agent="split", change=_tenant("globex"), dialects=MODERN),
    "a method that is not offered": Kind("method_not_allowed", agent="few"),
    "a webhook at an address within": Kind("push_denied", change=_webhook),
    "a task that nobody made": Kind("task_not_owned", agent="kept", change=_task),
    "an agent that is gone": Kind("upstream_connect", agent="gone"),
    "an agent that answers nonsense": Kind("upstream_protocol", agent="mad"),
}  # fmt: skip


@asynccontextmanager
async def standing() -> AsyncIterator[Site]:
    async with (
        ScriptedBackend(agent(answers(whole(RESULT)))) as good,
        ScriptedBackend(agent(answers(whole(b"[")))) as mad,
    ):
        speaks = 'protocol: jsonrpc, a2a_version: "1.0"'

        def entry(name: str, url: str, more: str = "") -> str:
            at = f"match: {{ path: /{name} }}"
            return f'  {name}: {{ {at}, backend: {{ url: "{url}", {speaks} }}{more} }}\n'

        split = f'{{ backend: {{ url: "{good.url}", {speaks} }} }}'
        text = (
            f"gateway: {{ {LISTENS}, body_limit: {LIMIT} }}\n{keys(acme='acme', globex='globex')}\n"
            "tenants: { acme: [echo, split, slow, few, kept, gone, mad], globex: [split, other] }\n"
            "defaults: { isolation: none }\nagents:\n"
            + entry("echo", good.url)
            + entry("other", good.url)
            + entry("slow", good.url, ", limits: { requests: 1/h, burst: 1 }")
            + entry("few", good.url, ", methods: [GetTask]")
            + entry("kept", good.url, ", isolation: tenant")
            + entry("gone", f"http://127.0.0.1:{refused_port()}")
            + entry("mad", mad.url)
            + "  split: { match: { path: /split }, "
            f"by_tenant: {{ acme: {split}, globex: {split} }} }}\n"
        )
        async with running(text) as gateway:
            site = Site(gateway, {}, {})
            yield site
            for client in site._clients:
                client.leave()


def body_of(kind: Kind, dialect: Dialect, operation: Operation, size: int) -> bytes:
    """A body of so many bytes."""
    text = size
    while True:
        body = _written(kind, dialect, operation, "x" * text)
        if len(body) == size:
            return kind.spoil(body)
        text += size - len(body)


def _written(kind: Kind, dialect: Dialect, operation: Operation, text: str) -> bytes:
    old = dialect.version is V0_3
    # HTTP+JSON of 0.3 has the names of protobuf.
    named = old and dialect.binding is Binding.JSONRPC
    part = {"kind": "text", "text": text} if named else {"text": text}
    message: dict[str, Any] = {"messageId": "m", "role": "user" if named else "ROLE_USER"}
    message["content" if old and not named else "parts"] = [part]
    if named:
        message["kind"] = "message"
    params: dict[str, Any] = {"message": message}
    kind.change(params, dialect.version)
    if old and not named and "configuration" in params:
        params["configuration"] = {"pushNotification": params["configuration"]["pushNotificationConfig"]}
    if dialect.binding is Binding.REST:
        return json.dumps(params).encode()
    if dialect.binding is Binding.JSONRPC:
        call = {"jsonrpc": "2.0", "id": "c-1", "method": METHODS[dialect.version][operation], "params": params}
        return json.dumps(call).encode()
    if old:
        params["request"] = params.pop("message")
    request = request_class(method_of(operation, dialect.version))()
    addressed = b"" if kind.agent == "split" else held(SCOPE_FIELD if old else 1, kind.agent.encode())
    return addressed + bytes(json_format.ParseDict(params, request).SerializeToString())


async def ask(site: Site, kind: Kind, dialect: Dialect, operation: Operation, size: int) -> Refusal:
    """Make a call that is refused."""
    gateway = site.gateway
    body = body_of(kind, dialect, operation, size)
    headers = list(kind.headers)
    if kind.key:
        headers.append((b"authorization", b"Bearer " + secret(kind.key)))
    before, lines = _counted(site), len(gateway.lines)
    if dialect.binding is Binding.GRPC:
        path = method_of(operation, dialect.version, scoped=dialect.version is V0_3).path
        told: Told = await site.ask(body, *headers, path=path)
        # The words of a message that is none depend on which reader finds that out.
        heard: object = (told.http, told.code, told.reason, [name for name, _ in told.pairs])
        assert told.code not in ("", "OK")
        assert told.messages == ()
    else:
        verb = f"{'/v1' if dialect.version is V0_3 else ''}/{VERBS[operation]}"
        target = f"/{kind.agent}{verb if dialect.binding is Binding.REST else ''}"
        answer = await gateway.post(target, body, headers)
        # Where a long body was not read, the connection ends; and time passes.
        headers_heard = [each for each in answer.headers if each[0] not in ("connection", "retry-after")]
        heard = (answer.status, [(name, "ID" if name == "x-request-id" else value) for name, value in headers_heard])
        heard += (answer.anonymous[2],)
        assert b'"error"' in answer.body, answer
    await gateway.until(lambda: len(gateway.lines) > lines)
    line = gateway.lines[-1]
    after = _counted(site)
    counted = {name: value - before.get(name, 0.0) for name, value in after.items()}
    return Refusal(heard, {name: line[name] for name in SAID}, {name: more for name, more in counted.items() if more})


SAID = ("agent", "tenant", "binding", "operation", "a2a_version", "status", "rpc_code", "outcome", "reason", "detail")


def _counted(site: Site) -> dict[str, float]:
    lines = site.gateway.gateway.metrics.render().decode().splitlines()
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines)
        if name.startswith(("a2a_gateway_requests_total", "a2a_gateway_rejected_total"))
    }


@pytest.mark.parametrize("name", KINDS)
async def test_a_refusal_is_the_same_whatever_the_length_of_the_call(name: str) -> None:
    kind = KINDS[name]
    async with standing() as site:
        if kind.agent == "slow":
            await site.gateway.post("/slow", headers=[(b"authorization", b"Bearer " + secret("acme"))])
            await site.gateway.until(lambda: bool(site.gateway.lines))
        for dialect in kind.dialects:
            for operation in (SEND, STREAM):
                expected = await ask(site, kind, dialect, operation, SHORT)
                assert (expected.said["binding"], expected.said["reason"]) == (dialect.binding.label, kind.reason)
                for size in LENGTHS:
                    assert await ask(site, kind, dialect, operation, size) == expected, (dialect, operation, size)


async def test_a_call_that_is_too_long_is_refused_over_every_binding() -> None:
    kind = Kind("body_too_large")
    async with standing() as site:
        for dialect in kind.dialects:
            for operation in (SEND, STREAM):
                said = (await ask(site, kind, dialect, operation, LIMIT + 1)).said
                assert (said["reason"], said["binding"]) == (kind.reason, dialect.binding.label)
