"""Which classes the methods of gRPC have."""

import subprocess
import sys


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
