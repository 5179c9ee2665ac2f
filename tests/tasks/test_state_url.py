from pathlib import Path

import pytest

from gateway.tasks.state_url import StateUrl, default_state, may_be_shown, read_state
from tests.config.reading import examined, good
from tests.table import for_each

FOLDER = Path("/etc/gateway")


@for_each(
    ("text", "path"),
    [
        ("sqlite:///var/lib/a2a-gateway/state.db", "/var/lib/a2a-gateway/state.db"),
        ("sqlite:////var/lib/a2a-gateway/state.db", "/var/lib/a2a-gateway/state.db"),
        ("sqlite:/var/lib/state.db", "/var/lib/state.db"),
        ("sqlite://state.db", "/etc/gateway/state.db"),
        ("sqlite://data/state.db", "/etc/gateway/data/state.db"),
        ("sqlite:./state.db", "/etc/gateway/state.db"),
        ("sqlite:state.db", "/etc/gateway/state.db"),
        ("sqlite://my state@home.db", "/etc/gateway/my state@home.db"),
    ],
)
def test_a_sqlite_url_is_a_path(text: str, path: str) -> None:
    state = read_state(text).beside(FOLDER)
    assert (state.kind, state.path) == ("sqlite", Path(path))
    assert state.label == f"sqlite://{path}"
    assert not state.is_shared


@for_each(
    ("text", "label"),
    [
        ("redis://redis", "redis://redis"),
        ("redis://redis:6379/3", "redis://redis:6379/3"),
        ("redis://user:hunter2@redis:6379/0", "redis://redis:6379/0"),
        ("redis://:hunter2@[::1]:6379", "redis://[::1]:6379"),
        ("redis://:hunter%2F2@redis?prefix=a2a-2", "redis://redis"),
        ("rediss://redis.example.com?db=1&ssl_ca_certs=/etc/ca.pem", "rediss://redis.example.com"),
        ("unix:///run/redis.sock?db=1", "unix:///run/redis.sock"),
        ("unix://:hunter2@/run/redis.sock", "unix:///run/redis.sock"),
        ("redis+sentinel://:hunter2@a,b:1,[::1]:2/main", "redis+sentinel://a,b:1,[::1]:2/main"),
        ("rediss+sentinel://a/main/3?sentinel_password=hunter2&db=3", "rediss+sentinel://a/main/3"),
        ("redis+cluster://user:hunter2@a:7000,b", "redis+cluster://a:7000,b"),
        ("rediss+cluster://a/0?ssl_ca_certs=/etc/ca.pem&prefix=b", "rediss+cluster://a/0"),
    ],
)
def test_a_redis_is_dialled_by_its_url_and_named_without_credentials(text: str, label: str) -> None:
    state = read_state(text)
    assert (state.kind, state.url, state.label) == ("redis", text, label)
    assert state.is_shared
    assert state.beside(FOLDER) == state
    assert "hunter2" not in repr(state)


def test_memory_is_memory() -> None:
    assert read_state("memory") == StateUrl("memory")
    assert StateUrl("memory").label == "memory"


