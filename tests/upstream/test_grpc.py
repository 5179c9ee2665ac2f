"""The service and method by which an agent is called, and the message and the metadata that it gets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old_pb2
from a2a.types import a2a_pb2
from google.protobuf.message import Message  # type: ignore[import-untyped]  # protobuf has no types of its own
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.a2a.bindings import grpc as binding
from gateway.a2a.bindings.grpc_method import SCOPE_FIELD, GrpcMethod, method_of
from gateway.a2a.call import Call, Head
from gateway.a2a.card import CardInterface
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.operation import Operation
from gateway.principal import Principal
from gateway.upstream.dialects import spellings
from gateway.upstream.grpc import GrpcUpstream
from gateway.upstream.grpc_channel import GrpcBounds, GrpcChannel
from gateway.upstream.outlier_detection import DeadlinePassed
from gateway.upstream.upstream import Caller, Treatment, UpstreamTimeouts
from tests.support.grpc_agent import GrpcAgent, grpc_agent, says
from tests.table import for_each

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("grpc_over")]

GRPC = Dialect(Binding.GRPC, Version.V1_0)
GRPC_0_3 = Dialect(Binding.GRPC, Version.V0_3)
CALLER = Caller(Principal("acme", "alice", "jwt"), "203.0.113.9", "r1")
TIMES = UpstreamTimeouts(connect=5, first_byte=200, send=300, stream_idle=400, total=500)


@dataclass
class Cards:
    version: int = 0
    spoken: tuple[CardInterface, ...] = ()


def offers(*interfaces: tuple[Dialect, str] | tuple[Dialect, str, str]) -> Cards:
    return Cards(1, tuple(CardInterface(*interface) for interface in interfaces))


class Channel:
    """Keeps what it is asked to send."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}

    async def unary(self, path: str, message: bytes, metadata: Any, *, timeout: float, **_: Any) -> None:  # noqa: ASYNC109 - as the real one
        self.asked = {"path": path, "message": message, "metadata": metadata, "timeout": timeout}

    async def stream(self, path: str, message: bytes, metadata: Any, **more: Any) -> None:
        self.asked = {"path": path, "message": message, "metadata": metadata, **more}


def upstream(channel: Any = None, cards: Cards | None = None, **more: Any) -> GrpcUpstream:
    settings: dict[str, Any] = {"timeouts": TIMES, "treatment": Treatment(), **more}
    given: Any = Channel() if channel is None else channel
    return GrpcUpstream(backend="billing", url="grpc://agent:50051", channel=given, cards=cards or Cards(), **settings)


def read(method: GrpcMethod, message: Message, *, tail: bytes = b"") -> Call:
    return binding.read_call(method, message.SerializeToString() + tail)


def get_task(tenant: str = "") -> Call:
    return read(method_of(Operation.GET_TASK, Version.V1_0), a2a_pb2.GetTaskRequest(tenant=tenant, id="t"))


def old_get_task(scope: str | None = None) -> Call:
    method = method_of(Operation.GET_TASK, Version.V0_3, scoped=scope is not None)
    return read(method, old_pb2.GetTaskRequest(name="tasks/t"), tail=b"" if scope is None else scoped(scope))


def scoped(scope: str, number: int = SCOPE_FIELD) -> bytes:
    """The field that the classes do not know (protobuf's wire format: tag, length, text)."""
    tag = number << 3 | 2
    return bytes([tag & 0x7F | 0x80, tag >> 7, len(scope)]) + scope.encode()


def either(message: bytes, scope: str | None, number: int = SCOPE_FIELD) -> tuple[bytes, bytes]:
    """A message with a scope, in whichever order."""
    field = b"" if scope is None else scoped(scope, number)
    return message + field, field + message


async def sent(call: Call, head: Head | None = None, *, caller: Caller = CALLER, **more: Any) -> dict[str, Any]:
    agent = upstream(**more)
    interface = agent.dialects.interface(call, spellings(call))
    await agent.send(call, interface, head or Head("POST", b"/"), caller)
    channel: Any = agent.channel
    asked: dict[str, Any] = channel.asked
    return asked


