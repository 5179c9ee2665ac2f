"""The `tenant` that push configurations echo: the client must see its own, never the agent's.

No answer of A2A carries a tenant but TaskPushNotificationConfig (protocol §2.1), which servers give back with whatever
they stored. Where the gateway changed the tenant on the way in, it changes it back on the way out.
"""

import msgspec

from gateway.a2a import document
from gateway.a2a.dialect import Binding
from gateway.a2a.document import Members
from gateway.a2a.fault import BadRequest


def restore_tenant(body: bytes, binding: Binding, tenant: str | None) -> bytes:
    """An answer with one configuration or a list of them, each with the client's tenant or with none.

    An answer of another shape is given back as it came.
    """
    try:
        members = document.open_body(body)
        if binding is Binding.JSONRPC:
            result = members.get("result")
            if result is None:
                return body
            return document.write({**members, "result": msgspec.Raw(_restored(bytes(result), tenant))})
        return _restored(body, tenant)
    except BadRequest:
        return body


def _restored(raw: bytes, tenant: str | None) -> bytes:
    start = raw.lstrip()[:1]
    if start == b"[":
        return b"[" + b",".join(_one(item, tenant) for item in _list.decode(raw)) + b"]"
    if start != b"{":
        return raw
    members = document.open_body(raw)
    configs = members.get("configs")
    if configs is not None and bytes(configs)[:1] == b"[":
        return document.write({**members, "configs": msgspec.Raw(_restored(bytes(configs), tenant))})
    return _write(members, tenant)


def _one(raw: msgspec.Raw, tenant: str | None) -> bytes:
    plain = bytes(raw)
    return _write(document.open_body(plain), tenant) if plain[:1] == b"{" else plain


def _write(members: Members, tenant: str | None) -> bytes:
    if "tenant" not in members:
        return document.write(members)
    kept = {name: value for name, value in members.items() if name != "tenant"}
    return document.write(kept if tenant is None else {"tenant": tenant, **kept})


_list = msgspec.json.Decoder(list[msgspec.Raw])
