"""No agent receives a webhook that was not judged, however a call spells it and wherever it stands.

Every spelling of every generation is put into every place that an agent may read, by clients of each dialect, in front
of agents of each dialect. The agents record the bytes that they get. A judged webhook may reach them as it is in
`passthrough` alone, and a client's token likewise.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import cycle, islice
from typing import Any, NamedTuple

import pytest

from gateway.a2a.bindings.grpc_method import SCOPE_FIELD
from gateway.a2a.dialect import Version
from gateway.a2a.operation import Operation
from tests.a2a.bindings.grpc_sample import made
from tests.support.gateway import Answer, Client, Running, bearer, keys, running
from tests.support.grpc_agent import Asked, GrpcAgent, grpc_agent, grpc_over
from tests.support.grpc_bytes import text_field
from tests.support.grpc_gateway import LISTENS, dialled
from tests.support.kept import shared
from tests.support.scripted import ScriptedBackend, Wire
from tests.support.translated import MESSAGE_0_1, MESSAGE_0_3, MESSAGE_1_0, document
from tests.table import for_each

__all__ = ["grpc_over"]
pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("kept")]

GOOD = "http://127.0.0.1:9/good-hook"
EVIL = "http://169.254.169.254/evil-hook"
TOKEN = "token-of-the-client"
OURS = {"url": GOOD, "token": TOKEN}
VALUES: dict[str, dict[str, Any]] = {
    "evil": {"url": EVIL, "token": TOKEN},
    "judged": OURS,
    "no url": {"url": "", "token": TOKEN},
    "no url but credentials": {"authentication": {"scheme": "Bearer", "schemes": ["Bearer"], "credentials": TOKEN}},
    "another case": {"Url": EVIL, "Token": TOKEN},
}
NAMES = (
    "taskPushNotificationConfig", "task_push_notification_config", "pushNotificationConfig", "push_notification_config",
    "pushNotification", "push_notification",
)  # fmt: skip
ALIKE = ("PushNotificationConfig", "pushnotificationconfig", "push-notification-config", "pushNotificationConfigs")
"""Names that parsers may take for one of these."""

MODES = {
    "relay": "{ mode: relay, allow: ['http://127.0.0.1:9/*'], block_private_networks: false }",
    "passthrough": "{ mode: passthrough, allow: ['http://127.0.0.1:9/*'], block_private_networks: false }",
    "none": "{ mode: none }",
}
MAY_REACH = {"relay": (), "passthrough": (b"good-hook", TOKEN.encode()), "none": (TOKEN.encode(),)}
"""Parts of a client's configuration that an agent may get. In mode `none`, a token without a URL is no webhook."""
SECRETS = (b"evil-hook", b"good-hook", TOKEN.encode())

AGENTS = ("jsonrpc 1.0", "jsonrpc 0.3", "jsonrpc 0.1", "rest 1.0", "rest 0.3", "grpc 1.0", "grpc 0.3")


class Speech(NamedTuple):
    """The calls of a client in one dialect.

    Attributes:
        place: Where a send has its configuration: the names that lead to it from the parameters.
    """

    binding: str
    version: str
    methods: tuple[str, ...]
    message: dict[str, Any]
    place: tuple[str, ...]


