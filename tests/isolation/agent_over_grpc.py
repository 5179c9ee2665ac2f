"""An agent of 1.0 over gRPC with a mind."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from a2a.types import a2a_pb2
from google.protobuf.json_format import MessageToDict, ParseDict  # type: ignore[import-untyped]  # protobuf has no types
from google.protobuf.message_factory import GetMessageClass  # type: ignore[import-untyped]  # as above

from tests.isolation.agent import Agent, Minded
from tests.isolation.heard import over_grpc
from tests.isolation.mind import Complaint, Mind
from tests.support.grpc_agent import Asked, grpc_agent

_CODES = {-32001: "NOT_FOUND", -32602: "INVALID_ARGUMENT"}


@cache
def messages(schema: Any, method: str) -> tuple[Any, Any]:
    """The classes of a method's request and answer.

    Args:
        schema: The generated module of a generation.
    """
    found = schema.DESCRIPTOR.services_by_name["A2AService"].methods_by_name[method]
    return GetMessageClass(found.input_type), GetMessageClass(found.output_type)


class GrpcMind(Minded):
    """The agent, while it is served."""

    def __init__(self, mind: Mind) -> None:
        super().__init__(mind, "", a2a_version="1.0")

    async def play(self, asked: Asked) -> None:
        """Answer one call."""
        method = asked.path.rpartition("/")[2]
        if method == "GetExtendedAgentCard":
            await asked.fail("UNIMPLEMENTED", "Method not found!")
            return
        takes, gives = messages(a2a_pb2, method)
        params = MessageToDict(takes.FromString(asked.message))
        heard = over_grpc(self._mind.name, method, asked.metadata, params)
        self._heard.append(heard)
        try:
            if method in ("SendStreamingMessage", "SubscribeToTask"):
                for event in self._mind.events(method, params, heard):
                    if isinstance(event, Complaint):
                        raise event
                    await asked.write(ParseDict(event, gives()).SerializeToString())
                return
            answer = ParseDict(self._mind.answer(method, params, heard), gives())
        except Complaint as complaint:
            await asked.fail(_CODES.get(complaint.code, "FAILED_PRECONDITION"), str(complaint))
        else:
            await asked.write(answer.SerializeToString())


@asynccontextmanager
async def agent_over_grpc(name: str) -> AsyncIterator[Agent]:
    """An agent with a mind that speaks gRPC alone, on a port of its own."""
    agent = GrpcMind(Mind(name))
    async with grpc_agent(agent.play) as serving:
        agent.url = serving.url
        yield agent
