"""The protocol, pure: bytes and values in, bytes and values out.

`Operation` is the operation of a call, `Dialect` its binding and version, `Head` a request before its body is read,
`Call` the decoded request, `Fault` the reason why it cannot be answered. Nothing here uses a clock, a socket or a
framework.
"""