CLIENTS = (
    Speech(
        "jsonrpc",
        "1.0",
        ("SendMessage", "SendStreamingMessage", "CreateTaskPushNotificationConfig", "GetTask"),
        MESSAGE_1_0,
        ("configuration", "taskPushNotificationConfig"),
    ),
    Speech(
        "jsonrpc",
        "0.3",
        ("message/send", "message/stream", "tasks/pushNotificationConfig/set", "tasks/get"),
        MESSAGE_0_3,
        ("configuration", "pushNotificationConfig"),
    ),
    Speech(
        "jsonrpc",
        "0.1",
        ("tasks/send", "tasks/sendSubscribe", "tasks/pushNotification/set", "tasks/cancel"),
        MESSAGE_0_1,
        ("pushNotification",),
    ),
    Speech(
        "rest",
        "1.0",
        ("message:send", "message:stream", "tasks/t/pushNotificationConfigs", "tasks/t:cancel"),
        MESSAGE_1_0,
        ("configuration", "taskPushNotificationConfig"),
    ),
    Speech(
        "rest",
        "0.3",
        ("v1/message:send", "v1/message:stream", "v1/tasks/t/pushNotificationConfigs", "v1/tasks/t:cancel"),
        MESSAGE_1_0,
        ("configuration", "pushNotification"),
    ),
)


class Site:
    """A gateway in front of one agent of each dialect, and what these received."""

    def __init__(self, gateway: Running, backends: dict[str, ScriptedBackend | GrpcAgent]) -> None:
        self.gateway = gateway
        self.backends = backends
        self._client: Client | None = None

    def received(self, agent: str) -> list[bytes]:
        """All that an agent got of calls, one entry for each; the gateway asks for cards by itself."""
        backend = self.backends[agent]
        if isinstance(backend, GrpcAgent):
            return [asked.message for asked in backend.asked if not asked.path.endswith("Card")]
        return [
            request.target + repr(request.headers).encode() + request.body
            for request in backend.requests
            if not request.target.startswith(b"/.well-known/")
        ]

    def forget(self) -> None:
        for backend in self.backends.values():
            (backend.asked if isinstance(backend, GrpcAgent) else backend.requests).clear()

    async def post(self, agent: str, speech: Speech, method: str, body: bytes, query: str = "") -> Answer:
        """One call, all of them on one connection."""
        target = f"/{agent.replace(' ', '-')}"
        if speech.binding == "rest":
            target += f"/{method}"
        if self._client is None:
            self._client = await self.gateway.client()
        headers = [bearer("acme"), (b"A2A-Version", speech.version.encode()), (b"content-type", b"application/json")]
        await self._client.ask("POST", target + query, body, headers)
        answer = await self._client.answer()
        if answer.header("connection") == "close":
            self._client.leave()
            self._client = None
        return answer


@asynccontextmanager
async def site(mode: str) -> AsyncIterator[Site]:
    """One for all tests in this mode."""
    async with shared(mode, lambda: _site(mode)) as (found, _):
        found.forget()
        yield found


@asynccontextmanager
async def _site(mode: str) -> AsyncIterator[Site]:
    async with AsyncExitStack() as stack:
        backends: dict[str, ScriptedBackend | GrpcAgent] = {}
        lines = []
        for agent in AGENTS:
            binding, version = agent.split(" ")
            backend: ScriptedBackend | GrpcAgent
            if binding == "grpc":
                backend = await stack.enter_async_context(grpc_agent(_complains))
            else:
                backend = await stack.enter_async_context(ScriptedBackend(_refuses))
            backends[agent] = backend
            spoken = f'url: "{backend.url}", protocol: {binding}, a2a_version: "{version}"'
            lines.append(f"  {agent.replace(' ', '-')}: {{ backend: {{ {spoken} }}, isolation: none }}")
        text = f"gateway: {{ {LISTENS} }}\n{keys(acme='acme')}\ntenants: {{ acme: ['*'] }}\nagents:\n" + "\n".join(
            lines
        )
        gateway = await stack.enter_async_context(running(f"{text}\npush: {MODES[mode]}\n"))
        yield Site(gateway, backends)


async def _refuses(wire: Wire) -> None:
    """Answers every call with an error of its binding, so that no answer ends a connection or leaves a task."""
    while True:
        request = await wire.request()
        called = json.loads(request.body) if request.body else {}
        if isinstance(called, dict) and "jsonrpc" in called:
            error = {"code": -32602, "message": "no"}
            await wire.send(document({"jsonrpc": "2.0", "id": called["id"], "error": error}))
        else:
            error = {"code": 400, "status": "INVALID_ARGUMENT", "message": "no", "details": []}
            await wire.send(document({"error": error}, b"400 Bad Request"))


