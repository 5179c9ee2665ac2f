"""The gRPC methods that clients call: their paths, operations and versions.

Three services (protocol §3): A2A's own of 1.0 and of 0.3, and the scoped one that was proposed for 0.3, whose messages
are the same with a `scope` beside the rest. The package in the path determines the version, and headers are ignored
(protocol trap 25): messages of one version partly parse as those of the other.
"""

from collections.abc import Mapping

import msgspec

from gateway.a2a.dialect import Version
from gateway.a2a.operation import Operation
from gateway.a2a.spelling import SPELLINGS

SERVICE_1_0 = "lf.a2a.v1.A2AService"
SERVICE_0_3 = "a2a.v1.A2AService"
SCOPED_0_3 = "a2a.v1.ScopedA2AService"
SERVICES = (SERVICE_1_0, SERVICE_0_3, SCOPED_0_3)

SCOPE_FIELD = 100
"""The number of `scope` in requests of the scoped service by default: the proposal has given it none."""


class GrpcMethod(msgspec.Struct, frozen=True):
    """One method of one service.

    Attributes:
        path: As HTTP/2 has it: `/<service>/<name>`.
        scoped: Whether its request has a `scope`, which is the tenant.
    """

    path: str
    operation: Operation
    version: Version
    scoped: bool = False


def _methods() -> dict[tuple[Operation, Version, bool], GrpcMethod]:
    methods: dict[tuple[Operation, Version, bool], GrpcMethod] = {}
    for operation, row in SPELLINGS.items():
        methods[operation, Version.V1_0, False] = GrpcMethod(f"/{SERVICE_1_0}/{operation}", operation, Version.V1_0)
        for service, scoped in ((SERVICE_0_3, False), (SCOPED_0_3, True)) if row.grpc_0_3 else ():
            path = f"/{service}/{row.grpc_0_3}"
            methods[operation, Version.V0_3, scoped] = GrpcMethod(path, operation, Version.V0_3, scoped)
    return methods


_METHODS = _methods()

BY_PATH: Mapping[str, GrpcMethod] = {method.path: method for method in _METHODS.values()}
"""Every method by its path."""


def method_of(operation: Operation, version: Version, *, scoped: bool = False) -> GrpcMethod:
    """Return the method that asks an agent for an operation.

    Raises:
        KeyError: the generation has none for it.
    """
    return _METHODS[operation, version, scoped]
