"""Find, read and replace the push configurations of calls and answers, in the hub's words.

In the hub it is flat (1.0 §4.3.1): `{"id"?, "taskId"?, "url", "token"?, "authentication"?}`, the last of which is
`{"scheme", "credentials"?}`. The parameters of a creation are this object. In a send it is
`configuration.taskPushNotificationConfig`, and the task is that of the message.

Of all answers only a push configuration carries a tenant (protocol §2.1), because servers return it as it was stored.
If the gateway replaced the tenant of the request, it restores it in the answer.
"""

import re
from typing import Any

import msgspec

from gateway.a2a import json as strict_json
from gateway.a2a.dialect import Binding
from gateway.a2a.fault import BadParams, ParseFailed
from gateway.a2a.json import UNREADABLE, Tree, decode_elements
from gateway.a2a.operation import Kind, Operation

LONGEST_ID = 512
"""Characters of the id of a configuration."""
LONGEST_TOKEN = 4096
"""Characters of a token, and of the credentials of an authentication."""

# Text that is valid in a header: RFC 9110 §5.5 without non-ASCII bytes, and §5.6.2.
_VALUE = re.compile(r"[!-~]+(?:[ \t]+[!-~]+)*")
_SCHEME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")


class PushConfig(msgspec.Struct, frozen=True):
    """A client's subscription to a task's notifications; members that it left out are empty.

    Attributes:
        task_id: Empty in a send that begins a task.
        token: Proves to the client that a notification is genuine.
        scheme: The authentication scheme of calls to the webhook, as `Bearer`; before 1.0 credentials may come alone.
        credentials: The credentials of calls to the webhook.
    """

    url: str
    id: str = ""
    task_id: str = ""
    token: str = ""
    scheme: str = ""
    credentials: str = ""

    def __repr__(self) -> str:
        """Return the ids only: the other members may hold secrets."""
        return f"PushConfig(id={self.id!r}, task_id={self.task_id!r})"


def read(tree: Tree) -> PushConfig:
    """Read a configuration whose values can be sent in headers.

    Raises:
        BadParams: a member is of a wrong type, too long, or cannot be sent.
    """
    authentication = tree.get("authentication")
    if authentication is None:
        authentication = {}
    if not isinstance(authentication, dict):
        raise BadParams("the authentication of a push configuration must be an object")
    config = PushConfig(
        url=_text(tree, "url"),
        id=_text(tree, "id", LONGEST_ID),
        task_id=_text(tree, "taskId"),
        token=_text(tree, "token", LONGEST_TOKEN),
        scheme=_text(authentication, "scheme"),
        credentials=_text(authentication, "credentials", LONGEST_TOKEN),
    )
    if not config.url:
        raise BadParams("a push configuration needs a url")
    for name, value in (("token", config.token), ("credentials", config.credentials)):
        if value and _VALUE.fullmatch(value) is None:
            raise BadParams(f"the {name} of a push configuration must be visible ASCII, as it is sent in a header")
    if config.scheme and _SCHEME.fullmatch(config.scheme) is None:
        raise BadParams("the scheme of a push configuration must be the name of an HTTP authentication scheme")
    return config


def write(config: PushConfig) -> Tree:
    """Return the tree of a configuration, without empty members."""
    members = {"id": config.id, "taskId": config.task_id, "url": config.url, "token": config.token}
    tree: Tree = {name: value for name, value in members.items() if value}
    shown = {"scheme": config.scheme, "credentials": config.credentials}
    authentication = {name: value for name, value in shown.items() if value}
    return {**tree, "authentication": authentication} if authentication else tree


# ---- In a call -------------------------------------------------------------------------------------------------------


def in_call(operation: Operation, params: Tree) -> Tree | None:
    """Return the configuration in a call, in place; None where there is none."""
    if operation is Operation.CREATE_PUSH_CONFIG:
        return params
    if not operation.sends:
        return None
    configuration = params.get("configuration")
    config = configuration.get("taskPushNotificationConfig") if isinstance(configuration, dict) else None
    return config if isinstance(config, dict) else None