async def _complains(asked: Asked) -> None:
    await asked.fail("INVALID_ARGUMENT", "no")


# ---- The calls -------------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """One call of a client: the method, its parameters, and what stands beside them in the envelope."""

    name: str
    method: str
    params: Any
    beside: dict[str, Any]


def put(params: dict[str, Any], way: tuple[str, ...], value: Any) -> dict[str, Any]:
    """The parameters with a value at the end of a way."""
    name, *rest = way
    inner = params.get(name)
    return {**params, name: put(inner if isinstance(inner, dict) else {}, tuple(rest), value) if rest else value}


def cases(speech: Speech) -> Iterator[Case]:
    for kind, value in VALUES.items():
        for name in (*NAMES, *ALIKE) if kind == "evil" else NAMES:
            for number, case in enumerate(_placed(speech, name, value)):
                yield case._replace(name=f"{kind}, {name}, place {number}")


def _placed(speech: Speech, name: str, value: dict[str, Any]) -> Iterator[Case]:
    send, stream, create, other = speech.methods
    base: dict[str, Any] = {"message": speech.message}
    if speech.version == "0.1":
        base["id"] = "mine"
    good = put(base, speech.place, OURS)
    for params in (
        put(base, (name,), value),
        put(base, ("configuration", name), value),
        put(base, ("message", name), value),
        put(base, ("message", "configuration", name), value),
        put(base, ("configuration", "configuration", name), value),
        put(base, ("configuration", name), [value]),
        # A twin beside or below one that is right.
        put(good, ("configuration", name), value),
        put(good, (name,), value),
        put(good, (*speech.place, name), value),
        put(good, (*speech.place, name, name), value),
        put(good, ("message", name), value),
    ):
        if params != good or speech.place[-1] != name:
            yield Case("", send, params, {})
    yield Case("", stream, put(base, ("configuration", name), value), {})
    yield Case("", stream, put(good, (name,), value), {})
    yield Case("", send, base, {name: value})
    yield Case("", send, base, {"configuration": {name: value}})
    of_task = {"id": "t"} if speech.version == "0.1" else {"taskId": "t"}
    if speech.binding == "rest":
        of_task = {}
    for params in (
        {**of_task, **value},
        put(of_task, (name,), value),
        put({**of_task, **OURS}, (name,), value),
        put(of_task, ("config", name), value),
        put({**of_task, "config": OURS}, (name,), value),
        put(of_task, (name, name), value),
        put(put(of_task, ("pushNotificationConfig",), OURS), ("config", name), value),
        put(of_task, ("configuration", name), value),
        put(of_task, (name,), [value]),
    ):
        yield Case("", create, params, {})
    yield Case("", other, put({"id": "t"}, (name,), value), {})
    yield Case("", other, put({"id": "t"}, ("configuration", name), value), {})


def written(speech: Speech, case: Case) -> bytes:
    if speech.binding == "rest":
        return json.dumps({**case.params, **case.beside}).encode()
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": case.method, "params": case.params, **case.beside}).encode()


def leaked(mode: str, received: list[bytes]) -> list[bytes]:
    """Return the secrets that an agent got and may not have."""
    return [secret for secret in SECRETS if secret not in MAY_REACH[mode] and any(secret in each for each in received)]


# ---- The property ----------------------------------------------------------------------------------------------------


def by_dialect(speech: Speech) -> str:
    return f"{speech.binding}-{speech.version}"


