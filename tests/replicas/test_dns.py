"""Each address of a name is a replica: safety R10, with its figure."""

import socket
import sys

import pytest

from gateway.upstream.dns import EVERY, MOST, Discovery
from tests.support.gateway import Running, running
from tests.support.replicated import asks, count, named, sent
from tests.support.scripted import ScriptedBackend, refused_port
from tests.table import for_each

pytestmark = pytest.mark.anyio


class Names:
    """Answers for DNS."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = list(addresses)
        self.asked: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> list[str]:
        self.asked.append((host, port))
        if not self.addresses:
            raise socket.gaierror(-2, "Name or service not known")
        return list(self.addresses)


async def nothing(_host: str, _port: int) -> list[str]:
    """A name that exists and has no addresses."""
    return []


def headless(gateway: Running) -> Discovery:
    """The one of the only agent; nobody else looks its name up."""
    balancer = gateway.gateway.snapshot.backends["echo"].balancer
    [named] = balancer.names
    return named[0]


async def test_each_address_of_a_name_gets_calls_and_those_that_are_gone_get_none() -> None:
    async with ScriptedBackend(named("a")) as one:
        text = f"agents:\n  echo: {{ backend: {{ url: 'http://localhost:{one.port}', dns: headless }} }}\n"
        async with running(text, settled=False) as gateway:
            names = headless(gateway)
            names.resolve = dns = Names("127.0.0.1")
            await names.look_up()
            assert dns.asked == [("localhost", one.port)]
            made = (await sent(gateway))["result"]["task"]["id"]
            line = await gateway.line()
            assert line["backend"] == f"echo@localhost:{one.port}@127.0.0.1:{one.port}"
            # The host of requests is the name, not the address.
            assert one.requests[-1].header(b"host") == f"localhost:{one.port}".encode()
            assert gateway.metric("backend_up", backend=f"echo@localhost:{one.port}") == 1

            dns.addresses = ["127.0.0.1", "127.0.0.2"]
            await names.look_up()
            assert gateway.metric("backend_up", backend=f"echo@localhost:{one.port}") == 2
            page = (await gateway.get("/-/agents", admin=True)).json["agents"][0]
            assert [each["name"] for each in page["replicas"]] == [f"127.0.0.{n}:{one.port}" for n in (1, 2)]
            assert "warming" in page["replicas"][1]["state"]

            dns.addresses = []
            await names.look_up()
            assert "cannot be looked up" in names.error
            assert len(gateway.gateway.snapshot.backends["echo"].replicas) == 2

            dns.addresses = ["127.0.0.2"]
            await names.look_up()
            before = count(one)
            answer = await gateway.post("/echo", asks("GetTask", id=made))
            reasons = [each["reason"] for each in answer.json["error"]["data"]]
            assert (answer.status, reasons) == (503, ["NO_HEALTHY_BACKEND"])
            assert count(one) == before
            sys.stdout.write(f"R10: what DNS says is followed within {EVERY:g} s (target 30)\n")


async def test_a_name_without_addresses_is_told_clearly() -> None:
    text = "agents:\n  echo: { backend: { url: 'http://localhost:9', dns: headless } }\n"
    async with running(text, settled=False) as gateway:
        names = headless(gateway)
        await names.settled.wait()
        names.resolve = nothing
        await names.look_up()
        answer = await gateway.post("/echo")
        assert (answer.status, answer.json["error"]["data"][0]["reason"]) == (503, "NO_HEALTHY_BACKEND")


async def test_a_name_has_so_many_addresses_at_most() -> None:
    text = "agents:\n  echo: { backend: { url: 'http://localhost:9', dns: headless } }\n"
    async with running(text, settled=False) as gateway:
        names = headless(gateway)
        names.resolve = dns = Names(*(f"127.0.{n // 256}.{n % 256}" for n in range(1, MOST + 50)))
        await names.look_up()
        assert len(gateway.gateway.snapshot.backends["echo"].replicas) == MOST
        # They stay the same in whichever order they are named.
        version = names.version
        dns.addresses.reverse()
        await names.look_up()
        assert names.version == version


@for_each("label", ["", ", label: canary"])
async def test_an_address_that_the_file_names_by_itself_is_one_replica_with_its_own_weight(label: str) -> None:
    port = refused_port()
    alone = f"{{ url: 'http://127.0.0.1:{port}/a', weight: 7{label} }}"
    text = f"agents:\n  echo: {{ backend: [{alone}, {{ url: 'http://localhost:{port}/b', dns: headless }}] }}\n"
    async with running(text, settled=False) as gateway:
        names = headless(gateway)
        names.resolve = dns = Names("127.0.0.1", "127.0.0.2")
        backend = gateway.gateway.snapshot.backends["echo"]
        own = "canary" if label else f"127.0.0.1:{port}"

        def found() -> dict[str, int]:
            return {each.name: each.weight for each in backend.replicas}

        await names.look_up()
        assert found() == {own: 7, f"127.0.0.2:{port}": 100}
        assert backend.balancer.current_name(f"127.0.0.1:{port}") == own
        # The name loses it: the file has it all the same.
        dns.addresses = ["127.0.0.2"]
        await names.look_up()
        assert found() == {own: 7, f"127.0.0.2:{port}": 100}
        dns.addresses = ["127.0.0.3", "127.0.0.1"]
        await names.look_up()
        assert found() == {own: 7, f"127.0.0.3:{port}": 100}


async def test_an_address_that_two_names_have_is_the_replica_of_the_first() -> None:
    port = refused_port()
    one, two = (f"url: 'http://localhost:{port}/{name}', dns: headless, label: {name}" for name in ("one", "two"))
    text = f"agents:\n  echo: {{ backend: [{{ {one}, weight: 3 }}, {{ {two} }}] }}\n"
    async with running(text, settled=False) as gateway:
        backend = gateway.gateway.snapshot.backends["echo"]
        first, second = (each[0] for each in backend.balancer.names)
        first.resolve, second.resolve = dns = Names("127.0.0.1"), Names("127.0.0.1", "127.0.0.2")

        async def found() -> dict[str, int]:
            await first.look_up()
            await second.look_up()
            return {each.name: each.weight for each in backend.replicas}

        assert await found() == {f"127.0.0.1:{port}": 3, f"127.0.0.2:{port}": 100}
        dns[0].addresses, dns[1].addresses = ["127.0.0.3"], ["127.0.0.1"]
        assert await found() == {f"127.0.0.3:{port}": 3, f"127.0.0.1:{port}": 100}