def replace_in_call(operation: Operation, params: Tree, config: Tree) -> None:
    """Replace the configuration in a call."""
    if operation is Operation.CREATE_PUSH_CONFIG:
        params.clear()
        params.update(config)
    else:
        params["configuration"]["taskPushNotificationConfig"] = config


# ---- In an answer ----------------------------------------------------------------------------------------------------


def in_answer(operation: Operation, result: Tree) -> list[Tree]:
    """Return the configurations in an answer, in order."""
    if operation is Operation.LIST_PUSH_CONFIGS:
        configs = result.get("configs")
        return [config for config in configs if isinstance(config, dict)] if isinstance(configs, list) else []
    shows_one = operation.kind is Kind.PUSH and operation is not Operation.DELETE_PUSH_CONFIG
    return [result] if shows_one and result.get("url") else []


def replace_in_answer(operation: Operation, result: Tree, configs: list[Tree]) -> None:
    """Replace the configurations in an answer; an answer with one gets the first."""
    if operation is Operation.LIST_PUSH_CONFIGS:
        result["configs"] = configs
    else:
        result.clear()
        result.update(configs[0] if configs else {})


def _text(tree: Tree, name: str, longest: int | None = None) -> str:
    value = tree.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadParams(f"the {name} of a push configuration must be a string")
    if longest is not None and len(value) > longest:
        raise BadParams(f"the {name} of a push configuration must not be longer than {longest} characters")
    return value


# ---- The tenant of an answer -----------------------------------------------------------------------------------------


def restore_tenant(body: bytes, binding: Binding, tenant: str | None) -> bytes:
    """Return an answer with each of its push configurations having the client's tenant, or none.

    An answer of another shape is returned as it came.

    Raises:
        BadRequest: it is no JSON, or could be read in two ways, so that the agent's tenant might slip through.
    """
    if binding is not Binding.JSONRPC:
        return _restored(body, tenant)
    members = strict_json.open_body(body)
    result = members.get("result")
    if result is None:
        return body
    restored = _restored(bytes(result), tenant)
    if restored == bytes(result) and members.keys() <= _ENVELOPE:
        return body
    # Without members that the envelope does not know.
    kept = {name: members[name] for name in ("jsonrpc", "id") if name in members}
    return strict_json.write({**kept, "result": msgspec.Raw(restored)})


def forget_tenants(tree: Any) -> None:  # noqa: ANN401 - any JSON
    """Remove every `tenant` from an agent's answer about push configurations, wherever it is."""
    pending = [tree]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            value.pop("tenant", None)
            pending += value.values()
        elif isinstance(value, list):
            pending += value


def _restored(raw: bytes, tenant: str | None) -> bytes:
    start = raw.lstrip()[:1]
    if start == b"[":
        try:
            items = [bytes(item) for item in decode_elements(raw)]
        except UNREADABLE as error:
            raise ParseFailed("the body is not valid JSON") from error
        restored = [_of_one(item, tenant) for item in items]
        return raw if restored == items else b"[" + b",".join(restored) + b"]"
    return _of_one(raw, tenant) if start == b"{" else raw


def _of_one(raw: bytes, tenant: str | None) -> bytes:
    """Return a configuration, or an object with a list of them under `configs`, with another tenant."""
    if raw.lstrip()[:1] != b"{":
        return raw
    members = strict_json.open_body(raw)
    configs = members.get("configs")
    if configs is not None and bytes(configs)[:1] == b"[":
        changed = _restored(bytes(configs), tenant)
        return raw if changed == bytes(configs) else strict_json.put(raw, ("configs",), changed)
    if "tenant" not in members:
        return raw
    return strict_json.put(raw, ("tenant",), None if tenant is None else msgspec.json.encode(tenant))


_ENVELOPE = frozenset({"jsonrpc", "id", "result"})