@for_each(
    "text",
    [
        "", "Memory", "state.db", "/var/lib/state.db", "hunter2", "postgres://hunter2@db", "sqlite3:///x",
        "Redis://h", "sqlite:", "sqlite://", "sqlite:///", "sqlite:///var/", "sqlite://.", "sqlite::memory:",
        "sqlite:///:memory:", f"sqlite:///{'n' * 243}", f"sqlite:{'ü' * 122}", f"sqlite:///{'d' * 256}/s.db",
        f"sqlite://{'d/' * 2000}s.db", "sqlite:///x?mode=ro", "sqlite:///x#y", "sqlite:///a\x07b", "redis:",
        "redis:/h", "redis:///0", "redis://:6379", "redis://h:0", "redis://h:66000", "redis://h:hunter2",
        "redis://h/0/1", "redis://h/x", "redis://h#hunter2", "redis://a b", "redis://ü", "redis://hunter2@h",
        "redis://user:hun/hunter2@h", "redis://:%FF@h", "redis://h?password=hunter2", "redis://h?username=hunter2",
        "redis://h?db=x", "redis://h?db=1&db=2", "redis://h?timeout=3", "redis://h?db", "redis://h?hunter2",
        "redis://h?ssl_ca_certs=/x", "rediss://h?ssl_cert_reqs=none", "redis://h?prefix=", "redis://h?prefix=a:b",
        "redis://a,b", "redis+sentinel://a,b", "redis+sentinel://a/", "redis+sentinel://a/m/x",
        "redis+sentinel:///m", "redis+sentinel://a,/m", "redis+sentinel://a:0/m",
        "redis+sentinel://a/m?sentinel_username=hunter2", "redis+cluster://a/1", "redis+cluster://a?db=1",
        "redis+cluster://a/m", "redis+cluster://a?ssl_ca_certs=/x", "redis+cluster://", "redis+cluster://a:hunter2",
        "redis+cluster://a?sentinel_password=hunter2", "redis+x://a", f"redis+cluster://{','.join('a' * 33)}",
        "redis+sentinel://hunter2@a/m", "sentinel://a/m", "unix+cluster:///s", "unix://", "unix:///",
        "unix://run/redis.sock", "unix:///run/redis.sock?password=hunter2",
    ],
)  # fmt: skip
def test_anything_else_is_refused_without_being_repeated(text: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        read_state(text)
    fact, remedy = caught.value.args
    assert fact.startswith(("is ", "has ", "names ", "starts "))
    assert remedy
    assert "hunter2" not in fact + remedy


@for_each(
    ("text", "shown"),
    [
        ("memory", True), ("sqlite:///var/lib/state.db", True), ("redis://redis:6379/0", True), ("redis://redis", True),
        ("unix:///run/redis.sock", True), ("redis://:pw@redis", False), ("redis://user:pw", False), ("pw", False),
        ("redis+cluster://a:1,b", True), ("redis+cluster://:pw@a", False),
        ("redis+sentinel://a/m?sentinel_password=pw", False),
        ("redis://redis?password=pw", False), ("postgres://redis", False), ("redis://redis:pw1", False),
    ],
)  # fmt: skip
def test_only_what_surely_holds_no_password_may_be_shown(text: str, *, shown: bool) -> None:
    assert may_be_shown(text) is shown


@for_each(
    ("environ", "path"),
    [
        ({}, "/srv/state/a2a-gateway.db"),
        ({"STATE_DIRECTORY": ""}, "/srv/state/a2a-gateway.db"),
        ({"STATE_DIRECTORY": "/var/lib/a2a"}, "/var/lib/a2a/a2a-gateway.db"),
        ({"STATE_DIRECTORY": "/var/lib/a2a:/var/lib/other"}, "/var/lib/a2a/a2a-gateway.db"),
    ],
)
def test_the_default_state_is_a_file_in_the_state_directory_or_the_working_directory(
    environ: dict[str, str], path: str
) -> None:
    assert default_state(environ, Path("/srv")) == StateUrl("sqlite", Path(path))


def test_a_file_of_an_earlier_release_is_used_where_it_lies(tmp_path: Path) -> None:
    earlier, own = tmp_path / "a2a-gateway.db", tmp_path / "state/a2a-gateway.db"
    earlier.touch()
    assert default_state({}, tmp_path).path == earlier
    own.parent.mkdir()
    own.touch()
    assert default_state({}, tmp_path).path == own


@for_each(
    ("one", "other", "same"),
    [
        ("sqlite:///a/b.db", "sqlite:///a/../a/b.db", True),
        ("sqlite:///a/b.db", "sqlite:///a/c.db", False),
        ("redis://h", "redis://user:pw@H:6379/0", True),
        ("redis://h", "rediss://h?db=0&prefix=a2a", True),
        ("redis://h", "redis://h/1", False),
        ("redis://h/1", "redis://h?db=1", True),
        ("redis://h", "redis://h?prefix=b", False),
        ("redis://h", "redis://h:6380", False),
        ("unix:///r.sock", "unix://:pw@/r.sock?db=0", True),
        ("unix:///r.sock", "redis://h", False),
        ("redis+sentinel://a,b/main", "rediss+sentinel://B:26379,a/main/0", True),
        ("redis+sentinel://a/main", "redis+sentinel://a/other", False),
        ("redis+sentinel://a/main/1", "redis+sentinel://a/main", False),
        ("redis+cluster://a:6379", "redis+cluster://a/0", True),
        ("redis+cluster://a", "redis://a", False),
        ("memory", "memory", True),
        ("memory", "sqlite:///a", False),
    ],
)
def test_one_place_is_known_by_its_names(one: str, other: str, *, same: bool) -> None:
    assert read_state(one).is_same(read_state(other)) is same
    assert read_state(other).is_same(read_state(one)) is same


SECRET = "hunter2-hunter2"


@for_each(
    "state",
    [
        f"redis://user:{SECRET}@redis:6379/0", f"redis://user:{SECRET}", f"redis://h?password={SECRET}", SECRET,
        f"[redis://:{SECRET}@h]", f"{{ url: redis://:{SECRET}@h }}", f"redis://:a/{SECRET}@h", f"mysql://{SECRET}",
    ],
)  # fmt: skip
@for_each("beside", ["", "listn: x, ", "replicas: 0, ", "replicas: 2, "])
def test_no_message_tells_a_password_of_it(state: str, beside: str) -> None:
    found = examined(f"version: 1\ngateway: {{ {beside}state: {state} }}\nagents: {{ a: http://127.0.0.1:1 }}\n")
    told = "\n".join(f"{one.as_text()} {one.as_github()} {one.as_json()}" for one in found.problems)
    assert SECRET not in told
    if found.config is not None:
        assert SECRET not in repr(found.config) + found.config.model_dump_json()


def test_a_place_without_a_password_is_shown_as_it_is_written() -> None:
    [problem] = examined("version: 1\ngateway:\n  state: sqlite:///var/\nagents: { a: http://127.0.0.1:1 }\n").errors
    assert "state: sqlite:///var/" in problem.as_text()
    assert problem.fact == "'sqlite:///var/' names no file"


def test_the_configuration_has_it_read() -> None:
    config = good(
        "version: 1\ngateway: { state: '${STATE}' }\nagents: { a: http://127.0.0.1:1 }\n",
        {"STATE": f"redis://:{SECRET}@redis"},
    )
    assert config.gateway.state == StateUrl("redis", url=f"redis://:{SECRET}@redis")
    assert config.model_dump(mode="json")["gateway"]["state"] == "redis://redis"
