"""What clients of 1.0 are told over gRPC when something is wrong, who calls, and what happens when they break off."""

import asyncio
from pathlib import Path

import grpc.aio  # type: ignore[import-untyped]  # grpcio ships no stubs
import pytest
from a2a.client import ClientCallContext
from a2a.client.errors import A2AClientError, A2AClientTimeoutError
from a2a.types import (
    CancelTaskRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTasksRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import (
    InvalidParamsError,
    PushNotificationNotSupportedError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.grpc_status import status_from_call
from google.rpc.error_details_pb2 import ErrorInfo  # type: ignore[import-untyped]  # it ships no types

from gateway.a2a.fault import A2A_DOMAIN, GATEWAY_DOMAIN
from tests.e2e.grpc_site import BINDINGS, OPEN, calling, knowing, site, transport
from tests.e2e.sdk import COMPLETED, saying, send, texts
from tests.identity.issuance import sha256

KEY, DESK_KEY = "a2a_the-key-of-acme", "a2a_the-key-of-the-desk"
KNOWN = {
    **OPEN,
    "auth": {
        "api_keys": {
            "acme-key": {"sha256": sha256(KEY.encode()), "tenant": "acme"},
            "desk-key": {"sha256": sha256(DESK_KEY.encode()), "tenant": "acme"},
        }
    },
    "tenants": {"acme": ["*"]},
}
DESK = {"over-grpc": {"match": {"path": "/desk", "key": "desk-key"}}}
UNKNOWN = "no-such-task"
PATIENCE = 20.0
"""Seconds after which what a test waits for will not happen any more."""
DEADLINE = 1.0
"""Seconds in which a call is at its agent, but not answered."""

pytestmark = pytest.mark.anyio
every_agent = pytest.mark.parametrize("name", BINDINGS)


def reasons(error: BaseException) -> dict[str, str]:
    """The reasons in the details of a status, by their domain."""
    status = status_from_call(error.__cause__ or error)
    assert status is not None
    found = {}
    for detail in status.details:
        info = ErrorInfo()
        if detail.Unpack(info):
            found[info.domain] = info.reason
    return found


# ---- What agents refuse ----------------------------------------------------------------------------------------------


@every_agent
async def test_what_an_agent_refuses_reaches_the_client_as_it_is(tmp_path: Path, name: str) -> None:
    async with site(tmp_path) as here, calling(here, name) as caller:
        client = caller.unary
        done = await send(client, saying("hello"))
        for unknown in (
            client.get_task(GetTaskRequest(id=UNKNOWN)),
            client.cancel_task(CancelTaskRequest(id=UNKNOWN)),
            client.get_task_push_notification_config(GetTaskPushNotificationConfigRequest(task_id=UNKNOWN, id="a")),
        ):
            with pytest.raises(TaskNotFoundError) as refused:
                await unknown
            assert reasons(refused.value)[A2A_DOMAIN] == "TASK_NOT_FOUND"
        with pytest.raises(UnsupportedOperationError) as over:
            _ = [event async for event in caller.streaming.subscribe(SubscribeToTaskRequest(id=done.id))]
        assert reasons(over.value)[A2A_DOMAIN] == "UNSUPPORTED_OPERATION"
        with pytest.raises(UnsupportedOperationError):
            await send(client, saying("more", done))
        with pytest.raises(InvalidParamsError):
            await client.list_tasks(ListTasksRequest(page_size=1000))
        assert (await send(client, saying("fail now"))).status.state == TaskState.TASK_STATE_FAILED


@every_agent
async def test_what_an_agent_does_not_offer_is_refused_by_name(tmp_path: Path, name: str) -> None:
    async with site(tmp_path, push=False) as here, calling(here, name) as caller:
        wanted = TaskPushNotificationConfig(tenant=name, task_id="t", id="a", url="https://hooks.example.com/a")
        with pytest.raises(PushNotificationNotSupportedError) as refused:
            await caller.unary.create_task_push_notification_config(wanted)
        assert reasons(refused.value)[A2A_DOMAIN] == "PUSH_NOTIFICATION_NOT_SUPPORTED"


# ---- What the gateway refuses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("tenant", ["", "nobody"])
async def test_a_tenant_that_is_no_agents_leads_nowhere(tmp_path: Path, tenant: str) -> None:
    async with site(tmp_path) as here, transport(here) as client:
        with pytest.raises((InvalidParamsError, A2AClientError)) as refused:
            await client.get_task(GetTaskRequest(tenant=tenant, id=UNKNOWN))
        cause = refused.value.__cause__
        assert isinstance(cause, grpc.aio.AioRpcError)
        assert cause.code() is grpc.StatusCode.NOT_FOUND
        assert reasons(refused.value)[GATEWAY_DOMAIN] == "NO_ROUTE"
        assert not any(place.tenants or place.agent.calls for place in here.places.values())


async def test_a_stranger_is_unauthenticated_and_reaches_nobody(tmp_path: Path) -> None:
    async with site(tmp_path, KNOWN) as here, transport(here) as client:
        for context, reason in (
            (None, "AUTH_MISSING"),
            (knowing("a2a_no-key-of-anybody"), "AUTH_INVALID"),
            (ClientCallContext(service_parameters={"X-A2A-Tenant": "acme"}), "AUTH_MISSING"),
        ):
            with pytest.raises(A2AClientError) as refused:
                await client.get_task(GetTaskRequest(tenant="over-grpc", id=UNKNOWN), context=context)
            cause = refused.value.__cause__
            assert isinstance(cause, grpc.aio.AioRpcError)
            assert cause.code() is grpc.StatusCode.UNAUTHENTICATED
            assert reasons(refused.value)[GATEWAY_DOMAIN] == reason
        assert here.places["over-grpc"].tenants == []


# ---- Who calls -------------------------------------------------------------------------------------------------------


async def test_the_agent_is_told_who_calls_and_not_by_which_credential(tmp_path: Path) -> None:
    async with site(tmp_path, KNOWN) as here, transport(here) as client:
        place = here.places["over-grpc"]
        forged = {"X-A2A-Tenant": "forged", "X-A2A-Subject": "forged", "Cookie": "forged", "X-Anything": "forged"}
        for credential in ({"X-API-Key": KEY}, {"Authorization": f"Bearer {KEY}"}):
            context = ClientCallContext(service_parameters={**forged, **credential})
            with pytest.raises(TaskNotFoundError):
                await client.get_task(GetTaskRequest(tenant="over-grpc", id=UNKNOWN), context=context)
            metadata = place.metadata[-1]
            assert (metadata["x-a2a-tenant"], metadata["x-a2a-subject"]) == ("acme", "acme-key")
            assert "forged" not in str(metadata)
            assert KEY not in str(metadata)
        # The name stood for a path that gRPC does not have, and is nothing to the agent.
        assert place.tenants == ["", ""]


async def test_an_agent_may_be_picked_by_the_credential_alone(tmp_path: Path) -> None:
    async with site(tmp_path, KNOWN, DESK) as here, transport(here) as client:
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id=UNKNOWN), context=knowing(DESK_KEY))
        assert len(here.places["over-grpc"].tenants) == 1


