"""Several replicas of one agent: which of them is asked, when one is left alone, and what is asked again."""

from typing import Annotated, Literal

from pydantic import model_validator

from gateway.config.part import Part
from gateway.config.value import Count, Duration, OneOrMany, Percent, Positive, Wait

Repeated = Literal["connect", "reset", "503"]


class Affinity(Part):
    """Which replica the follow-ups of a task go to; of no meaning where there is one."""

    by: Literal["task", "context", "none"] | None = None
    """`task`: a call about a task goes to the replica that made it, and one in a context best to the replica that began
    it; `context`: the whole of a context stays where it began; `none`: any replica answers any call; `task`."""
    gone: Literal["refuse", "other"] | None = None
    """What of a call whose replica cannot be asked: `refuse` it, or ask any `other` one; `refuse`."""
    wait: Duration | None = None
    """How long such a call waits for its replica while no connection to it can be made; 0s."""

    @model_validator(mode="before")
    @classmethod
    def _short(cls, value: object) -> object:
        return {"by": value} if isinstance(value, str) else value


class Eject(Part):
    """When a replica that fails calls gets none for a while; a single call then tries whether it is back."""

    after: Count | None = None
    """Calls in a row that failed: no connection, an end or the gateway's own timeout before the answer, no HTTP, 502,
    503 or 504, or gRPC's UNAVAILABLE (the table in docs/replicas.md); 0 is never; 5."""
    time: Wait | None = None
    """How long it is left alone the first time, and twice as long each time that it fails again at once; 10s."""
    longest: Wait | None = None
    """The longest that it is left alone; 5m."""
    most: Percent | None = None
    """How many of the replicas may be left alone at a time, in percent, but one in any case; 50."""


class Breaker(Part):
    """When a backend whose calls fail is asked nothing for a while, so that callers are told at once."""

    after: Count | None = None
    """Calls in a row that failed, as `eject` counts them, over all replicas together; 0 is never; 0."""
    time: Wait | None = None
    """How long nothing is asked; then a single call tries whether it is back; 5s."""


class Health(Part):
    """How it is found out whether a backend can be asked."""

    path: str | None = None
    """What a replica is asked for by GET, such as `/.well-known/agent-card.json`; nobody is asked where it is left out.
    Behind gRPC any path stands for grpc.health.v1."""
    every: Wait | None = None
    """Time between two such requests; 10s."""
    timeout: Wait | None = None
    """How long the answer may take; 3s."""
    fail_after: Positive | None = None
    """Failures in a row after which a replica is down; 3."""
    pass_after: Positive | None = None
    """Good answers in a row after which it is up again; 1."""
    eject: Eject = Eject()
    """What calls themselves tell, where there are several replicas."""
    breaker: Breaker = Breaker()
    """When a backend as a whole is left alone."""


class Retry(Part):
    """Which calls are sent again; never one that the agent may have acted on, unless that changes nothing."""

    max: Count | None = None
    """Most repeats of one call; 0 is none at all; 2."""
    when: Annotated[tuple[Repeated, ...], OneOrMany()] | None = None
    """`connect`: no connection, so that nothing was sent; `reset`: none of an answer came, once, and only what may be
    repeated; `503`: the agent says so and asks for at most 2s of patience, once, and only what reads; all three."""
    budget: Percent | None = None
    """Most repeats in percent of the calls of the last 10s, and 20 in any case; 20."""


DEFAULT_AFFINITY = Affinity.model_validate({"by": "task", "gone": "refuse", "wait": "0s"})
DEFAULT_EJECT = Eject.model_validate({"after": 5, "time": "10s", "longest": "5m", "most": 50})
DEFAULT_BREAKER = Breaker.model_validate({"after": 0, "time": "5s"})
DEFAULT_HEALTH = Health.model_validate({"every": "10s", "timeout": "3s", "fail_after": 3, "pass_after": 1})
DEFAULT_RETRY = Retry.model_validate({"max": 2, "when": ["connect", "reset", "503"], "budget": 20})
