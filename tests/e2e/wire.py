"""Requests that the official client does not send, in any shape, with their answers."""

import itertools
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


def error(answer: httpx.Response) -> dict[str, Any]:
    """The error in an answer, whichever binding it is of."""
    found: dict[str, Any] = answer.json()["error"]
    return found
