"""Calls for a list of tasks, and their answers, in every dialect that has them."""

import json
from copy import deepcopy
from itertools import product
from typing import Any

import msgspec
from a2a.types import a2a_pb2
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]  # protobuf ships no stubs

from gateway.a2a import json as strict_json
from gateway.a2a.bindings import binding, grpc, jsonrpc, rest
from gateway.a2a.bindings.grpc_method import BY_PATH
from gateway.a2a.bindings.rest import write_query
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.framing.grpc import unframe
from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.paths import read_rest
from gateway.a2a.task_list import can_list
from gateway.a2a.translation import FORMS
from gateway.a2a.versions.version import Memo

LIST = Operation.LIST_TASKS
JSONRPC, REST, GRPC = (Dialect(binding, Version.V1_0) for binding in (Binding.JSONRPC, Binding.REST, Binding.GRPC))
JSONRPC_0_3, REST_0_3 = (Dialect(binding, Version.V0_3) for binding in (Binding.JSONRPC, Binding.REST))
CLIENTS = (JSONRPC, REST, GRPC, JSONRPC_0_3, REST_0_3)
PAIRS = [(ours, theirs) for ours, theirs in product(CLIENTS, CLIENTS) if can_list(ours, theirs)]


def listed(dialect: Dialect = JSONRPC, **params: Any) -> Call:
    """The call of a client who lists tasks, with parameters as its dialect spells them."""
    if dialect.binding is Binding.GRPC:
        message = ParseDict(params, a2a_pb2.ListTasksRequest()).SerializeToString()
        return grpc.read_call(BY_PATH["/lf.a2a.v1.A2AService/ListTasks"], message)
    if dialect.binding is Binding.REST:
        path = read_rest("GET", ("tasks",) if dialect is REST else ("v1", "tasks"), tenanted=False)
        assert path is not None
        return rest.read_call(path, b"", write_query(LIST, params), dialect.version)
    method = "ListTasks" if dialect is JSONRPC else "tasks/list"
    return called({"jsonrpc": "2.0", "id": "mine", "method": method, "params": params})


def called(frame: Tree) -> Call:
    path = read_rest("POST", (), tenanted=False)
    assert path is not None
    return jsonrpc.read_call(jsonrpc.open_envelope(json.dumps(frame).encode()), path, b"", None)


def page_of(theirs: Dialect, tasks: list[Tree], next_token: str = "") -> bytes:
    """The agent's answer that tells of these tasks of the hub, among everybody's."""
    result = {"tasks": deepcopy(tasks), "nextPageToken": next_token, "pageSize": 50, "totalSize": 4711}
    lowered = FORMS[theirs].lower_result(LIST, result, Memo())
    answer = binding.of(theirs).answer(msgspec.structs.replace(listed(theirs), id=b'"1"'), lowered)
    return unframe(answer)[0] if theirs.binding is Binding.GRPC else answer


def result_of(ours: Dialect, answer: bytes) -> Tree:
    """Return the result that a client reads in its answer, in its own words."""
    if ours.binding is Binding.GRPC:
        [message] = unframe(answer)
        return dict(grpc.read_answer(LIST, ours.version, message))
    found = strict_json.read(msgspec.Raw(answer))
    return dict(found["result"] if ours.binding is Binding.JSONRPC else found)