# The check plays one case of eleven, others in each mode: every name, place and value occurs.
@pytest.mark.parametrize("stride", [23, pytest.param(1, marks=pytest.mark.long)], ids=["some", "all"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("speech", CLIENTS, ids=by_dialect)
async def test_no_agent_gets_a_webhook_that_was_not_judged(speech: Speech, mode: str, stride: int) -> None:
    own = f"{speech.binding} {speech.version}"
    others = cycle([agent for agent in AGENTS if agent != own])
    async with site(mode) as there:
        for case in islice(cases(speech), 4 * list(MODES).index(mode) % stride, None, stride):
            body = written(speech, case)
            # To the agent of the client's own dialect bytes may go as they are; the others take turns.
            for agent in (own, next(others)):
                answer = await there.post(agent, speech, case.method, body)
                assert not leaked(mode, there.received(agent)), (case, agent, answer.body)
                assert "error" in answer.json, (case, agent)
                assert answer.status < 500, (case, agent, answer.body)
            there.forget()


@for_each("mode", MODES)
@for_each("speech", CLIENTS)
async def test_configurations_in_their_place_arrive_checked_or_replaced(speech: Speech, mode: str) -> None:
    """The agents of the property do get calls."""
    base: dict[str, Any] = {"message": speech.message, **({"id": "mine"} if speech.version == "0.1" else {})}
    async with site(mode) as there:
        for agent in AGENTS:
            call = Case("", speech.methods[0], put(base, speech.place, OURS), {})
            answer = await there.post(agent, speech, call.method, written(speech, call))
            arrived = b"".join(there.received(agent))
            if mode == "none":
                assert (answer.reasons[-1], arrived) == ("PUSH_DENIED", b"")
            else:
                assert (b"good-hook" if mode == "passthrough" else b"/-/push/") in arrived
            plain = call._replace(params=put(base, ("metadata", "pushNotificationConfig"), VALUES["evil"]))
            await there.post(agent, speech, call.method, written(speech, plain))
            # Members that only their writer reads stay as they are.
            assert b"evil-hook" in b"".join(there.received(agent))


# Where each generation leaks if only its own spelling is replaced.
STRAYS: tuple[tuple[Speech, tuple[str, ...]], ...] = (
    (CLIENTS[0], ("configuration", "pushNotificationConfig")),
    (CLIENTS[0], ("configuration", "push_notification_config")),
    (CLIENTS[0], ("configuration", "pushNotification")),
    (CLIENTS[0], ("pushNotificationConfig",)),
    (CLIENTS[0], ("taskPushNotificationConfig",)),
    (CLIENTS[1], ("configuration", "pushNotification")),
    (CLIENTS[1], ("configuration", "push_notification")),
    (CLIENTS[1], ("pushNotificationConfig",)),
    (CLIENTS[2], ("configuration", "pushNotificationConfig")),
    (CLIENTS[3], ("configuration", "pushNotificationConfig")),
    (CLIENTS[3], ("pushNotificationConfig",)),
    (CLIENTS[4], ("pushNotification",)),
)


@for_each(("speech", "way"), STRAYS)
@for_each("beside", [False, True])
async def test_relay_refuses_a_configuration_that_it_would_not_replace(
    speech: Speech, way: tuple[str, ...], *, beside: bool
) -> None:
    base: dict[str, Any] = {"message": speech.message, **({"id": "mine"} if speech.version == "0.1" else {})}
    params = put(put(base, speech.place, OURS) if beside else base, way, OURS)
    async with site("relay") as there:
        for agent in AGENTS:
            call = Case("", speech.methods[0], params, {})
            answer = await there.post(agent, speech, call.method, written(speech, call))
            assert there.received(agent) == []
            assert answer.reasons[-1] == "PUSH_DENIED"
            assert answer.status == (400 if speech.binding == "rest" else 200)


@for_each("url", ["", None])
async def test_relay_refuses_a_token_without_a_url(url: str | None) -> None:
    async with site("relay") as there:
        for speech in CLIENTS:
            base: dict[str, Any] = {"message": speech.message, **({"id": "mine"} if speech.version == "0.1" else {})}
            call = Case("", speech.methods[0], put(base, speech.place, {"url": url, "token": TOKEN}), {})
            answer = await there.post("jsonrpc 1.0", speech, call.method, written(speech, call))
            assert "url" in answer.json["error"]["message"]
            assert there.received("jsonrpc 1.0") == []


@for_each("mode", MODES)
async def test_a_query_brings_no_push_configuration(mode: str) -> None:
    async with site(mode) as there:
        for speech in CLIENTS:
            call = Case("", speech.methods[0], {"message": speech.message, "id": "mine"}, {})
            for name in (
                "configuration.pushNotificationConfig.url",
                "pushNotification.url",
                "task_push_notification_config",
            ):
                query = f"?{name}={EVIL.replace(':', '%3A')}"
                answer = await there.post("jsonrpc 1.0", speech, call.method, written(speech, call), query)
                assert "error" in answer.json
                assert there.received("jsonrpc 1.0") == []


@for_each("mode", MODES)
async def test_a_member_that_stands_twice_is_refused(mode: str) -> None:
    twice = json.dumps(OURS).encode() + b', "pushNotificationConfig": ' + json.dumps(VALUES["evil"]).encode()
    async with site(mode) as there:
        for speech in CLIENTS:
            for way in (("configuration", "pushNotificationConfig"), ("pushNotificationConfig",)):
                for method, params in ((speech.methods[0], {"message": speech.message}), (speech.methods[2], {})):
                    call = Case("", method, put({**params, "id": "mine"}, way, "TWICE"), {})
                    body = written(speech, call).replace(b'"TWICE"', twice)
                    answer = await there.post("jsonrpc 1.0", speech, method, body)
                    assert answer.reasons[-1] == "DUPLICATE_KEY"
                    assert there.received("jsonrpc 1.0") == []


# ---- Clients of gRPC -------------------------------------------------------------------------------------------------


def over_grpc(version: Version, push: dict[str, Any]) -> Iterator[tuple[Operation, bytes]]:
    message = {"message_id": "m", "role": 1}
    if version is Version.V1_0:
        message["parts"] = [{"text": "hi"}]
        configuration = {"task_push_notification_config": push}
        yield SEND, made(SEND, version, message=message, configuration=configuration)
        yield CREATE, made(CREATE, version, task_id="t", **push)
    else:
        message["content"] = [{"text": "hi"}]
        yield SEND, made(SEND, version, request=message, configuration={"push_notification": push})
        config = {"name": "tasks/t/pushNotificationConfigs/c", "push_notification_config": push}
        yield CREATE, made(CREATE, version, parent="tasks/t", config_id="c", config=config)


SEND, CREATE = Operation.SEND_MESSAGE, Operation.CREATE_PUSH_CONFIG


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("version", [Version.V1_0, Version.V0_3])
@pytest.mark.usefixtures("grpc_over")
async def test_no_agent_gets_an_unjudged_webhook_from_a_client_of_grpc(version: Version, mode: str) -> None:
    shown = ("authorization", bearer("acme")[1].decode())
    async with site(mode) as there, dialled(there.gateway) as client:
        for agent in AGENTS:
            tenant = text_field(1 if version is Version.V1_0 else SCOPE_FIELD, agent.replace(" ", "-"))
            for url in (GOOD, EVIL, ""):
                for operation, message in over_grpc(version, {"url": url, "token": TOKEN}):
                    scoped = version is Version.V0_3
                    told = await client.ask(operation, message + tenant, shown, version=version, scoped=scoped)
                    assert told.code == "INVALID_ARGUMENT", (agent, url, told)
                    assert not leaked(mode, there.received(agent)), (agent, url, told)
                    if url == GOOD and mode != "none":
                        assert there.received(agent) != [], (operation, told)
                    if url == EVIL or (not url and mode == "relay"):
                        assert there.received(agent) == []
                    there.forget()
