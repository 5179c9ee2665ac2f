"""Remedies for each reason of a refusal or failure, for the caller and for the operator.

The reference of error reasons is made from this table. A key is a reason of `fault.REASONS`.
"""

from collections.abc import Mapping
from typing import NamedTuple


class Remedy(NamedTuple):
    """The steps of each side, and the page of the manual that says more, with its anchor; or an empty text."""

    caller: str
    operator: str
    page: str = ""


_LATER = "Wait for `Retry-After`, then send the call again."

REMEDIES: Mapping[str, Remedy] = {
    "no_route": Remedy(
        "Check the URL. Name the right `tenant`, or show the right credential. With HTTP 404 you may call "
        "nothing there; with -32602 some agent is there, but none for this `tenant`.",
        "`a2a-gateway route … --explain` says which agent a request would reach, and why not. In the log the "
        "reason of a refused tenant is `tenant_denied`.",
        "tenants.md",
    ),
    "tenant_denied": Remedy(
        "With HTTP 403 the gateway does not serve your tenant: ask the operator. In a stream's last event: "
        "another configuration shut you out.",
        'List the agent in `tenants.X.agents`. With 403: name the tenant in `tenants`, add `"*"`, or add the '
        "value of its claim to `tenant_map`.",
        "tokens.md#the-tenant",
    ),
    "insufficient_scope": Remedy(
        "Get a token with the scopes that `WWW-Authenticate` names.",
        "`detail` in the log names the scope, role or claim of `require` that the token lacks.",
        "tokens.md#what-an-agent-requires",
    ),
    "route_conflict": Remedy(
        "The message names the two sources that pick two agents (API key, claim, `tenant`). Leave one out.",
        "Add a match that asks for both, or make one of the two narrower.",
        "explanation/routing.md",
    ),
    "auth_missing": Remedy(
        "Show one credential: an API key, a token or a client certificate.",
        "For callers without one: `gateway.anonymous`, and `tenants.anonymous`.",
        "tokens.md",
    ),
    "auth_invalid": Remedy(
        "Show a good credential. A bad one never makes you anonymous. In a stream's last event: your credential "
        "was taken away.",
        "`detail` in the log says why: unknown key, wrong issuer, audience, signature.",
        "tokens.md",
    ),
    "auth_expired": Remedy(
        "Get a new token, or ask for a new API key.",
        "Compare clocks (`leeway`). For an API key: `expires`.",
        "how-to/rotate-keys.md",
    ),
    "auth_unavailable": Remedy(
        _LATER,
        "The key set of the issuer was never read: `/-/ready?verbose` and `check --online` say why.",
        "tokens.md",
    ),
    "task_not_owned": Remedy(
        "You see `TASK_NOT_FOUND`: there is no such task, or it is another's. Check the id, and use the "
        "credential that created the task.",
        "`detail` in the log says whether another owns it or it was never seen. For tasks from before the "
        "gateway: `unknown_tasks: adopt`.",
        "tenants.md",
    ),
    "rate_limited": Remedy(
        _LATER,
        "Raise `requests`, `burst` or `bandwidth` of the tenant or agent. For an address with failing "
        "credentials: find who sends them, or raise `auth.verification.failures`. Known good credentials still "
        "serve.",
        "limits.md",
    ),
    "concurrency_limited": Remedy(
        "Send fewer calls at a time. " + _LATER, "Raise `concurrency` or `queue` of the tenant or agent.", "limits.md"
    ),
    "streams_limited": Remedy(
        "Close a stream, then open the next.", "Raise `streams` of the tenant or agent.", "limits.md"
    ),
    "tasks_limited": Remedy(
        "Finish or cancel open tasks, then send again.",
        "Raise `open_tasks` of the tenant. A task that nobody asks for counts until `gateway.ledger.open` has passed.",
        "limits.md",
    ),
    "bad_request": Remedy(
        "The message says what would be right. HTTP 415: send JSON, uncompressed. HTTP 408: send the body faster.",
        "For slow bodies: `gateway.http.body_idle` and `body_rate`. For large structures: `gateway.body`.",
        "limits.md",
    ),
    "duplicate_key": Remedy(
        "Name each member once, in its exact case.", "None: two parsers could read it in two ways."
    ),
    "body_too_large": Remedy(
        "Send less, or send files by URL. The message names the limit, or says that it is the agent's own.",
        "Raise `gateway.body_limit`, or `body` of the tenant's or agent's `limits`.",
        "limits.md",
    ),
    "push_denied": Remedy(
        "The message names the rule that the webhook breaks: https, a public address, an allowed name.",
        "The log has the rule and the origin of the webhook. Open it in `push.allow`.",
        "push.md",
    ),
    "version_unsupported": Remedy(
        "The message names the versions that the agent speaks. Send one of these in `A2A-Version`.",
        "Check `a2a_version` of the backend, and the agent's card.",
        "translation.md",
    ),
    "method_not_allowed": Remedy(
        "The agent does not offer the operation or binding. With HTTP 405 use a method of `Allow`.",
        "Check `methods` of the agent. With several `processes` on stdio there is no `ListTasks`.",
        "cards.md",
    ),
    "upstream_connect": Remedy(
        "Send the call again: nothing was sent to the agent.",
        "The agent is down, or its address or TLS is wrong. The log has the address and the cause.",
        "operations.md#why-tls-failed",
    ),
    "upstream_reset": Remedy(
        "The agent may have acted. Ask for the task before you send again.",
        "The agent closed the connection early. Look at the agent's own log, and at proxies between.",
        "reliability.md",
    ),
    "upstream_auth_failed": Remedy(
        f"{_LATER} Nothing was sent to the agent.",
        "The token endpoint of `upstream_auth` gives no token, or a tenant's secret is missing. `detail` in the "
        "log says why.",
        "tokens.md#tokens-for-agents",
    ),
    "upstream_timeout": Remedy(
        "The agent may have acted. Ask for the task before you send again.",
        "Find out why the agent is slow, or raise its `timeouts`.",
        "reliability.md",
    ),
    "upstream_idle": Remedy(
        "Subscribe to the task to continue the stream.",
        "The agent sent nothing for `timeouts.stream_idle`. Have it send comments, or raise the timeout.",
        "reliability.md",
    ),
    "upstream_protocol": Remedy(
        "Tell the operator. With HTTP 429 or 503 wait for `Retry-After`.",
        "The agent's answer is no A2A answer, names what is another's, or refuses the gateway's credential. The "
        "log says which, and the number of the event in a stream (`event 7: …`).",
        "errors.md#errors-of-agents-translated",
    ),
    "card_untrusted": Remedy(
        "Tell the operator: the agent cannot be called until its card is signed well.",
        "The card has a bad signature, or none where `card.verify` requires one. `/-/agents` says why.",
        "cards.md",
    ),
    "state_unavailable": Remedy(
        _LATER, "The store of `gateway.state` does not answer. The log says why.", "tenants.md#while-it-does-not-answer"
    ),
    "overloaded": Remedy(
        f"{_LATER} In the middle of a stream: subscribe to the task to continue.",
        "Files, memory or connections to the agent run short, or another tenant has its share of them now. "
        "`a2a_gateway_shedding` and `backend_connections` tell which.",
        "operations.md#short-of-something",
    ),
    "draining": Remedy(
        "Send the call again: another gateway answers. In a stream's last event: subscribe to the task to continue.",
        "The gateway is stopping. Have the load balancer follow `/-/ready`.",
        "operations.md#stopping",
    ),
    "no_healthy_backend": Remedy(
        _LATER,
        "No replica can be asked, or the one with the task is gone. `/-/agents` says why each is down or ejected.",
        "replicas.md",
    ),
    "client_gone": Remedy(
        "None: you left before the answer. Over gRPC it is DEADLINE_EXCEEDED if your deadline passed.",
        "None. If it is frequent, clients time out too early, or the agent is slow.",
        "logs.md",
    ),
    "internal": Remedy(
        "Tell the operator the `X-Request-Id`.",
        "A defect of the gateway: the log has a traceback under the request id. Please report it.",
    ),
}