@asynccontextmanager
async def real(agent: GrpcAgent, **more: Any) -> AsyncIterator[GrpcUpstream]:
    made = upstream(GrpcChannel(agent.url, GrpcBounds(), connect=5), **more)
    try:
        yield made
    finally:
        await made.aclose()


# ---- The method ------------------------------------------------------------------------------------------------------


@for_each(("given", "seconds"), [(2.0, 2.0), (3600.0, 200), (7e-6, 7e-6), (0.0, 0.0), (None, 200)])
async def test_the_agent_is_told_the_shorter_of_two_deadlines(given: float | None, seconds: float) -> None:
    head = Head("POST", b"/", grpc=method_of(Operation.GET_TASK, Version.V1_0), timeout=given)
    assert (await sent(get_task(), head))["timeout"] == pytest.approx(seconds)
    streaming = replace(get_task(), operation=Operation.SUBSCRIBE_TO_TASK)
    assert (await sent(streaming, head))["timeout"] == given


async def test_each_attempt_gets_the_remaining_deadline() -> None:
    head = Head("POST", b"/", grpc=method_of(Operation.GET_TASK, Version.V1_0), timeout=10.0)
    now = 1000.0
    caller = Caller(CALLER.principal, CALLER.forwarded_for, CALLER.request_id, since=now)
    for operation in (Operation.GET_TASK, Operation.SUBSCRIBE_TO_TASK):
        told = []
        for waited in (0.0, 4.0, 9.5):
            channel = Channel()
            called = upstream(channel, clock=lambda waited=waited: now + waited)
            call = replace(get_task(), operation=operation)
            await called.send(call, called.dialects.interface(call, (GRPC,)), head, caller)
            told.append(channel.asked["timeout"])
        assert told == pytest.approx([10, 6, 0.5])
        channel = Channel()
        called = upstream(channel, clock=lambda: now + 10)
        with pytest.raises(DeadlinePassed):
            await called.send(call, called.dialects.interface(call, (GRPC,)), head, caller)
        assert channel.asked == {}


# ---- The tenant ------------------------------------------------------------------------------------------------------


@for_each(
    ("treatment", "scope", "gets"),
    [
        (None, None, None),
        (None, "acme", None),
        ("strip", "acme", None),
        ("keep", "acme", "acme"),
        ("keep", None, None),
        ("other", "acme", "other"),
        ("other", None, "other"),
    ],
)
async def test_to_0_3_a_tenant_is_the_scope_of_the_scoped_service(
    treatment: str | None, scope: str | None, gets: str | None
) -> None:
    asked = await sent(old_get_task(scope), treatment=Treatment(treatment))
    service = "A2AService" if gets is None else "ScopedA2AService"
    assert asked["path"] == f"/a2a.v1.{service}/GetTask"
    assert asked["message"] in either(old_get_task().body, gets)


# ---- The metadata ----------------------------------------------------------------------------------------------------


