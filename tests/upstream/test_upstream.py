"""Agents over HTTP and over gRPC are one to the line."""

import pytest

from gateway.a2a.call import Call, Head
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.fault import Draining
from gateway.a2a.operation import Operation
from gateway.principal import Principal
from gateway.upstream.connection_pool import ConnectionPool, Origin
from gateway.upstream.dialects import Interface
from gateway.upstream.grpc import GrpcUpstream
from gateway.upstream.grpc_channel import GrpcChannel
from gateway.upstream.http import HttpUpstream
from gateway.upstream.upstream import Caller, Timeouts, Treatment, Upstream
from tests.table import for_each

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("grpc_over")]


class Unread:
    version = 0
    spoken = ()


def over_http() -> Upstream:
    return HttpUpstream(
        backend="billing",
        url="http://127.0.0.1:1/",
        pool=ConnectionPool(Origin("http", "127.0.0.1", 1)),
        cards=Unread(),
        timeouts=Timeouts(1, 1, 1, 1, 1),
        treatment=Treatment(tenant="keep"),
    )


def over_grpc() -> Upstream:
    return GrpcUpstream(
        backend="billing",
        url="grpc://127.0.0.1:1",
        channel=GrpcChannel("grpc://127.0.0.1:1", connect=1),
        cards=Unread(),
        timeouts=Timeouts(1, 1, 1, 1, 1),
        treatment=Treatment(tenant="keep"),
    )


@for_each(("agent", "binding"), [(over_http(), Binding.JSONRPC), (over_grpc(), Binding.GRPC)])
async def test_an_agent_is_asked_until_it_is_closed(agent: Upstream, binding: Binding) -> None:
    dialect = Dialect(binding, Version.V1_0)
    call = Call(Operation.GET_TASK, dialect, "GetTask", tenant="acme", body=b"{}")
    interface = agent.interface(call, (dialect,))
    assert interface == Interface(dialect, "/")
    assert agent.interfaces() == {}
    assert agent.tenant(call, interface) == "acme"
    assert not agent.restores_tenant(call, interface)
    assert (agent.backend, agent.active, agent.idle) == ("billing", 0, 0)
    await agent.aclose()
    with pytest.raises(Draining):
        await agent.send(call, interface, Head("POST", b"/"), Caller(Principal("acme"), "", "r1"))
