"""Bounds on the connections of clients, and on their requests. Times are in seconds, sizes in bytes."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Bounds on the connections over HTTP: `gateway.http` of the configuration.

    Attributes:
        target: Longest request target, path and query together.
        headers: Most bytes of a request's head, and of its trailers.
        header_count: Most headers of a request.
        header_timeout: From the first byte of a request, or from the connection, to the end of its headers.
        body_idle: Silence within a body.
        body_rate: Fewest bytes a second of a body, on average, once it has taken 10 s; 0 is no such bound.
        keep_alive: Idle time of a connection between two requests.
        connections: Most connections.
        connections_per_peer: Most connections of one address, in IPv6 of one /64.
        write_buffer: Bytes that wait for one slow reader before its agent is no longer read.
        write_stall: Time without progress after which a client that does not read is disconnected.
        tls_handshake: Timeout of a TLS handshake.
    """

    target: int
    headers: int
    header_count: int
    header_timeout: float
    body_idle: float
    body_rate: int
    keep_alive: float
    connections: int
    connections_per_peer: int
    write_buffer: int
    write_stall: float
    tls_handshake: float


@dataclass(frozen=True, slots=True)
class GrpcLimits:
    """Bounds on the connections over gRPC: `gateway.grpc` of the configuration.

    Attributes:
        http: Of headers, messages and answers, as over HTTP.
        body: Longest request message; a reload may change it.
        connections: Most connections.
        streams: Most calls that are open on one connection.
        metadata: Bytes of the metadata of a call.
        keepalive: Silence after which a client gets a keepalive ping.
        idle: Idle time of a connection without a call.
        deadline: From the connection to the preface of HTTP/2, TLS included.
        scope_field: The number of `scope` in requests of ScopedA2AService.
    """

    http: HttpLimits
    body: int
    connections: int
    streams: int
    metadata: int
    keepalive: float
    idle: float
    deadline: float
    scope_field: int
