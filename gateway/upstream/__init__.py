"""Who answers: agents over HTTP/1.1, through connections of our own, and over gRPC.

`Upstream` is one backend to the line, `Repertoire` what it speaks. `Origin` is where a pool connects, `ConnectionPool`
keeps the connections of one origin, `Connection` carries one exchange at a time, `ResponseReader` decides what the
bytes of an answer mean, `Response` is an answer whose body may still be on its way. Over gRPC, `GrpcChannel` is the one
connection and `GrpcAnswer` the answer.
"""
