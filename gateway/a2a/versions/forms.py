"""The registry of the forms: one for each dialect that can be translated."""

from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.versions import v0_1, v0_3, v0_3_proto, v1_0
from gateway.a2a.versions.version import Form

FORMS: dict[Dialect, Form] = {
    Dialect(Binding.JSONRPC, Version.V0_1): v0_1.FORM,
    Dialect(Binding.JSONRPC, Version.V0_3): v0_3.FORM,
    Dialect(Binding.REST, Version.V0_3): v0_3_proto.FORM,
    Dialect(Binding.JSONRPC, Version.V1_0): v1_0.FORM,
    Dialect(Binding.REST, Version.V1_0): v1_0.FORM,
    # Protobuf has the objects that ProtoJSON writes.
    Dialect(Binding.GRPC, Version.V0_3): v0_3_proto.FORM,
    Dialect(Binding.GRPC, Version.V1_0): v1_0.FORM,
}
"""The form of each dialect that can be translated."""
