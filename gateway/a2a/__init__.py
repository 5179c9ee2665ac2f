"""The protocol, pure: bytes and values in, bytes and values out.

`Operation` is what a client wants, `Dialect` how it says so (a binding at a version), `Head` what is known of a
request before its body, `Call` the request once decoded, `Fault` why it cannot be answered. Nothing here knows a
clock, a socket or a framework.
"""