# ---- Breaking off ----------------------------------------------------------------------------------------------------


@every_agent
async def test_a_client_that_breaks_off_a_stream_breaks_it_off_at_the_agent(tmp_path: Path, name: str) -> None:
    async with site(tmp_path) as here, calling(here, name) as caller:
        place = here.places[name]
        begun: asyncio.Queue[str] = asyncio.Queue()

        async def follow() -> None:
            async for event in caller.streaming.send_message(saying("wait here")):
                begun.put_nowait(event.task.id)

        following = asyncio.ensure_future(follow())
        task_id = await begun.get()
        assert await asyncio.to_thread(place.agent.executor.waiting.get, timeout=PATIENCE) == task_id
        assert place.left.empty()
        following.cancel()
        async with asyncio.timeout(PATIENCE):
            await place.left.get()
        # Nothing was cancelled but the call.
        place.agent.let_go(task_id)
        task = await caller.unary.get_task(GetTaskRequest(id=task_id))
        while task.status.state != COMPLETED:
            task = await caller.unary.get_task(GetTaskRequest(id=task_id))
        assert texts(task) == [f"{name}: let go"]


@every_agent
async def test_a_client_that_breaks_off_a_call_breaks_it_off_at_the_agent(tmp_path: Path, name: str) -> None:
    async with site(tmp_path) as here, transport(here) as client:
        place = here.places[name]
        request = saying("wait here")
        request.tenant = name
        call = asyncio.ensure_future(client.send_message(request))
        await asyncio.to_thread(place.agent.executor.waiting.get, timeout=PATIENCE)
        assert place.left.empty()
        call.cancel()
        async with asyncio.timeout(PATIENCE):
            await place.left.get()


async def test_an_agent_that_is_slower_than_the_client_has_time_for_is_left(tmp_path: Path) -> None:
    async with site(tmp_path) as here, transport(here) as client:
        calls = []
        for name in BINDINGS:
            hello, wait = saying("hello"), saying("wait here")
            hello.tenant = wait.tenant = name
            # Whoever was called before is connected.
            await client.send_message(hello)
            calls.append(client.send_message(wait, context=ClientCallContext(timeout=DEADLINE)))
        ended = await asyncio.gather(*calls, return_exceptions=True)
        assert {type(each) for each in ended} == {A2AClientTimeoutError}
        async with asyncio.timeout(PATIENCE):
            for name in BINDINGS:
                await here.places[name].left.get()


@every_agent
async def test_the_log_tells_how_a_call_ended(tmp_path: Path, name: str) -> None:
    async with site(tmp_path) as here:
        async with calling(here, name) as caller:
            await send(caller.unary, saying("hello"))
            with pytest.raises(TaskNotFoundError):
                await caller.unary.get_task(GetTaskRequest(id=UNKNOWN))
        lines = {line["operation"]: line for line in await here.stop()}
    sent, refused = lines["SendMessage"], lines["GetTask"]
    assert (sent["binding"], sent["agent"], sent["outcome"]) == ("grpc", name, "ok")
    assert (refused["binding"], refused["agent"], refused["outcome"]) == ("grpc", name, "client_error")
