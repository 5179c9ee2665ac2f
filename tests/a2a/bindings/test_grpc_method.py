"""The methods of gRPC, beside the services as the official SDK has them."""

from typing import Any

import pytest
from a2a.compat.v0_3 import a2a_v0_3_pb2 as old
from a2a.types import a2a_pb2 as new

from gateway.a2a.bindings.grpc_method import (
    BY_PATH,
    SCOPE_FIELD,
    SCOPED_0_3,
    SERVICE_0_3,
    SERVICE_1_0,
    SERVICES,
    method_of,
)
from gateway.a2a.dialect import Version
from gateway.a2a.operation import CALLABLE, Operation

V0_3, V1_0 = Version.V0_3, Version.V1_0
OFFICIAL = {V1_0: new.DESCRIPTOR, V0_3: old.DESCRIPTOR}
OWN = {V1_0: SERVICE_1_0, V0_3: SERVICE_0_3}


def service(version: Version) -> Any:
    """A2A's own service of a generation."""
    return OFFICIAL[version].services_by_name["A2AService"]


@pytest.mark.parametrize("version", OFFICIAL)
def test_every_method_of_the_official_service_is_known_and_no_other(version: Version) -> None:
    official = service(version)
    assert official.full_name == OWN[version]
    known = {path for path, method in BY_PATH.items() if method.version is version and not method.scoped}
    assert known == {f"/{official.full_name}/{method.name}" for method in official.methods}


@pytest.mark.parametrize("version", OFFICIAL)
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


def test_a_method_is_found_by_what_it_does_and_by_its_path() -> None:
    for path, method in BY_PATH.items():
        assert method_of(method.operation, method.version, scoped=method.scoped) is method
        assert method.path == path
        assert path.startswith(tuple(f"/{name}/" for name in SERVICES))
    assert {method.operation for method in BY_PATH.values() if method.version is V1_0} == set(CALLABLE)


def test_a_name_that_two_generations_share_is_told_apart_by_its_package() -> None:
    assert BY_PATH["/lf.a2a.v1.A2AService/SendMessage"].version is V1_0
    assert BY_PATH["/a2a.v1.A2AService/SendMessage"].version is V0_3
    assert BY_PATH["/a2a.v1.A2AService/GetAgentCard"].operation is Operation.GET_EXTENDED_CARD
    assert BY_PATH["/a2a.v1.A2AService/TaskSubscription"].operation is Operation.SUBSCRIBE_TO_TASK


@pytest.mark.parametrize("scoped", [False, True])
def test_what_a_generation_does_not_have_is_not_there(*, scoped: bool) -> None:
    with pytest.raises(KeyError):
        method_of(Operation.LIST_TASKS, V0_3, scoped=scoped)
    for operation, version in ((Operation.GET_CARD, V1_0), (Operation.SEND_MESSAGE, Version.V0_1)):
        with pytest.raises(KeyError):
            method_of(operation, version)
    with pytest.raises(KeyError):
        method_of(Operation.SEND_MESSAGE, V1_0, scoped=True)
