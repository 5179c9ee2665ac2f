"""Metrics, the access log, the audit log, the gateway's own log.

The *access log* is one line per exchange on standard output; the *log* has the gateway's own messages, on standard
error. Both use a `Sink`: a bounded queue and one thread, so that no request ever waits for a disk or a pipe; lines
beyond the bound are dropped and counted.
"""
