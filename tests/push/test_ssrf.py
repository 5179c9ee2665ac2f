"""Webhooks that may be called: their URLs, addresses and names."""

import socket
import threading
from collections.abc import Sequence
from ipaddress import IPv4Address, ip_address
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.a2a.fault import PushDenied
from gateway.push.ssrf import (
    LONGEST_URL,
    Resolver,
    Unresolved,
    WebhookPolicy,
    WebhookTarget,
    is_dialable,
    is_public,
)
from gateway.push.webhook_pattern import read_pattern
from tests.table import for_each

pytestmark = pytest.mark.anyio

ADDRESS = "93.184.216.34"


class Names:
    """A resolver that knows what it is told."""

    def __init__(self, **known: Sequence[str]) -> None:
        self.known = {name.replace("_", "."): addresses for name, addresses in known.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        if host not in self.known:
            raise OSError(host)
        return self.known[host]


def policy(*allow: str, block_private: bool = True, **known: Sequence[str]) -> WebhookPolicy:
    return WebhookPolicy([read_pattern(each) for each in allow], block_private=block_private, resolve=Names(**known))


def refused(url: str, judge: WebhookPolicy | None = None) -> str:
    with pytest.raises(PushDenied) as denied:
        (judge or policy()).refuse_url(url)
    return denied.value.message


# ---- URLs ------------------------------------------------------------------------------------------------------------


@for_each(
    ("url", "expected"),
    [
        ("https://hooks.example.com", WebhookTarget("https", "hooks.example.com", 443, "/")),
        ("HTTPS://Hooks.Example.COM/A?b=c", WebhookTarget("https", "hooks.example.com", 443, "/A?b=c")),
        ("https://hooks.example.com:8443?x", WebhookTarget("https", "hooks.example.com", 8443, "/?x")),
        ("https://hooks.example.com:00443/", WebhookTarget("https", "hooks.example.com", 443, "/")),
        ("https://93.184.216.34/x", WebhookTarget("https", "93.184.216.34", 443, "/x")),
        ("https://[2606:4700:0::1111]/x", WebhookTarget("https", "2606:4700::1111", 443, "/x")),
        ("https://bücher.example/x", WebhookTarget("https", "xn--bcher-kva.example", 443, "/x")),
        ("https://xn--bcher-kva.example/x", WebhookTarget("https", "xn--bcher-kva.example", 443, "/x")),
        ("https://h.example.com/a/%2Fb/c.d/..e/50%25?x=/../", WebhookTarget("https", "h.example.com", 443,
                                                                     "/a/%2Fb/c.d/..e/50%25?x=/../")),
    ],
)  # fmt: skip
def test_https_urls_of_any_public_place_may_be_named(url: str, expected: WebhookTarget) -> None:
    assert policy().refuse_url(url) == expected


REFUSED: dict[str, tuple[str, ...]] = {
    "must be https": ("http://hooks.example.com/",),
    "absolute https URL": (
        "ftp://hooks.example.com/", "file:///etc/passwd", "//hooks.example.com/", "hooks.example.com",
        "https:hooks.example.com", "",
    ),
    "must have a host": (
        "https:///hooks.example.com", "https://", "https://[fe80::1%25eth0]/", "https://[::1/",
        "https://hooks%2eexample.com/",
    ),
    "a user": (
        "https://user@hooks.example.com/", "https://user:secret@hooks.example.com/",
        "https://hooks.example.com@127.0.0.1/",
    ),
    "fragment": ("https://hooks.example.com/#x", "https://hooks.example.com#@127.0.0.1/"),
    "spaces": ("https://hooks.example.com/ x",),
    "backslashes": ("https://hooks.example.com\\@127.0.0.1/",),
    "control characters": ("https://hooks.example.com/\r\nX: y", "https://hooks.example.com\t/"),
    "port": (
        "https://hooks.example.com:0/", "https://hooks.example.com:65536/", "https://hooks.example.com:x/",
        "https://hooks.example.com:/", "https://hooks.example.com:443:443/",
    ),
    "end in a dot": ("https://hooks.example.com./", "https://127.0.0.1./"),
    "an address as 192.0.2.1": (
        "https://2130706433/", "https://0x7f000001/", "https://0x7f.1/", "https://127.1/", "https://0177.0.0.1/",
        "https://127.0.0.01/", "https://1.2.3.4.5/", "https://hooks.example.0x/",
    ),
    "IPv4 address in an IPv6 one": ("https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/"),
    "no IPv6 address": ("https://[12345::]/",),
    "no name": (
        "https://hooks..example.com/", "https://-hooks.example.com/", "https://hooks_1.example.com/",
        "https://hooks,x.example.com/", f"https://{'a' * 64}.example.com/", f"https://{'a.' * 130}example.com/",
        "https://\uff11\uff12\uff17.0.0.1/", "https://hooks\u3002example.com/", "https://\u212ahooks.example.com/",
    ),
    "ASCII": ("https://hooks.example.com/é",),
    "dot segments": (
        "https://hooks.example.com/a/../b", "https://hooks.example.com/a/.", "https://hooks.example.com/a/%2e%2E/b",
        "https://hooks.example.com/a%2f..%2fb", "https://hooks.example.com/a/..;x/b",
        "https://hooks.example.com/a/%252e%252e/b",
    ),
    "over and over": ("https://hooks.example.com/%2525252525",),
    "public addresses": ("https://localhost/", "https://intranet/"),
    "longer than 2048": (f"https://hooks.example.com/{'x' * LONGEST_URL}",),
}  # fmt: skip
"""By the words of the rule that they break."""


@for_each(("rule", "url"), [(rule, url) for rule, urls in REFUSED.items() for url in urls])
def test_other_urls_are_refused_by_the_rule_that_they_break(rule: str, url: str) -> None:
    message = refused(url)
    assert rule in message
    for part in ("127", "secret", "passwd", "intranet", "hooks"):
        assert part not in message


@given(st.text(max_size=60))
def test_any_text_is_judged(text: str) -> None:
    for url in (text, f"https://{text}", f"https://hooks.example.com/{text}"):
        try:
            target = policy().refuse_url(url)
        except PushDenied:
            continue
        assert target.scheme == "https"
        assert target.host == target.host.lower()
        assert (target.host + target.path).isascii()
        assert target.path.isprintable()


def test_an_allow_list_excludes_all_other_urls() -> None:
    judge = policy("https://*.acme.example", "https://hooks.globex.example/a2a/*")
    assert judge.refuse_url("https://x.acme.example/any").host == "x.acme.example"
    assert judge.refuse_url("https://hooks.globex.example/a2a/x?y=z").path == "/a2a/x?y=z"
    for url in (
        "https://acme.example/",
        "https://x.acme.example:8443/",
        "https://hooks.globex.example/",
        "https://hooks.globex.example/a2a/../x",
        "https://hooks.globex.example/?/a2a/x",
        "https://other.example/",
        "http://x.acme.example/",
    ):
        refused(url, judge)


def test_plain_http_needs_both_to_be_listed_and_private_networks_that_are_not_blocked() -> None:
    listed = "http://hooks.corp:8080"
    assert policy(listed, block_private=False).refuse_url("http://hooks.corp:8080/x").free
    assert "https" in refused("http://hooks.corp:8080/x", policy(listed))
    assert "https" in refused("http://hooks.corp:8080/x", policy(block_private=False))
    assert "list" in refused("http://hooks.corp:8081/x", policy(listed, block_private=False))


def test_no_path_is_shown_of_a_target() -> None:
    target = policy().refuse_url("https://hooks.example.com:8443/services/T0/B0/key?token=secret")
    assert "key" not in repr(target)
    assert "secret" not in repr(target)
    assert target.origin == "https://hooks.example.com:8443"
    assert policy().refuse_url("https://[2606:4700::1]/x").origin == "https://[2606:4700::1]"


# ---- Targets ---------------------------------------------------------------------------------------------------------

HOOKS = WebhookTarget("https", "hooks.example", 443, "/")


@for_each(
    "found",
    [["127.0.0.1"], [ADDRESS, "10.0.0.1"], ["::1"], ["169.254.169.254"], ["64:ff9b::7f00:1"], ["x"], [ADDRESS] * 33],
)
async def test_one_private_address_is_one_too_many(found: list[str]) -> None:
    with pytest.raises(PushDenied) as denied:
        await policy(hooks_example=found).refuse_address(HOOKS)
    assert not isinstance(denied.value, Unresolved)
    with pytest.raises(Unresolved) as unknown:
        await policy().refuse_address(HOOKS)
    # Whether a name is one of the operator's own is nobody's business.
    assert denied.value.message == unknown.value.message


async def test_a_name_without_any_address_is_not_resolved() -> None:
    with pytest.raises(Unresolved):
        await policy(hooks_example=[]).refuse_address(HOOKS)


async def test_an_address_is_judged_without_asking_anybody() -> None:
    names = Names()
    judge = WebhookPolicy(resolve=names)
    assert await judge.refuse_address(WebhookTarget("https", ADDRESS, 443, "/")) == (ADDRESS,)
    for private in ("10.0.0.1", "::1", "127.0.0.1"):
        with pytest.raises(PushDenied):
            await judge.refuse_address(WebhookTarget("https", private, 443, "/"))
    assert names.asked == []


async def test_private_addresses_may_be_called_where_listed_and_not_blocked_but_for_those_of_clouds() -> None:
    judge = policy("https://*.corp", block_private=False, a_corp=["10.0.0.1"], b_corp=["169.254.169.254"])
    target = judge.refuse_url("https://a.corp/x")
    assert await judge.refuse_address(target) == ("10.0.0.1",)
    with pytest.raises(PushDenied):
        await judge.refuse_address(judge.refuse_url("https://b.corp/x"))
    # Not listed: the same address as ever.
    with pytest.raises(PushDenied):
        await policy(block_private=False, a_corp=["10.0.0.1"]).refuse_address(
            WebhookTarget("https", "a.corp", 443, "/")
        )


# ---- Addresses -----------------------------------------------------------------------------------------------------

PUBLIC = ["8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "2a00:1450:4001::1", "64:ff9b::808:808", "::ffff:8.8.8.8"]
METADATA = [
    "169.254.169.254", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254", "fd20:ce::254", "fe80::1",
    "fe80::1%eth0", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe",
]  # fmt: skip
NO_MACHINE = [
    "0.0.0.0", "0.1.2.3", "::", "224.0.0.1", "239.255.255.250", "ff02::1", "ff0e::1", "255.255.255.255", "240.0.0.1",
    "::7f00:1",
]  # fmt: skip
OWN = [
    "127.0.0.1", "127.255.255.254", "::1", "10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fc00::1",
    "fd12:3456::1", "100.64.0.1", "100.127.255.255", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1",
    "64:ff9b::a00:1",
]  # fmt: skip
NOWHERE = [
    "192.0.2.1", "198.51.100.1", "203.0.113.1", "198.18.0.1", "2001:db8::1", "3fff::1", "2002:7f00:1::",
    "2002:808:808::", "100::1", "2001:0:7f00:1::1", "2001:0:808:808::1", "64:ff9b:1::7f00:1", "192.88.99.1",
    "2606:4700::5efe:7f00:1", "2606:4700::200:5efe:a00:1", "4000::1",
]  # fmt: skip


@for_each("text", PUBLIC)
def test_public_addresses_may_be_called_always(text: str) -> None:
    assert is_public(ip_address(text))
    assert is_dialable(ip_address(text))


@for_each("text", [*METADATA, *NO_MACHINE])
def test_addresses_of_metadata_services_and_of_no_machine_are_never_called(text: str) -> None:
    assert not is_public(ip_address(text))
    assert not is_dialable(ip_address(text))


@for_each("text", OWN)
def test_an_operator_may_have_its_own_network_called(text: str) -> None:
    assert not is_public(ip_address(text))
    assert is_dialable(ip_address(text))


@for_each("text", NOWHERE)
def test_documentation_and_tunnel_addresses_are_not_public(text: str) -> None:
    assert not is_public(ip_address(text))


@given(st.ip_addresses(v=4))
def test_an_address_is_as_public_as_the_one_of_ipv4_that_it_holds(held: IPv4Address) -> None:
    for prefix in (0xFFFF << 32, 0x0064_FF9B << 96):
        assert is_public(ip_address(prefix | int(held))) == is_public(held)
    if is_public(ip_address((0x2606_4700 << 96) | (0x5EFE << 32) | int(held))):
        assert is_public(held)


# ---- Names -----------------------------------------------------------------------------------------------------------


def answer(*addresses: str) -> list[tuple[Any, ...]]:
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses]


async def test_addresses_come_in_their_order_and_once_each() -> None:
    asked: list[str] = []

    def look_up(host: str, _port: object, **_: object) -> list[tuple[Any, ...]]:
        asked.append(host)
        return answer("192.0.2.2", "192.0.2.1", "192.0.2.2")

    resolver = Resolver(look_up=look_up)
    assert await resolver("hooks.example") == ("192.0.2.2", "192.0.2.1")
    assert asked == ["hooks.example"]
    resolver.close()


@for_each("error", [socket.gaierror("no such name"), UnicodeError("label too long")])
async def test_a_name_without_an_address_is_an_os_error(error: Exception) -> None:
    def look_up(*_: object, **__: object) -> list[tuple[Any, ...]]:
        raise error

    resolver = Resolver(look_up=look_up)
    with pytest.raises(OSError, match="name"):
        await resolver("hooks.example")
    resolver.close()


async def test_a_name_that_nobody_answers_for_is_given_up_and_holds_no_more_than_its_threads() -> None:
    release = threading.Event()

    def look_up(*_: object, **__: object) -> list[tuple[Any, ...]]:
        release.wait(30)
        return answer("192.0.2.1")

    resolver = Resolver(look_up=look_up, timeout=0.01, threads=1)
    try:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await resolver("hooks.example")
    finally:
        release.set()
        resolver.close()
