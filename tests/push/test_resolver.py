"""Looking names up, in threads of their own."""

import socket
import threading
from typing import Any

import pytest

from gateway.push.resolver import Resolver

pytestmark = pytest.mark.anyio


def answer(*addresses: str) -> list[tuple[Any, ...]]:
    return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in addresses]


async def test_this_machine_is_found() -> None:
    resolver = Resolver()
    assert set(await resolver("localhost")) & {"127.0.0.1", "::1"}
    resolver.close()


async def test_addresses_come_in_their_order_and_once_each() -> None:
    asked: list[str] = []

    def look_up(host: str, _port: object, **_: object) -> list[tuple[Any, ...]]:
        asked.append(host)
        return answer("192.0.2.2", "192.0.2.1", "192.0.2.2")

    resolver = Resolver(look_up=look_up)
    assert await resolver("hooks.example") == ("192.0.2.2", "192.0.2.1")
    assert asked == ["hooks.example"]
    resolver.close()


@pytest.mark.parametrize("error", [socket.gaierror("no such name"), UnicodeError("label too long")])
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

    resolver = Resolver(look_up=look_up, patience=0.01, threads=1)
    try:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await resolver("hooks.example")
    finally:
        release.set()
        resolver.close()
