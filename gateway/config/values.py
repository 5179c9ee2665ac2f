"""The values of the format: the type of each kind of key, its spelling in the file, and the message for anything else.

A validator's ValueError has these arguments: the rest of a sentence that starts with the value, the remedy, and then
the words that would be right, if they can be listed.
"""

import math
import re
from contextlib import suppress
from datetime import date
from types import UnionType
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    PlainSerializer,
    WithJsonSchema,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema
from pydantic_core.core_schema import no_info_before_validator_function

from gateway.a2a.dialect import Version, parse_version
from gateway.a2a.operation import CALLABLE, Operation
from gateway.a2a.paths import RESERVED, fits_path, is_tenant


class Part(BaseModel):
    """A mapping of the file: frozen, and closed to keys it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=False)


def short_for(key: str, kinds: type | UnionType) -> Any:  # noqa: ANN401 - pydantic's decorator has no type of its own
    """Return a validator that widens the short form of a mapping: a value of these kinds stands for its `key`."""

    def widened(value: object) -> object:
        return {key: value} if isinstance(value, kinds) else value

    return model_validator(mode="before")(widened)


def every_part() -> tuple[type[Part], ...]:
    """Return the mappings that are known so far, those that extend others among them."""
    parts: list[type[Part]] = [Part]
    for part in parts:
        parts += part.__subclasses__()
    return tuple(parts[1:])


# ---- values ----------------------------------------------------------------------------------------------------------

HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A whole name of a header (RFC 9110 §5.6.2)."""
METADATA_NAME = re.compile(r"(?!grpc-)[0-9a-z_.-]+(?<!-bin)", re.IGNORECASE)
"""A whole key of metadata that is text and no key of gRPC's own (gRPC over HTTP/2, Requests)."""
SCOPE = re.compile(r"[!#-\[\]-~]+")
"""A whole scope (RFC 6749 §3.3)."""

