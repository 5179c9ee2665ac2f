"""Request targets: a path and a query go on in one spelling, which nobody behind reads otherwise, or not at all.

METHOD target        such as `POST /acme/tasks/a:b:cancel?tenant=acme`
"""

import re
from urllib.parse import parse_qsl, unquote_to_bytes

from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadRequest
from gateway.a2a.operation import Operation
from gateway.a2a.params import query_value, refuse_other_ids, split_query
from gateway.a2a.paths import NAME, PathCall, read_rest, rest_path, segments
from tests.fuzz.driver import run

SEEDS = [
    b"POST /message:send",
    b"POST /acme/v1/message:stream?A2A-Version=1.0",
    b"POST /acme/tasks/a:b:cancel?tenant=acme",
    b"GET /tasks/%C3%A4%3a%20b?id=%C3%A4:%20b&historyLength=1",
    b"GET /v1/tasks?contextId=c%2B1&pageToken=a%3D%3D+/",
    b"POST /tasks/x/subscribe/",
    b"DELETE /tasks/a%3Bb/pushNotificationConfigs/c?task_id=a%3Bb&x",
    b"GET /.well-known/agent-card.json",
    b"GET /agent/authenticatedExtendedCard",
    b"GET /extendedAgentCard",
]
WORDS = [
    b"/", b"//", b"/../", b"%2e%2e", b"%2f", b"%2F", b"%5c", b"%00", b"%25", b"%252e", b"%3A", b"%c0%af", b"%e2%80%8d",
    b";", b":", b":cancel", b":subscribe", b"/subscribe", b"tasks", b"pushNotificationConfigs", b"v1", b"message:send",
    b"extendedAgentCard", b".well-known/", b"?", b"&", b"=", b"tenant=", b"Tenant=", b"ten%61nt=", b"id=", b"taskId=",
    b"task_id=", b"contextId=", b"message.taskId=", b"tenant[]=", b"+", b"#", b"%20", b"%7f", b"A2A-Version=", b"@h:80",
]  # fmt: skip

_MARKS = "~!$&'()*+,=:@"
_TENANT = re.compile(r"(?i)tenant")


def target(data: bytes) -> object:
    """Reads a target, and what goes on of it, in every way that others may."""
    method, _, rest = data.partition(b" ")
    raw, _, query = rest.partition(b"?")
    try:
        call = read_rest(method.decode("latin-1"), segments(raw), tenanted=True)
        tenant, passed = split_query(query)
        if call is not None:
            refuse_other_ids(passed, call, listing=call.operation is Operation.LIST_TASKS)
    except BadRequest as fault:
        return fault.message
    _same_query(query, tenant, passed)
    if call is None or call.operation is None or call.card is not None or call.legacy_card:
        return call if call is None else (call.card, call.legacy_card, call.allowed)
    _same_path(method.decode("latin-1"), raw, call)
    return call.operation, call.prefixed, call.tenant is None, call.allowed


def _same_path(method: str, raw: bytes, call: PathCall) -> None:
    assert call.tenant is None or NAME.fullmatch(call.tenant) is not None
    path = rest_path(call, Version.V0_3 if call.prefixed else Version.V1_0)
    # It is a path of visible ASCII, with no segment that climbs, whether it is unescaped once or twice.
    assert re.fullmatch(r"(?:/[A-Za-z0-9._~!$&'()*+,=:@%-]+)+", path)
    once = unquote_to_bytes(path)
    twice = unquote_to_bytes(once)
    for text in (once, twice):
        assert text.count(b"/") == path.count("/")
        assert not {b".", b".."} & set(text.split(b"/"))
        assert not set(text) & {*range(32), 0x7F, 0x5C, 0x25}
    # Read again it is the same call, and written again the same path.
    again = read_rest(method, segments(path.encode()), tenanted=False)
    assert again is not None
    assert (again.operation, again.task_id, again.config_id) == (call.operation, call.task_id, call.config_id)
    assert rest_path(again, Version.V0_3 if call.prefixed else Version.V1_0) == path
    # The path is the same but for the marks that encoders differ on.
    came = re.sub(r"%[0-9A-Fa-f]{2}", _spelled, raw.decode("ascii")).removesuffix("/")
    came = came.removeprefix("" if call.tenant is None else f"/{call.tenant}")
    if call.operation is Operation.SUBSCRIBE_TO_TASK and came.endswith("/subscribe"):
        came = came.removesuffix("/subscribe") + ":subscribe"
    if call.prefixed and call.operation in (Operation.CREATE_PUSH_CONFIG, Operation.LIST_PUSH_CONFIGS):
        came = re.sub("^/v1/task/", "/v1/tasks/", came)
    if call.operation is Operation.GET_EXTENDED_CARD:
        return
    assert came == path, (came, path)


def _spelled(escape: re.Match[str]) -> str:
    letter = chr(int(escape[0][1:], 16))
    return letter if letter in _MARKS else escape[0].upper()


def _same_query(query: bytes, tenant: str | None, passed: bytes) -> None:
    before = parse_qsl(query.decode("ascii"), keep_blank_values=True, errors="strict")
    after = parse_qsl(passed.decode("ascii"), keep_blank_values=True, errors="strict")
    assert after == [pair for pair in before if pair[0] != "tenant"]
    assert [value or None for name, value in before if name == "tenant"] in ([], [tenant])
    names = [name for name, _ in after]
    assert len({re.sub("[_-]", "", name.lower()) for name in names}) == len(names)
    assert not any(_TENANT.search(name) for name in names)
    assert not any(set(value) & set(map(chr, (*range(32), 0x7F))) for _, value in after)
    # Some take a semicolon for an ampersand.
    assert b";" not in passed
    assert b"#" not in passed
    assert split_query(passed) == (None, passed)
    for name, value in after:
        assert query_value(passed, name) == (value or None)


if __name__ == "__main__":
    run(target, SEEDS, words=WORDS, longest=8 * 1024)
