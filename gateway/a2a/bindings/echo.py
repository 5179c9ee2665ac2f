"""The `tenant` that push configurations echo: the client must see its own, never the agent's.

No answer of A2A carries a tenant but TaskPushNotificationConfig (protocol §2.1), which servers give back with whatever
they stored. Where the gateway changed the tenant on the way in, it changes it back on the way out.
"""

from typing import Any

import msgspec

from gateway.a2a import document
from gateway.a2a.dialect import Binding
from gateway.a2a.document import Members
from gateway.a2a.fault import ParseFailed
from gateway.a2a.layout import cut, edited, locate


def restore_tenant(body: bytes, binding: Binding, tenant: str | None) -> bytes:
    """An answer with one configuration or a list of them, each with the client's tenant or with none.

    An answer of another shape is given back as it came.

    Raises:
        BadRequest: it is no JSON, or could be read in two ways, so that the agent's tenant might slip through.
    """
    if binding is not Binding.JSONRPC:
        return _restored(body, tenant)
    members = document.open_body(body)
    result = members.get("result")
    if result is None:
        return body
    restored = _restored(bytes(result), tenant)
    if restored == bytes(result) and members.keys() <= _ENVELOPE:
        return body
    return with_result(members, restored)


def forget_tenants(tree: Any) -> None:  # noqa: ANN401 - any JSON
    """Take every `tenant` out of what an agent said of push configurations, wherever it put it."""
    pending = [tree]
    while pending:
        found = pending.pop()
        if isinstance(found, dict):
            found.pop("tenant", None)
            pending += found.values()
        elif isinstance(found, list):
            pending += found


def with_result(members: Members, result: bytes) -> bytes:
    """The JSON-RPC answer with another result; members that the envelope does not know may hold anything, and go."""
    kept: dict[str, msgspec.Raw | str] = {name: members[name] for name in ("jsonrpc", "id") if name in members}
    return document.write({**kept, "result": msgspec.Raw(result)})


def _restored(raw: bytes, tenant: str | None) -> bytes:
    start = raw.lstrip()[:1]
    if start == b"[":
        try:
            items = [bytes(item) for item in _list.decode(raw)]
        except (msgspec.DecodeError, RecursionError) as error:
            raise ParseFailed("the body is not valid JSON") from error
        restored = [_one(item, tenant) for item in items]
        return raw if restored == items else b"[" + b",".join(restored) + b"]"
    if start != b"{":
        return raw
    members = document.open_body(raw)
    configs = members.get("configs")
    if configs is not None and bytes(configs)[:1] == b"[":
        changed = _restored(bytes(configs), tenant)
        if changed == bytes(configs):
            return raw
        place = locate(raw, (0, len(raw)), members, "configs")
        return edited(raw, [(place.value, place.end, changed)])
    return _written(raw, members, tenant)


def _one(raw: bytes, tenant: str | None) -> bytes:
    return _written(raw, document.open_body(raw), tenant) if raw[:1] == b"{" else raw


def _written(raw: bytes, members: Members, tenant: str | None) -> bytes:
    if "tenant" not in members:
        return raw
    place = locate(raw, (0, len(raw)), members, "tenant")
    if tenant is None:
        return edited(raw, [cut(raw, place)])
    return edited(raw, [(place.value, place.end, msgspec.json.encode(tenant))])


_ENVELOPE = frozenset({"jsonrpc", "id", "result"})
_list = msgspec.json.Decoder(list[msgspec.Raw])
