"""The address of a Redis in a URL."""

import ssl
from pathlib import Path

import pytest
import trustme

from gateway.tasks.redis_client import open_tls
from gateway.tasks.state_url import RedisAddress, read_redis
from gateway.tasks.store import StoreBroken
from tests.table import for_each


@for_each(
    ("url", "address"),
    [
        ("redis://localhost", RedisAddress("redis://localhost", (("localhost", 6379),))),
        ("redis://h:6380/3", RedisAddress("redis://h:6380/3", (("h", 6380),), database=3)),
        ("redis://h?db=2", RedisAddress("redis://h", (("h", 6379),), database=2)),
        ("redis://[::1]:7", RedisAddress("redis://[::1]:7", (("::1", 7),))),
        ("redis://:pass@h", RedisAddress("redis://h", (("h", 6379),), password="pass")),
        ("redis://ann:p%40%2F@h/", RedisAddress("redis://h/", (("h", 6379),), user="ann", password="p@/")),
        ("redis://h?prefix=blue", RedisAddress("redis://h", (("h", 6379),), prefix="blue")),
        (
            "rediss://h?ssl_ca_certs=/ca&ssl_certfile=/c&ssl_keyfile=/k",
            RedisAddress("rediss://h", (("h", 6379),), tls=True, authorities="/ca", certificate="/c", key="/k"),
        ),
        ("unix:///run/redis.sock", RedisAddress("unix:///run/redis.sock", path="/run/redis.sock")),
        (
            "unix://:pass@/run/redis.sock?db=1",
            RedisAddress("unix:///run/redis.sock", path="/run/redis.sock", password="pass", database=1),
        ),
        (
            "redis+sentinel://ann:pass@h,[::1]:7/main/2?sentinel_username=s&sentinel_password=p",
            RedisAddress(
                "redis+sentinel://h,[::1]:7/main/2",
                (("h", 26379), ("::1", 7)),
                master="main",
                user="ann",
                password="pass",
                sentinel_user="s",
                sentinel_password="p",
                database=2,
            ),
        ),
        (
            "rediss+sentinel://h/main?ssl_ca_certs=/ca",
            RedisAddress("rediss+sentinel://h/main", (("h", 26379),), master="main", tls=True, authorities="/ca"),
        ),
        (
            "rediss+cluster://:pass@h:1,i?prefix=blue",
            RedisAddress(
                "rediss+cluster://h:1,i",
                (("h", 1), ("i", 6379)),
                cluster=True,
                tls=True,
                password="pass",
                prefix="blue",
            ),
        ),
    ],
)
def test_a_url_says_where_it_is_and_how_it_is_entered(url: str, address: RedisAddress) -> None:
    assert read_redis(url) == address


@for_each(
    "url",
    [
        "", "http://h", "redis://", "redis://:s3cret@", "redis://:s3cret@h:70000", "redis://:s3cr/et@h",
        "redis://s3cret@h", "redis://:s3cret%ff@h", "redis://:s3cret@h/x", "redis://:s3cret@h/1/2",
        "redis://:s3cret@h#1", "redis://:s3cret@h?password=s3cret", "redis://:s3cret@h?db=1&db=2",
        "redis://:s3cret@h?db", "redis://:s3cret@h?ssl_ca_certs=/ca", "redis://:s3cret@h?prefix={b}",
        "redis://:s3cret@h?prefix=", "redis://:s3cret@h h", "redis://:s3cret@h,i", "memory",
        "unix://:s3cret@h/run/redis.sock", "unix:run/redis.sock",
    ],
)  # fmt: skip
def test_a_malformed_redis_url_is_refused_without_being_repeated(url: str) -> None:
    with pytest.raises(ValueError, match="write ") as refused:
        read_redis(url)
    assert "s3cr" not in str(refused.value)


def test_tls_is_verified_by_name_and_the_environment_has_no_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    context = open_tls(read_redis(f"rediss://h?ssl_ca_certs={tmp_path}/ca.pem"))
    assert context is not None
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert len(context.get_ca_certs()) == 1
    assert not (tmp_path / "keys").exists()
    assert open_tls(read_redis("rediss://h")) is not None
    assert open_tls(read_redis("redis://h")) is None


def test_certificates_that_cannot_be_read_break_it(tmp_path: Path) -> None:
    for name in ("ssl_ca_certs", "ssl_certfile"):
        with pytest.raises(StoreBroken, match="certificate files"):
            open_tls(read_redis(f"rediss://h?{name}={tmp_path}/none.pem"))
