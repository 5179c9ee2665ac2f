"""Metrics, the access log, the audit log, the gateway's own log.

The *access log* is one line per exchange on standard output; the *log* is what the gateway has to say for itself, on
standard error. Both go through a `Sink`: a bounded queue and one thread, so that no request ever waits for a
disk or a pipe; what does not fit is dropped and counted.
"""
