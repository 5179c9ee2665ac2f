from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from gateway.a2a.dialect import Version
from gateway.a2a.operation import Operation
from gateway.config.values import (
    A2aVersion,
    Bandwidth,
    Callable,
    ClaimValue,
    Count,
    Day,
    Duration,
    FieldNumber,
    Flag,
    Format,
    Header,
    Memory,
    Name,
    PerTime,
    Positive,
    Room,
    Seconds,
    Sha256s,
    Size,
    Strings,
    TenantName,
    Wait,
)
from tests.config.reading import HASH
from tests.table import for_each


def read(kind: Any, value: object) -> object:
    return TypeAdapter(kind).validate_python(value)


@for_each(
    ("kind", "written", "value"),
    [
        (Duration, "1h30m", 5400.0), (Duration, "0s", 0.0), (Duration, "250ms", 0.25),
        (Size, "64KiB", 65536), (Size, 512, 512), (Size, "512", 512), (Size, "1GiB", 1024**3),
        (Positive, 1, 1), (Wait, "1ms", 0.001), (FieldNumber, 4, 4), (PerTime, "600/min", (600.0, 60.0)),
        (Callable, "GetTask", Operation.GET_TASK), (Sha256s, [HASH.upper(), " "], (HASH,)),
        (Bandwidth, "10MiB/s", 10 * 1024**2), (Bandwidth, "10MiB", 10 * 1024**2), (Bandwidth, 512, 512),
        (Bandwidth, "2GB/s", 2 * 1000**3), (Room, "1", 1), (Memory, "64GiB", 64 * 1024**3),
        (Seconds, "1s", 1.0), (Seconds, "90d", 90 * 86400.0),
        (Header, "X-Tenant", "X-Tenant"), (Header, None, ""), (Header, False, ""), (Header, "", ""),
        (Header, "false", ""),
        (Format, 1, 1), (Format, "1", 1),
        (Flag, True, True), (Flag, "false", False),
        (Count, 7, 7), (Count, "7", 7),
        (Strings, "a", ("a",)), (Strings, ["a", "b"], ("a", "b")),
        (A2aVersion, "0.1", Version.V0_1), (A2aVersion, "0.2.5", Version.V0_3), (A2aVersion, "1.0", Version.V1_0),
        (Name, "a.B_c-1", "a.B_c-1"), (TenantName, "*", "*"),
        (ClaimValue, True, True), (ClaimValue, 1, 1), (ClaimValue, "x", "x"),
    ],
)  # fmt: skip
def test_a_value_is_read_as_it_is_written(kind: object, written: object, value: object) -> None:
    assert read(kind, written) == value
    assert type(read(kind, written)) is type(value)


@for_each(
    ("kind", "written"),
    [
        (Duration, 30), (Duration, "30"), (Duration, "1 h"), (Duration, ""), (Duration, "-3s"),
        (Duration, "9" * 40 + "s"),
        (Duration, "400d"), (Duration, True), (Duration, None),
        (Size, True), (Size, -1), (Size, "10 MiB"), (Size, 1.5), (Size, "9" * 5000),
        (Size, "1025MiB"), (Size, 1024**3 + 1), (Size, None),
        (Positive, 0), (Wait, "0s"), (FieldNumber, 3), (FieldNumber, 19_000), (PerTime, 600), (PerTime, "600/day"),
        (Callable, "get_task"), (Sha256s, "abc"), (Sha256s, [""]),
        (Bandwidth, "10MiB/min"), (Bandwidth, 0), (Bandwidth, "0/s"), (Bandwidth, True), (Bandwidth, None),
        (Bandwidth, "/s"), (Bandwidth, -1), (Room, 0), (Room, "many"), (Memory, 0), (Memory, "9999999GiB"),
        (Seconds, "500ms"), (Seconds, "30"),
        (Format, 1.0), (Format, True), (Format, "1.0"), (Format, 2), (Format, None),
        (Flag, "yes"), (Flag, 1), (Flag, "True"), (Flag, None),
        (Count, True), (Count, -1), (Count, 1.0), (Count, "a"), (Count, "9" * 16),
        (Day, 20270630), (Day, "2027-6-3"), (Day, "2027-02-30"), (Day, "2027-W01-1"), (Day, None),
        (A2aVersion, "2.0"), (A2aVersion, 0.3), (A2aVersion, ""),
        (Name, ""), (Name, "*"), (Name, "a b"), (Name, "x" * 65), (Name, "tasks"), (Name, ".."), (Name, "message:send"),
        (ClaimValue, 1.5), (ClaimValue, None), (ClaimValue, ["a"]),
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_a_fact_and_a_remedy(kind: object, written: object) -> None:
    with pytest.raises(ValidationError) as caught:
        read(kind, written)
    (error,) = caught.value.errors()
    fact, remedy, *_ = error["ctx"]["error"].args
    assert fact.startswith(("is ", "has ", "can "))
    assert remedy
