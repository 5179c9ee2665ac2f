"""The methods of gRPC, beside the services as the official SDK has them."""

import subprocess
import sys
from typing import Any

from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from a2a.types import a2a_pb2 as new

from gateway.a2a.bindings.grpc_method import (
    BY_PATH,
    SCOPE_FIELD,
    SCOPED_0_3,
    SERVICE_0_3,
    SERVICE_1_0,
)
from gateway.a2a.dialect import Version
from tests.table import for_each

V0_3, V1_0 = Version.V0_3, Version.V1_0
OFFICIAL = {V1_0: new.DESCRIPTOR, V0_3: old.DESCRIPTOR}
OWN = {V1_0: SERVICE_1_0, V0_3: SERVICE_0_3}


def service(version: Version) -> Any:
    """A2A's own service of a generation."""
    return OFFICIAL[version].services_by_name["A2AService"]


@for_each("version", OFFICIAL)
def test_every_method_of_the_official_service_is_known_and_no_other(version: Version) -> None:
    official = service(version)
    assert official.full_name == OWN[version]
    known = {path for path, method in BY_PATH.items() if method.version is version and not method.scoped}
    assert known == {f"/{official.full_name}/{method.name}" for method in official.methods}


@for_each("version", OFFICIAL)
def test_what_streams_here_streams_there(version: Version) -> None:
    for method in service(version).methods:
        operation = BY_PATH[f"/{OWN[version]}/{method.name}"].operation
        assert operation.streams is method.server_streaming
        assert not method.client_streaming


def test_the_scoped_service_has_the_methods_of_0_3() -> None:
    plain = {
        path.rpartition("/")[2]: each for path, each in BY_PATH.items() if each.version is V0_3 and not each.scoped
    }
    scoped = {path.rpartition("/")[2]: each for path, each in BY_PATH.items() if each.scoped}
    assert plain.keys() == scoped.keys()
    for name, method in scoped.items():
        assert method.path == f"/{SCOPED_0_3}/{name}"
        assert (method.operation, method.version) == (plain[name].operation, V0_3)


def test_the_field_of_a_scope_is_nobody_elses() -> None:
    for method in service(V0_3).methods:
        assert SCOPE_FIELD not in method.input_type.fields_by_number


def test_the_classes_are_not_imported_before_one_is_asked_for() -> None:
    code = """
import sys
import gateway.a2a.bindings.grpc, gateway.a2a.bindings.grpc_fields
assert not any(name.startswith(("a2a", "grpc", "httpx", "pydantic")) for name in sys.modules), sorted(sys.modules)
from gateway.a2a.bindings.grpc_method import BY_PATH
from gateway.a2a.bindings.grpc_message import request_class
request_class(BY_PATH["/a2a.v1.A2AService/GetTask"])
assert "a2a.compat.v0_3.a2a_v0_3_pb2" in sys.modules
assert "a2a.types.a2a_pb2" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
