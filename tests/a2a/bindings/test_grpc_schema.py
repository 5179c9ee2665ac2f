"""Which classes the methods of gRPC have."""

import subprocess
import sys

from gateway.a2a.bindings.grpc_schema import scope_class
from tests.support.grpc_bytes import text_field


def test_a_scope_is_read_and_changed_beside_fields_that_stay_as_they_are() -> None:
    before, after = text_field(1, "a"), text_field(90, "b")
    scoped = scope_class(7).FromString(before + text_field(7, "acme") + after)
    assert scoped.scope == "acme"
    scoped.scope = ""
    assert scoped.SerializeToString() == before + after


def test_the_classes_are_not_imported_before_one_is_asked_for() -> None:
    code = """
import sys
import gateway.a2a.bindings.grpc, gateway.a2a.bindings.grpc_progress
assert not any(name.startswith(("a2a", "grpc", "httpx", "pydantic")) for name in sys.modules), sorted(sys.modules)
from gateway.a2a.bindings.grpc_method import BY_PATH
from gateway.a2a.bindings.grpc_schema import request_class
request_class(BY_PATH["/a2a.v1.A2AService/GetTask"])
assert "a2a.compat.v0_3.a2a_v0_3_pb2" in sys.modules
assert "a2a.types.a2a_pb2" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
