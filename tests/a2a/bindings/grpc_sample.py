"""Messages of gRPC for tests: those of the vectors, and any that a class can hold."""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]  # protobuf has no types of its own
from google.protobuf.message import Message  # type: ignore[import-untyped]  # as above
from google.protobuf.timestamp_pb2 import Timestamp  # type: ignore[import-untyped]  # as above
from hypothesis import strategies as st

from gateway.a2a.bindings.grpc_message import event_class, request_class, result_class
from gateway.a2a.bindings.grpc_method import BY_PATH, GrpcMethod, method_of
from gateway.a2a.dialect import Version
from gateway.a2a.operation import CALLABLE, Operation
from tests.a2a.sample import VECTORS

VERSIONS = (Version.V0_3, Version.V1_0)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
DOUBLES = st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**60), 2**60).map(float)
# The year 1 to 9999, as seconds.
SECONDS = st.integers(-62_135_596_800, 253_402_300_799)


class Sample(NamedTuple):
    """One message of the vectors.

    Attributes:
        file: Which file has it.
        place: Where in the file: request, response, or the index of an event.
        dialect: As the file calls it: `v1.0-grpc`.
    """

    file: str
    place: str | int
    dialect: str
    operation: Operation
    version: Version
    message: bytes
    method: GrpcMethod | None

    def __str__(self) -> str:
        return f"{self.file}-{self.place}-{self.dialect}"


def samples() -> list[Sample]:
    """Every message over gRPC of the vectors, but for cards that nobody asked for."""
    return [sample for path in sorted(VECTORS.glob("*.json")) for sample in _samples(path.stem)]


def _samples(file: str) -> Iterator[Sample]:
    content = json.loads((VECTORS / f"{file}.json").read_bytes())
    name = file.partition("_")[0]
    if name not in {operation.value for operation in CALLABLE}:
        return
    operation = Operation(name)
    for version in VERSIONS:
        dialect = f"v{version}-grpc"
        for place in ("request", "response"):
            if (entry := content.get(place, {}).get(dialect)) is not None:
                told = entry["grpc"]
                method = BY_PATH[told["full_method"]] if place == "request" else None
                yield Sample(file, place, dialect, operation, version, b64decode(told["message_b64"]), method)
        for index, event in enumerate(content.get("events", ())):
            yield Sample(file, index, dialect, operation, version, b64decode(event[dialect]["message_b64"]), None)


def classes() -> list[Any]:
    """Every class of a request, an answer or an event."""
    found = {event_class(version) for version in VERSIONS}
    for method in BY_PATH.values():
        found |= {request_class(method), result_class(method.operation, method.version)}
    return sorted(found, key=lambda each: str(each.DESCRIPTOR.full_name))


def methods(version: Version) -> list[GrpcMethod]:
    """The methods of one generation's own service."""
    return [each for each in BY_PATH.values() if each.version is version and not each.scoped]


def json_values() -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | DOUBLES | TEXTS,
        lambda values: st.lists(values, max_size=3) | st.dictionaries(TEXTS, values, max_size=3),
        max_leaves=6,
    )


def messages(kind: type[Message]) -> st.SearchStrategy[Message]:
    """Messages of a class whose fields hold anything that they can, or nothing."""
    return _contents(kind.DESCRIPTOR).map(lambda tree: ParseDict(tree, kind()))


@cache
def _contents(descriptor: Any) -> st.SearchStrategy[dict[str, Any]]:
    """Generate the members of a message in ProtoJSON; of a choice one at most."""
    chosen = [each for each in descriptor.oneofs if len(each.fields) > 1]
    inside = {field.name for each in chosen for field in each.fields}
    fields = {field.json_name: _values(field) for field in descriptor.fields if field.name not in inside}
    plain = st.fixed_dictionaries({}, optional=fields)
    choices: list[st.SearchStrategy[dict[str, Any]]] = [
        st.just({}) | st.one_of([st.fixed_dictionaries({field.json_name: _values(field)}) for field in each.fields])
        for each in chosen
    ]
    return st.tuples(plain, *choices).map(lambda found: {name: value for each in found for name, value in each.items()})


def _values(field: Any) -> st.SearchStrategy[Any]:
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return st.dictionaries(TEXTS, _value(field.message_type.fields_by_name["value"]), max_size=2)
    one = _value(field)
    return st.lists(one, max_size=2) if field.is_repeated else one


def _value(field: Any) -> st.SearchStrategy[Any]:
    if field.message_type is not None:
        if field.message_type.full_name in _WELL_KNOWN:
            return _WELL_KNOWN[field.message_type.full_name]
        return st.deferred(lambda: _contents(field.message_type))
    if field.enum_type is not None:
        return st.sampled_from([value.number for value in field.enum_type.values])
    octets = st.binary(max_size=8).map(lambda raw: b64encode(raw).decode())
    return {5: st.integers(-(2**31), 2**31 - 1), 8: st.booleans(), 9: TEXTS, 12: octets}[field.type]


_NANOS = st.integers(0, 999_999_999) | st.just(0) | st.just(5_000_000)
_WELL_KNOWN = {
    "google.protobuf.Timestamp": st.builds(Timestamp, seconds=SECONDS, nanos=_NANOS).map(
        lambda moment: moment.ToJsonString()
    ),
    "google.protobuf.Struct": st.dictionaries(TEXTS, json_values(), max_size=3),
    "google.protobuf.Value": json_values(),
}


def made(operation: Operation, version: Version, **members: Any) -> bytes:
    """The request with these fields, as a client writes it."""
    return bytes(request_class(method_of(operation, version))(**members).SerializeToString())


def without_empties(tree: Any) -> Any:
    """A tree without the members that are empty and have no presence in protobuf, which contents of parts have."""
    if isinstance(tree, list):
        return [without_empties(each) for each in tree]
    if not isinstance(tree, dict):
        return tree
    return {
        name: value if name in ("metadata", "data") else without_empties(value)
        for name, value in tree.items()
        if name in _PRESENT or value not in ("", [], False, 0, "TASK_STATE_UNSPECIFIED")
    }


_PRESENT = ("text", "url", "raw", "data", "historyLength", "includeArtifacts")
