"""Ownership of what the details of an error over gRPC name: at once, behind events, and where a list was asked for."""

from typing import Any

import pytest
from a2a.types import a2a_pb2 as new
from google.protobuf import any_pb2  # type: ignore[import-untyped]  # it brings no types
from google.rpc import error_details_pb2, status_pb2  # type: ignore[import-untyped]  # it brings no types

from gateway.a2a.operation import Operation
from tests.support.grpc_agent import Asked
from tests.support.grpc_shared import MESSAGE, every_client, shared

pytestmark = pytest.mark.anyio

SECRET = "of acme alone"
NEWS = new.StreamResponse(status_update=new.TaskStatusUpdateEvent(task_id="U", context_id="of-U", status={"state": 2}))


def naming(task: str) -> bytes:
    """The details of an error."""
    info = any_pb2.Any()
    info.Pack(error_details_pb2.ErrorInfo(reason="NO", domain="d", metadata={"taskId": task, "why": SECRET}))
    return bytes(status_pb2.Status(code=13, message="no", details=[info]).SerializeToString())


@every_client
@pytest.mark.parametrize("names", ["T", "U", "W"], ids=["another's", "its own", "nobody's"])
@pytest.mark.parametrize("where", ["at once", "behind an event", "to a list"])
async def test_an_error_over_grpc_names_nothing_of_anothers(client: str, names: str, where: str) -> None:
    async def fail(asked: Asked) -> None:
        if where == "behind an event":
            await asked.write(NEWS.SerializeToString())
        await asked.fail("INTERNAL", "no", naming(names))

    async with shared(fail) as site:
        await site.begins("acme", "T")
        await site.begins("globex", "U")
        asked: dict[str, Any] = {} if where == "to a list" else {"message": MESSAGE}
        operation = Operation.LIST_TASKS if where == "to a list" else Operation.SEND_STREAMING_MESSAGE
        _, told = await getattr(site, client)("globex", operation, **asked)
        assert (SECRET in told) is (names != "T")
        assert ("of-U" in told) is (where == "behind an event")
