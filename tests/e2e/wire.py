"""What the official client does not do: requests of any shape, and what came back in one look."""

import itertools
import re
from collections.abc import Mapping
from typing import Any

import httpx
import msgspec

V1 = {"A2A-Version": "1.0"}
_ids = itertools.count(1)


def frame(method: str, params: Mapping[str, Any] | None = None, **members: Any) -> bytes:
    """A JSON-RPC request with an id of its own."""
    whole: dict[str, Any] = {"jsonrpc": "2.0", "id": f"e2e-{next(_ids)}", "method": method}
    if params is not None:
        whole["params"] = params
    return msgspec.json.encode({**whole, **members})


def message(text: str = "hello", **members: Any) -> dict[str, Any]:
    """The params of a send, as 1.0 spells them."""
    return {"message": {"messageId": f"m-{next(_ids)}", "role": "ROLE_USER", "parts": [{"text": text}]}, **members}


def old_message(text: str = "hello", **members: Any) -> dict[str, Any]:
    """The params of a send, as 0.3 spells them over JSON-RPC."""
    parts = [{"kind": "text", "text": text}]
    said = {"kind": "message", "messageId": f"m-{next(_ids)}", "role": "user", "parts": parts}
    return {"message": said, **members}


def error(answer: httpx.Response) -> dict[str, Any]:
    """The error in an answer, whichever binding it is of."""
    found: dict[str, Any] = answer.json()["error"]
    return found


def reasons(answer: httpx.Response) -> set[str]:
    """The reasons that an error gives, the protocol's and the gateway's."""
    found = error(answer)
    return {detail["reason"] for detail in found.get("data") or found.get("details") or ()}


def without_request_id(answer: httpx.Response) -> tuple[int, str, dict[str, str]]:
    """All that a caller can see of an answer but for its request id, the time, and whether its body came in time.

    The challenge of a 401 repeats the beginning of the path that was asked for (RFC 9728), and nothing else of it.
    """
    request_id = answer.headers["x-request-id"]
    kept = {name: value for name, value in answer.headers.items() if name not in ("x-request-id", "date", "connection")}
    if challenge := kept.get("www-authenticate"):
        repeated = re.search(r'oauth-protected-resource([^"]*)"', challenge)
        if repeated is not None:
            assert answer.request.url.path.startswith(repeated[1])
            kept["www-authenticate"] = challenge.replace(repeated[0], 'oauth-protected-resource"')
    return answer.status_code, answer.text.replace(request_id, "-"), kept
