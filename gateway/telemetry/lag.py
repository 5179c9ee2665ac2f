"""The lag of the event loop, by which every call is delayed."""

import asyncio

from gateway.telemetry.metrics import Metrics

_EVERY = 0.05
STALL = 0.1
"""Lag in seconds that counts as a stall."""


async def watch_lag(metrics: Metrics) -> None:
    """Measure the lag twenty times a second until cancelled."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + _EVERY
        await asyncio.sleep(_EVERY)
        late = max(loop.time() - due, 0.0)
        metrics.loop_lag.observe(late)
        if late > STALL:
            metrics.loop_stalls.add(())
