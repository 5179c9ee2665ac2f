"""The listener for clients of gRPC, put together: HTTP/2 and its headers cost 10 MiB, for those who serve it alone."""

import socket
from collections.abc import Callable
from functools import partial

from gateway.config.certificate import ServerTls
from gateway.config.model import Gateway
from gateway.listener.edge import Edge
from gateway.listener.grpc import GrpcListener
from gateway.listener.grpc_request import GrpcBounds
from gateway.listener.http2 import Http2Connection
from gateway.listener.server import HttpServer, client_limits
from gateway.proxy import Line


def grpc_server(
    listener: socket.socket,
    gateway: Gateway,
    line: Line,
    ready: Callable[[], bool],
    *,
    shares: Callable[[str], bool],
    tls: ServerTls | None,
) -> tuple[HttpServer, Callable[[], None]]:
    """The server on a socket, and what is to be called when the gateway becomes ready or drains.

    Args:
        ready: Whether the gateway takes new calls.
        shares: As `Edge.shares`.
    """
    written = gateway.grpc
    bounds = GrpcBounds(
        connections=written.connections,
        streams=written.streams,
        metadata=written.metadata,
        resets=written.resets,
        keepalive=written.keepalive,
        idle=written.idle,
        deadline=written.deadline,
    )
    answers = GrpcListener(line, ready, scope_field=written.scope_field)
    asked = gateway.http.model_copy(update={"connections": written.connections})
    limits = client_limits(asked, beside=gateway.http.connections)
    edge = Edge(answers, limits, line.unreadable, shares, line.distrusted)
    return HttpServer(listener, edge, tls=tls, protocol=partial(Http2Connection, bounds=bounds)), answers.changed