async def test_the_agent_gets_allowed_metadata_and_the_gateways_own_and_no_other() -> None:
    came = (
        (b"content-type", b"application/grpc"),
        (b"user-agent", b"grpc-go/1.60"),
        (b"te", b"trailers"),
        (b"grpc-timeout", b"20S"),
        (b"grpc-encoding", b"gzip"),
        (b"grpc-accept-encoding", b"gzip"),
        (b"authorization", b"Bearer client"),
        (b"x-api-key", b"client"),
        (b"a2a-version", b"9.9"),
        (b"x-a2a-extensions", b"https://e.test/a"),
        (b"a2a-extensions", b"https://e.test/b,https://e.test/a"),
        (b"x-a2a-tenant", b"globex"),
        (b"x-a2a-subject", b"root"),
        (b"x-request-id", b"spoofed"),
        (b"x-forwarded-for", b"127.0.0.1"),
        (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        (b"accept-language", b"de"),
        (b"accept", b"application/json"),
        (b"x-region", b"eu"),
        (b"x-raw-bin", b"AAA"),
        (b"x-odd", b"caf\xe9"),
    )
    head = Head("POST", b"/", headers=came, grpc=method_of(Operation.GET_TASK, Version.V1_0))
    treatment = Treatment(
        credentials=((b"authorization", b"Bearer ours"),),
        forwarded=frozenset({b"x-region", b"x-raw-bin", b"x-odd", b"user-agent", b"grpc-encoding"}),
    )
    async with grpc_agent(says(b"one")) as agent, real(agent, treatment=treatment) as called:
        call = get_task()
        await called.send(call, called.dialects.interface(call, (GRPC,)), head, CALLER)
        [asked] = agent.asked
    told = {name: value for name, value in asked.metadata if name != "user-agent"}
    assert len(told) == len(asked.metadata) - 1
    expected = [
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("accept-language", "de"),
        ("x-region", "eu"),
        ("a2a-version", "1.0"),
        ("a2a-extensions", "https://e.test/a, https://e.test/b"),
        ("authorization", "Bearer ours"),
        ("x-forwarded-for", "203.0.113.9"),
        ("x-a2a-tenant", "acme"),
        ("x-a2a-subject", "alice"),
        ("x-request-id", "r1"),
    ]
    assert told == dict(expected)
    assert "grpc-go" not in str(asked.told("user-agent"))


@for_each("pair", [(b"x-key", b"a\tb"), (b"x-key", b"\xe9"), (b"x-key-bin", b"a"), (b"grpc-key", b"a")])
def test_a_credential_that_grpc_cannot_carry_is_never_left_out_silently(pair: tuple[bytes, bytes]) -> None:
    with pytest.raises(ValueError, match="no metadata"):
        upstream(treatment=Treatment(credentials=(pair,)))


headers = st.lists(
    st.tuples(
        st.sampled_from([b"traceparent", b"x-one", b"x-two-bin", b"grpc-x", b"baggage", b"a2a-extensions", b"X-UP"]),
        st.binary(max_size=12),
    ),
    max_size=6,
)
subjects = st.text(max_size=6) | st.sampled_from([" a", "a ", "%20a", "\ta"])


@given(headers, subjects, st.text(max_size=6))
async def test_headers_of_a_client_are_valid_metadata_or_left_out(
    came: list[tuple[bytes, bytes]], subject: str, address: str
) -> None:
    caller = replace(CALLER, principal=Principal("acme", subject), forwarded_for=address)
    treatment = Treatment(forwarded=frozenset({b"x-one", b"x-two-bin", b"grpc-x", b"X-UP"}))
    metadata = (await sent(get_task(), Head("POST", b"/", headers=tuple(came)), caller=caller, treatment=treatment))[
        "metadata"
    ]
    for name, value in metadata:
        assert name == name.lower()
        assert not name.startswith("grpc-")
        assert not name.endswith("-bin")
        assert value.isascii()
        assert value.isprintable()
        assert value == value.strip(" ")


async def test_cached_metadata_of_a_head_holds_for_no_other_caller() -> None:
    agent = upstream(cards=offers((GRPC, "agent:1"), (GRPC_0_3, "agent:1")))
    head = Head("POST", b"/", headers=((b"traceparent", b"a"), (b"a2a-extensions", b"https://e.test/a")))
    callers = [
        CALLER,
        replace(CALLER, principal=Principal("acme", "bob"), request_id="r2"),
        replace(CALLER, forwarded_for="203.0.113.8"),
    ]
    channel: Any = agent.channel
    for call in (get_task(), old_get_task(), get_task()):
        for caller in (*callers, *callers):
            await agent.send(call, agent.dialects.interface(call, (call.dialect,)), head, caller)
            fresh = Head("POST", b"/", headers=head.headers)
            assert channel.asked == await sent(call, fresh, caller=caller)
            assert len(caller.prepared.metadata) <= 16
