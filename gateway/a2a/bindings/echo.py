"""The `tenant` that push configurations echo: the client must see its own, never the agent's.

No answer of A2A carries a tenant but TaskPushNotificationConfig (protocol §2.1), which servers return as it was stored.
Where the gateway changed the tenant of the request, it changes it back in the answer.
"""

from typing import Any

import msgspec

from gateway.a2a import json as strict_json
from gateway.a2a.dialect import Binding
from gateway.a2a.fault import ParseFailed


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
        found = pending.pop()
        if isinstance(found, dict):
            found.pop("tenant", None)
            pending += found.values()
        elif isinstance(found, list):
            pending += found


def _restored(raw: bytes, tenant: str | None) -> bytes:
    start = raw.lstrip()[:1]
    if start == b"[":
        try:
            items = [bytes(item) for item in _list.decode(raw)]
        except (msgspec.DecodeError, RecursionError) as error:
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
_list = msgspec.json.Decoder(list[msgspec.Raw])
