# ruff: noqa: E501 - one row a line
"""Consequences of each bound: of the keys of the configuration, and of the constants of the code.

`python -m tests.reference` makes the page of limits and bounds from these tables, from the models and from the source.
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import TypeAdapter, ValidationError

from gateway.a2a import fault
from gateway.config.values import Part, every_part

ROOT = Path(__file__).parent.parent
Beyond = type[fault.Fault] | str
"""The fault that a caller is told, or what happens instead."""

_TIMED_OUT = "the attempt counts as failed"
_CLOSED = "the connection is closed"
_LATER = "the next one is later"
_FORGOTTEN = "it is fetched, or verified, again"

KEYS: Mapping[str, Beyond] = {
    "Affinity.wait": fault.NoHealthyBackend,
    "Body.depth": fault.BadRequest,
    "Body.elements": fault.BadRequest,
    "Body.members": fault.BadRequest,
    "Breaker.after": "the circuit opens: further calls are `no_healthy_backend`",
    "Breaker.time": "one call tries the backend",
    "Cards.keep": fault.UpstreamProtocol,
    "Cards.size": "the card is refused; the last good one stays, as long as `keep` says",
    "Cards.ttl": "the card is fetched again",
    "Connections.event": fault.UpstreamProtocol,
    "Connections.header_count": fault.UpstreamProtocol,
    "Connections.headers": fault.UpstreamProtocol,
    "Connections.idle": _CLOSED,
    "Connections.kept": fault.UpstreamProtocol,
    "Connections.max": "the call waits; tenants have their shares",
    "Connections.queue": fault.Overloaded,
    "Connections.queue_timeout": fault.Overloaded,
    "Cors.max_age": "the browser asks again",
    "Deliver.attempts": "the notification is given up, with a line in the log",
    "Deliver.concurrency": "further deliveries wait",
    "Deliver.first_pause": _LATER,
    "Deliver.keep": "the notification is given up, with a line in the log",
    "Deliver.longest_pause": _LATER,
    "Deliver.max_waiting": "the agent's notification is answered with HTTP 503 and `Retry-After`",
    "Deliver.timeout": _TIMED_OUT,
    "Drain.delay": "no connection is accepted any more",
    "Drain.timeout": fault.Draining,
    "Eject.after": "the replica is ejected, if there is another",
    "Eject.longest": "an ejection is no longer than this",
    "Eject.most": "no further replica is ejected",
    "Eject.time": "one call tries the replica",
    "Gateway.answers_limit": fault.Overloaded,
    "Gateway.body_limit": fault.BodyTooLarge,
    "Gateway.heartbeat": "the client of the stream gets a comment, or over gRPC a ping",
    "Gateway.memory_limit": fault.Overloaded,
    "Grpc.connections": _CLOSED,
    "Grpc.deadline": _CLOSED,
    "Grpc.idle": _CLOSED,
    "Grpc.keepalive": "the client is pinged; without an answer the connection is closed",
    "Grpc.metadata": "the call is refused with RESOURCE_EXHAUSTED",
    "Grpc.streams": "the call is refused, to be made again; SDKs wait by themselves",
    "Health.every": "the next check begins",
    "Health.fail_after": "the replica is down: it gets no calls",
    "Health.pass_after": "the replica is up again",
    "Health.timeout": "the check has failed",
    "Http.body_idle": fault.BodyTooSlow,
    "Http.body_rate": fault.BodyTooSlow,
    "Http.connections": "HTTP 503, and the connection is closed",
    "Http.connections_per_peer": "HTTP 503, and the connection is closed",
    "Http.header_count": "HTTP 431, and the connection is closed",
    "Http.header_timeout": "HTTP 408, and the connection is closed",
    "Http.headers": "HTTP 431, and the connection is closed",
    "Http.keep_alive": _CLOSED,
    "Http.target": "HTTP 414, and the connection is closed",
    "Http.tls_handshake": _CLOSED,
    "Http.write_buffer": "the agent is not read until the client has read",
    "Http.write_stall": "the connection is cut",
    "Issuer.leeway": "`check` refuses more than 30s",
    "Ledger.contexts": "the context not seen for longest is forgotten",
    "Ledger.ended": "the task is forgotten: `task_not_owned`",
    "Ledger.open": "the task, or context, is forgotten: `task_not_owned`",
    "Ledger.tasks": "tasks that are over are forgotten first, then those not seen for longest",
    "Limits.bandwidth": fault.RateLimited,
    "Limits.body": fault.BodyTooLarge,
    "Limits.burst": fault.RateLimited,
    "Limits.concurrency": "the call waits in `queue`",
    "Limits.queue": fault.ConcurrencyLimited,
    "Limits.queue_timeout": fault.ConcurrencyLimited,
    "Limits.requests": fault.RateLimited,
    "Limits.streams": fault.StreamsLimited,
    "Metrics.max_tenants": "the label of further tenants is `other`",
    "Push.max_per_task": fault.PushDenied,
    "Push.max_per_tenant": fault.PushDenied,
    "Reload.poll": "the files are compared",
    "Retry.budget": "the call is not repeated",
    "Retry.max": "the call is not repeated",
    "Stdio.frame": "from the agent: `upstream_protocol`; to the agent: `body_too_large`",
    "Stdio.ping": "the process is restarted",
    "Stdio.processes": "`check` refuses more",
    "Stdio.start_timeout": fault.NoHealthyBackend,
    "Stdio.stop_timeout": "SIGTERM, and after as long SIGKILL to its process group",
    "Stdio.tenants": fault.Overloaded,
    "StdioLimits.cpu": "the kernel kills the process; it is started again",
    "StdioLimits.files": "the process cannot open more",
    "StdioLimits.memory": "the process gets no more memory",
    "TenantLimits.bandwidth": fault.RateLimited,
    "TenantLimits.body": fault.BodyTooLarge,
    "TenantLimits.burst": fault.RateLimited,
    "TenantLimits.concurrency": "the call waits in `queue`",
    "TenantLimits.open_tasks": fault.TasksLimited,
    "TenantLimits.queue": fault.ConcurrencyLimited,
    "TenantLimits.queue_timeout": fault.ConcurrencyLimited,
    "TenantLimits.requests": fault.RateLimited,
    "TenantLimits.streams": fault.StreamsLimited,
    "Timeouts.connect": fault.UpstreamConnect,
    "Timeouts.first_byte": fault.UpstreamTimeout,
    "Timeouts.send": fault.UpstreamTimeout,
    "Timeouts.stream_idle": fault.UpstreamIdle,
    "Timeouts.total": fault.UpstreamTimeout,
    "Verification.entries": "the one unused for longest is evicted",
    "Verification.failures": fault.RateLimited,
    "Verification.keys_count": "the key set is refused; the last good one stays",
    "Verification.keys_every": "the key set is fetched",
    "Verification.keys_kept": fault.AuthUnavailable,
    "Verification.keys_on_demand": "an unknown key causes no earlier fetch: `auth_invalid`",
    "Verification.keys_size": "the key set is refused; the last good one stays",
    "Verification.remember": _FORGOTTEN,
    "Verification.remember_bad": _FORGOTTEN,
}
NUMBERS_WITHOUT_BOUND = frozenset({
    "Agent.latency", "Agent.trust", "Backend.weight", "Gateway.replicas", "Grpc.scope_field", "Stdio.uid",
    "TenantLimits.weight", "Tracing.sample",
})  # fmt: skip
"""Keys that are numbers and bound nothing."""


class Constant(NamedTuple):
    """A bound that no key changes."""

    group: str
    what: str
    where: str
    unit: str
    beyond: Beyond


_REQUESTS, _ANSWERS, _STDIO, _PUSH = "Requests", "Answers of agents", "Agents on stdio", "Push notifications"
_OPERATORS, _FILES, _TENANTS, _ISSUERS = "Operators", "The configuration", "Tenants and tasks", "Credentials"
CONSTANTS = (
    Constant(_REQUESTS, "bytes of the A2A `tenant`", "a2a/paths.py:_LONGEST_TENANT", "", fault.BadParams),
    Constant(_REQUESTS, "characters of an id of a task or context", "a2a/paths.py:_LONGEST_ID", "", fault.BadParams),
    Constant(_REQUESTS, "bytes of a JSON-RPC id", "a2a/bindings/jsonrpc.py:_LONGEST_ID", "", fault.BadRequest),
    Constant(_REQUESTS, "tasks that one call names", "a2a/call.py:MOST_REFERENCED_TASKS", "", fault.BadParams),
    Constant(_REQUESTS, "characters of a number", "a2a/json.py:_LONGEST_NUMBER", "", fault.BadRequest),
    Constant(_REQUESTS, "fields on one level of a protobuf message", "a2a/bindings/grpc_message.py:MOST_FIELDS", "", fault.BadRequest),
    Constant(_REQUESTS, "addresses of `X-Forwarded-For` that are read", "proxy/client_address.py:_MOST_HOPS", "", "the last ones count"),
    Constant(_REQUESTS, "tasks on a page of ListTasks", "a2a/task_list.py:LONGEST_PAGE", "", fault.BadParams),
    Constant(_REQUESTS, "calls at a time of a host on stdio (`a2a-gateway stdio`)", "listener/stdio.py:MOST_CALLS", "", "-31503"),
    Constant(_REQUESTS, "time until the rate of a body counts", "listener/request_parser.py:RATE_FROM", "s", fault.BodyTooSlow),
    Constant(_REQUESTS, "part of the granted files in use", "proxy/overload.py:_FILES", "%", fault.Overloaded),
    Constant(_REQUESTS, "part of the memory in use, for streams", "proxy/overload.py:_MEMORY_STREAMS", "%", fault.Overloaded),
    Constant(_REQUESTS, "part of the memory in use, for calls", "proxy/overload.py:_MEMORY_CALLS", "%", fault.Overloaded),
    Constant(_ISSUERS, "length of a credential", "identity/jwt.py:LONGEST", "B", fault.AuthInvalid),
    Constant(_ISSUERS, "bits of an RSA key of an issuer, at least", "identity/jwks.py:_WEAKEST_RSA", "", "the key is ignored"),
    Constant(_ISSUERS, "bits of an RSA key of an issuer, at most", "identity/jwks.py:_STRONGEST_RSA", "", "the key is ignored"),
    Constant(_ISSUERS, "wait of a token for the keys of its issuer", "identity/jwks.py:PATIENCE", "s", fault.AuthUnavailable),
    Constant(_ISSUERS, "answer of a token endpoint", "upstream/oauth2.py:LARGEST", "B", fault.UpstreamAuthFailed),
    Constant(_ISSUERS, "time of a token request", "upstream/oauth2.py:DEADLINE", "s", fault.UpstreamAuthFailed),
    Constant(_ISSUERS, "exchanged tokens that are kept", "upstream/oauth2.py:MOST_KEPT", "", "the one unused for longest is dropped"),
    Constant(_TENANTS, "tenants without a name in the file that are counted", "policy/limits.py:MOST_UNNAMED", "", "the counts of one that is idle are dropped"),
    Constant(_TENANTS, "wait for the ledger in a file", "tasks/sqlite_file.py:TIMEOUT", "s", fault.StateUnavailable),
    Constant(_TENANTS, "wait for the ledger in a Redis", "tasks/redis_client.py:PATIENCE", "s", fault.StateUnavailable),
    Constant(_TENANTS, "wait for a shared limit in a Redis", "policy/shared_rates.py:PATIENCE", "s", "the gateway takes its own share of the limit"),
    Constant(_TENANTS, "pages of the agent that one ListTasks reads", "proxy/list_tasks.py:MOST_PAGES", "", "the answer is a shorter page, with a token for the rest"),
    Constant(_ANSWERS, "tasks that an answer names beside its own", "a2a/nested_ids.py:MOST_NESTED_TASKS", "", fault.UpstreamProtocol),
    Constant(_ANSWERS, "contexts that an answer names beside its own", "a2a/nested_ids.py:MOST_NESTED_CONTEXTS", "", fault.UpstreamProtocol),
    Constant(_ANSWERS, "error that is searched for ids", "a2a/nested_ids.py:LONGEST_ERROR", "B", fault.UpstreamProtocol),
    Constant(_ANSWERS, "lines of one event", "a2a/framing/sse.py:_MOST_LINES", "", fault.UpstreamProtocol),
    Constant(_ANSWERS, "characters of an error message", "a2a/agent_error.py:LONGEST_MESSAGE", "", "the rest is cut off"),
    Constant(_ANSWERS, "interfaces of a card", "a2a/card.py:MAX_INTERFACES", "", "the rest is cut off"),
    Constant(_ANSWERS, "signatures of a card", "cards/verify.py:MOST_SIGNATURES", "", fault.CardUntrusted),
    Constant(_ANSWERS, "wait for the first card of an agent", "proxy/card_requests.py:FIRST_CARD", "s", fault.UpstreamProtocol),
    Constant(_ANSWERS, "addresses of a `dns: headless` name", "upstream/dns.py:MOST", "", "the rest gets no calls; the log says so"),
    Constant(_ANSWERS, "time between two look-ups of such a name", "upstream/dns.py:EVERY", "s", "the name is looked up again"),
    Constant(_ANSWERS, "`Retry-After` of an agent that is waited for", "upstream/retry.py:MOST_PATIENCE", "s", "the call is not repeated"),
    Constant(_ANSWERS, "answers kept for `message_id_idempotent`, each backend", "proxy/idempotency.py:MOST_BYTES", "B", "the oldest is dropped"),
    Constant(_STDIO, "header of a frame", "a2a/framing/lsp.py:HEADER_BYTES", "B", "the process is restarted"),
    Constant(_STDIO, "frames in a row that answer no call", "upstream/stdio/rpc.py:MOST_STRAYS", "", "the process is restarted"),
    Constant(_STDIO, "bytes that a process does not read", "upstream/stdio/rpc.py:MOST_UNREAD", "B", fault.Overloaded),
    Constant(_STDIO, "silence in the middle of a frame", "upstream/stdio/rpc.py:STALL", "s", "the process is restarted"),
    Constant(_STDIO, "line of standard error that is logged", "upstream/stdio/process.py:LONGEST_LINE", "B", "the rest is cut off"),
    Constant(_PUSH, "notification of an agent", "push/relay.py:MOST_BODY", "B", fault.BodyTooLarge),
    Constant(_PUSH, "characters of a webhook's URL", "push/ssrf.py:LONGEST_URL", "", fault.PushDenied),
    Constant(_PUSH, "time of a look-up of a webhook's name", "push/ssrf.py:LOOKUP_TIMEOUT", "s", fault.PushDenied),
    Constant(_PUSH, "notifications of one webhook that wait", "push/queue.py:MOST_WAITING", "", "the agent's notification is answered with HTTP 503 and `Retry-After`"),
    Constant(_PUSH, "notifications that are read at a time", "listener/callbacks.py:MOST", "", "the agent waits up to 10 s, then HTTP 503"),
    Constant(_PUSH, "time for which a signature is good", "push/signing.py:LIFETIME", "s", "receivers refuse the notification"),
    Constant(_OPERATORS, "connections to the admin listener", "listener/admin.py:MOST_CONNECTIONS", "", "HTTP 503, and the connection is closed"),
    Constant(_OPERATORS, "body of an admin request", "listener/admin.py:LONGEST_BODY", "B", "HTTP 413"),
    Constant(_OPERATORS, "time of a session in a browser", "listener/admin_access.py:LASTS", "s", "the token is asked for again"),
    Constant(_OPERATORS, "browsers that follow the requests", "listener/catalog_page.py:MOST_FOLLOWERS", "", "HTTP 503"),
    Constant(_OPERATORS, "access log lines that wait", "telemetry/log_output.py:CAPACITY", "", "the line is dropped and counted (`log_dropped_total`)"),
    Constant(_OPERATORS, "characters of a value in the access log", "telemetry/access_log.py:LONGEST", "", "the rest is cut off"),
    Constant(_OPERATORS, "audit events of refused credentials a second", "telemetry/audit_log.py:STRANGERS", "", "further ones have no event of their own"),
    Constant(_OPERATORS, "time of a worker without an answer", "workers.py:HANGS_AFTER", "s", "the worker is killed and replaced"),
    Constant(_FILES, "configuration file", "config/yaml.py:LARGEST_FILE", "B", "`check` refuses the file"),
    Constant(_FILES, "levels of nesting", "config/yaml.py:DEEPEST", "", "`check` refuses the file"),
    Constant(_FILES, "files of `include:`", "config/load.py:_MOST_FILES", "", "`check` refuses the file"),
    Constant(_FILES, "file of a reference, `${file:PATH}`", "config/secrets.py:LARGEST_VALUE", "B", "`check` refuses the file"),
)  # fmt: skip


# ---- Ranges ----------------------------------------------------------------------------------------------------------


def ranges(kind: str, part: str, key: str) -> tuple[str, str] | None:
    """Return the least and the most that the gateway accepts for a key; None for a kind that is no number.

    Args:
        kind: As the reference calls it: integer, duration, size, size a second, or rate.
    """
    if kind == "rate":
        return "1/h", ""
    written = _WRITTEN.get(kind)
    if written is None:
        return None
    write, least, most = written
    accepts = _acceptor(part, key)
    low = next(number for number in least if accepts(write(number)))
    high = _last(lambda number: accepts(write(number)), low, most)
    return write(low), "" if high == most else write(high)


def _acceptor(part: str, key: str) -> Callable[[str], bool]:
    model = _models()[part]
    field = next(each for name, each in model.model_fields.items() if key in (name, each.alias))
    kind: Any = field.annotation
    adapter: TypeAdapter[Any] = TypeAdapter(Annotated[kind, *field.metadata] if field.metadata else kind)

    def accepts(text: str) -> bool:
        try:
            adapter.validate_python(text)
        except ValidationError:
            return False
        return True

    return accepts


def _last(holds: Callable[[int], bool], low: int, most: int) -> int:
    """Return the last number for which something holds that holds for `low`, by halves; at most `most`."""
    if holds(most):
        return most
    high = most
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _seconds(millis: int) -> str:
    unit, factor = next((each for each in _TIMES if millis % each[1] == 0 and millis >= each[1]), ("ms", 1))
    return f"{millis // factor}{unit}" if millis else "0s"


def _bytes(count: int) -> str:
    unit, factor = next((each for each in _SIZES if count and count % each[1] == 0), ("", 1))
    return f"{count // factor}{unit}"


_TIMES = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000))
_SIZES = (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024))
_WRITTEN: Mapping[str, tuple[Callable[[int], str], tuple[int, ...], int]] = {
    "integer": (str, (0, 1, 4), 10**15 - 1),
    "duration": (_seconds, (0, 1, 1000), 367 * 86_400_000),
    "size": (_bytes, (0, 1), 1024**6),
    "size a second": (lambda count: f"{_bytes(count)}/s", (1,), 10**18 - 1),
}
"""Writer, lowest numbers to try, and highest number to try, by kind."""


@cache
def _models() -> dict[str, type[Part]]:
    return {part.__name__: part for part in every_part()}


# ---- Constants -------------------------------------------------------------------------------------------------------


def value_and_reason(where: str) -> tuple[float, str]:
    """Return the number of a constant and the docstring below it, or the comment above it.

    Args:
        where: The path of its module in `gateway/`, a colon, and its name.
    """
    path, _, name = where.partition(":")
    text = (ROOT / "gateway" / path).read_text()
    body = ast.parse(text).body
    for at, node in enumerate(body):
        if name in _names(node):
            assert isinstance(node, ast.Assign | ast.AnnAssign)
            assert node.value is not None
            value = eval(compile(ast.Expression(node.value), path, "eval"), {})
            below = body[at + 1] if at + 1 < len(body) else None
            if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
                return float(value), " ".join(str(below.value.value).split())
            return float(value), " ".join(_comment(text.splitlines(), node.lineno))
    raise AssertionError(f"there is no {where}")


def _names(node: ast.stmt) -> set[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {target.id for target in targets if isinstance(target, ast.Name)}


def _comment(lines: list[str], line: int) -> Iterator[str]:
    above = line - 2
    while above >= 0 and lines[above].startswith("#"):
        above -= 1
    yield from (each.lstrip("# ") for each in lines[above + 1 : line - 1])


def measured(value: float, unit: str) -> str:
    """Return a constant as people write it."""
    if unit == "B":
        return _bytes(int(value))
    if unit == "%":
        return f"{value * 100:g} %"
    return _seconds(int(value * 1000)) if unit == "s" else f"{int(value):,}"
