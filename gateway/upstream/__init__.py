"""Calls to agents: over HTTP/1.1, gRPC, and the pipes of a process.

`Balancer` picks a replica, `Attempt` calls it and decides about retries, an `Upstream` is the transport to one replica.
Over HTTP a `ConnectionPool` keeps the connections to one origin, a `Connection` carries one exchange at a time, and a
`ResponseParser` parses the bytes of a `Response`.
"""