_DURATION = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)")
_DURATION_FACTOR = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_RATE = re.compile(r"([0-9]{1,9})/(s|min|h)")
_RATE_PERIOD = {"s": 1.0, "min": 60.0, "h": 3600.0}
_SIZE = re.compile(r"([0-9]{1,18})(B|KB|MB|GB|KiB|MiB|GiB)?")
_SIZE_FACTOR = {None: 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_SHA256 = re.compile(r"[0-9a-f]{64}")

_FLAGS = {"true": True, "false": False}
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LONGEST = 366 * 86400.0
_MOST_BUCKETS = 50
_MODE = re.compile(r"0?[0-7]{3}")
_WHOLE = re.compile(r"[0-9]{1,15}")


def parse_duration(value: object) -> float:
    """Return the seconds of a duration such as `250ms`, `3s`, `10m`, `1h30m`, `2d`.

    Raises:
        ValueError: It is invalid; units are required, so that `30` cannot mean minutes.
    """
    text = value if isinstance(value, str) else ""
    seconds, end = 0.0, 0
    for found in _DURATION.finditer(text):
        if found.start() != end:
            break
        seconds += float(found[1]) * _DURATION_FACTOR[found[2]]
        end = found.end()
    if 0 < end == len(text) and seconds <= _LONGEST:
        return seconds
    raise ValueError("is no duration", "a duration has a unit: 250ms, 3s, 10m, 1h30m, 2d")


def _file_mode(value: object) -> object:
    # The model's own default is a number already.
    if isinstance(value, str) and _MODE.fullmatch(value) is not None:
        return int(value, 8)
    raise ValueError("is no file mode", 'write three octal digits in quotes, such as "0660"')


def parse_size(
    value: object,
    fact: str = "is no size",
    remedy: str = "a size is a number of bytes or has a unit: 512, 64KiB, 10MiB",
) -> int:
    """Return the bytes of a size such as `512`, `64KiB`, `10MiB`, `1GB`.

    Raises:
        ValueError: It is invalid.
    """
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if found is not None:
        return int(found[1]) * _SIZE_FACTOR[found[2]]
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ValueError(fact, remedy)


def _bandwidth(value: object) -> object:
    size = value.removesuffix("/s") if isinstance(value, str) else value
    return parse_size(size, "is no number of bytes a second", "write a size per second: 64KiB/s, 10MiB/s")


def _header(value: object) -> object:
    # null, false and an empty value turn the header off.
    return "" if value is None or value is False or value == "false" else value


def _format(value: object) -> object:
    # 1.0 and true equal 1 in Python, but are not versions: the next version of the format will be 2, never 1.1.
    if value == "1" or (isinstance(value, int) and not isinstance(value, bool) and value == 1):
        return 1
    raise ValueError("is no version of this format", "write version: 1")


def read_flag(value: object) -> object:
    """True or false, or their words."""
    # The words come from references: ${VAR} is always text.
    flag = _FLAGS.get(value) if isinstance(value, str) else value
    if isinstance(flag, bool):
        return flag
    raise ValueError("is neither true nor false", "write true or false")


def _count(value: object) -> object:
    if isinstance(value, str) and _WHOLE.fullmatch(value) is not None:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ValueError("is no whole number", "write digits, such as 200")


def bounded(fact: str, remedy: str, *, least: float = 0, most: float = math.inf) -> AfterValidator:
    """Return a validator that refuses numbers below `least` or above `most`."""

    def within(value: float) -> float:
        if not least <= value <= most:
            raise ValueError(fact, remedy)
        return value

    return AfterValidator(within)


def _ascending(value: tuple[float, ...]) -> tuple[float, ...]:
    if not 1 <= len(value) <= _MOST_BUCKETS or value[0] <= 0 or list(value) != sorted(set(value)):
        raise ValueError("is no list of ascending bounds above 0", f"write 1 to {_MOST_BUCKETS} upper bounds")
    return value


def _sampled(value: object) -> object:
    # References are always text.
    with suppress(ValueError):
        if isinstance(value, str | int | float) and not isinstance(value, bool) and 0 <= float(value) <= 1:
            return float(value)
    raise ValueError("is no share", "write a number from 0 to 1, such as 0.1 for every tenth")


def _skill(value: str) -> str:
    if value and value.isprintable() and len(value) <= 256:
        return value
    raise ValueError("can be no skill", "write the id of a skill, or one of its tags, as the agent's card has it")


def _field_number(value: int) -> int:
    # Numbers from 19000 on are protobuf's own, and what scoped requests hold beside the scope has numbers up to 3.
    if 3 < value < 2**29 and not 19_000 <= value <= 19_999:
        return value
    raise ValueError("can be no field's number here", "write one from 4 to 536870911, but not from 19000 to 19999")


def _per_time(value: object) -> object:
    found = _RATE.fullmatch(value) if isinstance(value, str) else None
    if found is not None and int(found[1]) > 0:
        return float(found[1]), _RATE_PERIOD[found[2]]
    raise ValueError("is no rate", "a rate is a number per time: 50/s, 600/min, 1000/h")


def _date(value: object) -> object:
    if isinstance(value, date):
        return value
    with suppress(ValueError):
        if isinstance(value, str) and _DAY.fullmatch(value) is not None:
            return date.fromisoformat(value)
    raise ValueError("is no date", "write year, month and day: 2027-06-30")


def _version(value: object) -> object:
    version = parse_version(value) if isinstance(value, str) else value
    if isinstance(version, Version):
        return version
    raise ValueError("is no version of A2A", 'write "0.1", "0.2", "0.3" or "1.0", in quotes')


def _claim_value(value: object) -> object:
    if isinstance(value, str | int):
        return value
    raise ValueError("is nothing that a claim is compared with", "write a text, a whole number, true or false")


def _unreserved(value: str) -> str:
    if value in RESERVED:
        raise ValueError("is a path segment of the protocol and can be no name", "choose another name")
    return value


def _name(value: str) -> str:
    if not fits_path(_unreserved(value)):
        raise ValueError("is no name", "a name has 1 to 64 characters of A-Z a-z 0-9 . _ -")
    return value


def _a2a_tenant(value: str) -> str:
    if is_tenant(_unreserved(value)):
        return value
    raise ValueError("can be no tenant", "write 1 to 256 bytes without control characters")


def _one_a2a_tenant(value: str) -> str:
    if value == "*":
        # Elsewhere in the file it is a wildcard, and would be taken for one.
        raise ValueError("stands for no tenant here", "write each tenant")
    return _a2a_tenant(value)


def _hashes(value: tuple[str, ...]) -> tuple[str, ...]:
    hashes = tuple(text.strip().lower() for text in value if text.strip())
    if any(_SHA256.fullmatch(text) is None for text in hashes):
        raise ValueError("is no SHA-256", "write its 64 hex digits; `a2a-gateway key new NAME` prints them")
    if not hashes:
        raise ValueError("has no hash", "`a2a-gateway key new NAME` prints a key and its hash")
    return hashes


def _operation(value: object) -> object:
    if value in CALLABLE:
        return value
    raise ValueError("is no operation", f"operations are {', '.join(CALLABLE)}", *CALLABLE)


class OneOrMany:
    """Marks a list that may be written as its one item."""

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return no_info_before_validator_function(self._widen, handler(source))

    def __get_pydantic_json_schema__(self, core: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        many = handler(core)
        return {"anyOf": [many["items"], many]}

    @staticmethod
    def _widen(value: object) -> object:
        return [value] if isinstance(value, str | dict | Part) else value


_DURATION_SCHEMA = {"type": "string", "pattern": r"^(\d+(\.\d+)?(ms|s|m|h|d))+$|\$\{"}
_SAMPLED_SCHEMA = {
    "anyOf": [{"type": "number", "minimum": 0, "maximum": 1}, {"type": "string", "pattern": r"^[01](\.\d+)?$|\$\{"}]
}
_SIZE_SCHEMA = {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": r"^\d+([KMG]i?B|B)?$|\$\{"}]}
_BANDWIDTH_SCHEMA = {
    "anyOf": [{"type": "integer", "minimum": 1}, {"type": "string", "pattern": r"^\d+([KMG]i?B|B)?(/s)?$|\$\{"}]
}
_HEADER_SCHEMA = {"anyOf": [{"type": "string"}, {"const": False}, {"const": None}]}
_RATE_SCHEMA = {"type": "string", "pattern": r"^\d+/(s|min|h)$|\$\{"}
_DATE_SCHEMA = {"type": "string", "pattern": r"^\d{4}-\d{2}-\d{2}$|\$\{"}
_VERSION_SCHEMA = {
    "anyOf": [{"enum": ["0.1", "0.2", "0.3", "1.0"]}, {"type": "string", "pattern": r"^(0\.[123]|1\.0)\.\d+$|\$\{"}]
}

Format = Annotated[Literal[1], BeforeValidator(_format)]
"""The version of the format: the number 1."""
FileMode = Annotated[
    int,
    BeforeValidator(_file_mode),
    PlainSerializer(lambda mode: f"{mode:04o}", return_type=str),
    WithJsonSchema({"type": "string", "pattern": r"^0?[0-7]{3}$|\$\{"}),
]
"""Permissions of a file, written as octal digits."""
Duration = Annotated[float, BeforeValidator(parse_duration), WithJsonSchema(_DURATION_SCHEMA)]
"""Seconds, written with a unit."""
_Bytes = Annotated[int, BeforeValidator(parse_size), WithJsonSchema(_SIZE_SCHEMA)]
Size = Annotated[_Bytes, bounded("is more than the gateway would hold in memory", "write at most 1GiB", most=1024**3)]
"""Bytes, written as a number or with a unit; at most 1 GiB, because values bounded by a size are held in memory."""
Flag = Annotated[bool, BeforeValidator(read_flag)]
"""True or false, and no other word for it."""
Count = Annotated[int, BeforeValidator(_count), WithJsonSchema({"type": "integer", "minimum": 0})]
"""A whole number."""
_AT_LEAST_ONE = bounded("is not enough", "write at least 1", least=1)
Positive = Annotated[Count, _AT_LEAST_ONE]
"""A whole number from 1 on."""
Percent = Annotated[Count, bounded("is more than all of them", "write a number of percent up to 100", most=100)]
"""A whole number of percent."""
Sampled = Annotated[float, BeforeValidator(_sampled), WithJsonSchema(_SAMPLED_SCHEMA)]
"""A share of 1."""
Trust = Annotated[
    Count,
    bounded("is no degree of trust", "write a whole number from 1 to 5", least=1, most=5),
    WithJsonSchema({"type": "integer", "minimum": 1, "maximum": 5}),
]
"""A degree of trust, from 1 to 5."""
Skill = Annotated[str, AfterValidator(_skill)]
"""The id of a skill, or a tag."""
FieldNumber = Annotated[Count, AfterValidator(_field_number)]
"""The number of a protobuf field, of those that the requests of A2A leave free."""
Wait = Annotated[Duration, bounded("is no time to wait", "write a duration above 0, such as 10s", least=math.ulp(0))]
"""Seconds above 0, written with a unit."""
Latency = Annotated[
    float | None,
    BeforeValidator(lambda value: None if value == "measured" else parse_duration(value)),
    WithJsonSchema({"anyOf": [{"const": "measured"}, _DURATION_SCHEMA]}),
]
"""Seconds, written with a unit; None for the word `measured`."""
Seconds = Annotated[
    Duration, bounded("is no time to remember something", "write a duration of 1s or more, such as 30d", least=1)
]
"""Seconds from 1 on, written with a unit."""
PerTime = Annotated[tuple[float, float], BeforeValidator(_per_time), WithJsonSchema(_RATE_SCHEMA)]
"""A count and its period in seconds; the count is also the burst."""
Bandwidth = Annotated[int, BeforeValidator(_bandwidth), _AT_LEAST_ONE, WithJsonSchema(_BANDWIDTH_SCHEMA)]
"""Bytes a second from 1 on, written as a size, with `/s` behind it or not."""
DurationBuckets = Annotated[tuple[Duration, ...], AfterValidator(_ascending)]
"""Upper bounds of the buckets of a histogram of durations."""
SizeBuckets = Annotated[tuple[Size, ...], AfterValidator(_ascending)]
"""Upper bounds of the buckets of a histogram of sizes."""
Room = Annotated[Size, _AT_LEAST_ONE]
"""Bytes from 1 on, written as a size."""
Memory = Annotated[
    _Bytes, bounded("is more memory than there is", "write at most 1048576GiB", most=1024**5), _AT_LEAST_ONE
]
"""Memory of a process in bytes, from 1 on, written as a size without the bound of `Size`."""
Header = Annotated[str | None, BeforeValidator(_header), WithJsonSchema(_HEADER_SCHEMA)]
"""The name of a header; empty for none, which may be written as null or false."""
Name = Annotated[str, AfterValidator(_name)]
"""A name of an agent, tenant, key or issuer."""
TenantName = Annotated[str, AfterValidator(lambda value: value if value == "*" else _name(value))]
"""A name of a tenant, or `*` for those that are not named."""
A2aTenant = Annotated[str, AfterValidator(_a2a_tenant)]
"""A value of the A2A `tenant` field: any text of at most 256 bytes without control characters."""
OneA2aTenant = Annotated[str, AfterValidator(_one_a2a_tenant)]
"""An `A2aTenant` that is not `*`, where readers might expect a wildcard."""
A2aTenants = Annotated[tuple[OneA2aTenant, ...], OneOrMany()]
ClaimValue = Annotated[str | int | bool, BeforeValidator(_claim_value)]
Callable = Annotated[Operation, BeforeValidator(_operation), WithJsonSchema({"enum": list(CALLABLE)})]
"""An operation that a client calls, by its 1.0 name."""
Strings = Annotated[tuple[str, ...], OneOrMany()]
"""One string or a list of them."""
TenantNames = Annotated[tuple[TenantName, ...], OneOrMany()]
Sha256s = Annotated[Strings, AfterValidator(_hashes)]
"""Hashes of a key, in lower-case hex; empty ones are left out."""
Day = Annotated[date, BeforeValidator(_date), WithJsonSchema(_DATE_SCHEMA)]
"""A day, as 2027-06-30."""
A2aVersion = Annotated[Version, BeforeValidator(_version), WithJsonSchema(_VERSION_SCHEMA)]
"""A version of A2A."""


# ---- authorities -----------------------------------------------------------------------------------------------------


SYSTEM = "system"
"""The authorities that the system trusts."""


class PeerTls(Part):
    """The certificate authorities for servers that are reached by https."""

    ca: str = SYSTEM
    """PEM file of the authorities that are trusted instead of the system's, relative to this file; or `system`."""
