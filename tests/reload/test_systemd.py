"""The service's manager hears how it is, in its own words; where there is none, nobody is told."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.service_manager import Notifier
from tests.table import for_each


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        yield listener


def heard(manager: socket.socket) -> list[str]:
    return manager.recv(1000).decode().splitlines()


def test_each_state_is_told_in_the_words_of_sd_notify(manager: socket.socket) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": manager.getsockname()})
    notifier.ready()
    assert heard(manager) == ["READY=1", "STATUS=serving"]
    notifier.reloading()
    reloading, since = heard(manager)
    assert reloading == "RELOADING=1"
    assert int(since.removeprefix("MONOTONIC_USEC=")) > 0
    notifier.stopping()
    assert heard(manager) == ["STOPPING=1", "STATUS=draining"]
    notifier.alive()
    assert heard(manager) == ["WATCHDOG=1"]


def test_an_abstract_address_is_one_too() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0a2a-gateway-test")
        Notifier({"NOTIFY_SOCKET": "@a2a-gateway-test"}).alive()
        assert listener.recv(100) == b"WATCHDOG=1"


@for_each("environ", [{}, {"NOTIFY_SOCKET": "/nowhere/at/all"}])
def test_notifications_without_a_socket_do_nothing(environ: dict[str, str]) -> None:
    Notifier(environ).ready()


@for_each(
    ("environ", "seconds"),
    [
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "3000000"}, 1.5),
        ({"WATCHDOG_USEC": "3000000"}, 0.0),
        ({"NOTIFY_SOCKET": "/x"}, 0.0),
        ({"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "soon"}, 0.0),
    ],
)
def test_signs_of_life_come_twice_as_often_as_they_must(environ: dict[str, str], seconds: float) -> None:
    assert Notifier(environ).alive_every == seconds
