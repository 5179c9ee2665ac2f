"""Errors of agents as a2a-sdk's own clients understand them: which exception they raise, with which words."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from a2a.client.errors import A2AClientError
from a2a.client.transports.jsonrpc import JsonRpcTransport
from a2a.client.transports.rest import RestTransport
from a2a.compat.v0_3 import types as types_0_3
from a2a.compat.v0_3.jsonrpc_transport import CompatJsonRpcTransport
from a2a.compat.v0_3.rest_transport import CompatRestTransport
from a2a.types import a2a_pb2
from a2a.utils.errors import JSON_RPC_ERROR_CODE_MAP, A2AError

from gateway.a2a.agent_error import AgentError, read_jsonrpc, write_jsonrpc, write_rest
from gateway.a2a.dialect import Version
from gateway.a2a.fault import KINDS, ErrorKind, code_toward
from tests.table import for_each

BY_NAME = {kind.__name__: kind for kind in JSON_RPC_ERROR_CODE_MAP}
# The SDK has no reason for it, so that its clients of HTTP+JSON see a 400 alone.
WITHOUT_REASON = -32700
BY_CODE = {code: kind for kind, code in JSON_RPC_ERROR_CODE_MAP.items()}
KNOWN = [pytest.param(kind, id=kind.name) for kind in KINDS if kind.name in BY_NAME]
URL = "https://gateway.example/a2a"


def error_of(code: int, message: str = "so") -> AgentError:
    found = read_jsonrpc(json.dumps({"code": code, "message": message}).encode(), Version.V1_0)
    assert found is not None
    return found


def card() -> Any:
    return a2a_pb2.AgentCard()


def heard_jsonrpc(error: AgentError, version: Version) -> Exception:
    body = json.loads(write_jsonrpc(error, id=b'"1"', version=version))
    kind = JsonRpcTransport if version is Version.V1_0 else CompatJsonRpcTransport
    found: Exception = kind(httpx.AsyncClient(verify=False), card(), URL)._create_jsonrpc_error(body["error"])
    return found


def heard_rest(error: AgentError, version: Version) -> Exception:
    status, body = write_rest(error, version=version)
    kind = RestTransport if version is Version.V1_0 else CompatRestTransport
    transport = kind(httpx.AsyncClient(verify=False), card(), URL)
    return raised(transport._handle_http_error, failed(status, body))


def failed(status: int, body: bytes) -> httpx.HTTPStatusError:
    request = httpx.Request("POST", URL)
    response = httpx.Response(status, content=body, headers={"content-type": "application/json"}, request=request)
    return httpx.HTTPStatusError("failed", request=request, response=response)


def raised(call: Callable[[Any], object], argument: object) -> Exception:
    with pytest.raises((A2AError, A2AClientError)) as caught:
        call(argument)
    return caught.value


@for_each("kind", KNOWN)
def test_clients_of_1_0_raise_the_exception_of_that_name(kind: ErrorKind) -> None:
    error = error_of(kind.code)
    for found in (
        heard_jsonrpc(error, Version.V1_0),
        *([] if kind.code == WITHOUT_REASON else [heard_rest(error, Version.V1_0)]),
    ):
        assert type(found) is BY_NAME[kind.name]
        assert str(found) == "so"


@for_each("kind", KNOWN)
def test_clients_of_0_3_raise_the_nearest_exception(kind: ErrorKind) -> None:
    error = error_of(kind.code)
    assert type(heard_jsonrpc(error, Version.V0_3)) is BY_CODE[code_toward(kind.code, Version.V0_3)]
    # Over HTTP+JSON the name is told, and there is one for each.
    assert type(heard_rest(error, Version.V0_3)) is BY_NAME[kind.name]
    assert str(heard_rest(error, Version.V0_3)) == "so"


@for_each("kind", list(KINDS))
def test_the_types_of_0_3_hold_whatever_is_written(kind: ErrorKind) -> None:
    written = write_jsonrpc(error_of(kind.code), id=b'"1"', version=Version.V0_3)
    found = types_0_3.JSONRPCErrorResponse.model_validate_json(written)
    assert found.error is not None
    assert found.error.code == json.loads(written)["error"]["code"]


def test_an_error_of_the_agents_own_shows_its_code_or_its_words() -> None:
    error = error_of(-32050, "the printer is on fire")
    for version in (Version.V1_0, Version.V0_3):
        assert "the printer is on fire" in str(heard_jsonrpc(error, version))
        assert "the printer is on fire" in str(heard_rest(error, version))
    assert "-32050" in str(heard_jsonrpc(error, Version.V1_0))
