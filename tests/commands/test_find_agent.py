"""An agent is found from the URL that somebody typed, or the reason why not is told."""

import pytest

from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.commands.find_agent import FoundAgent, OnlyGrpc, check_url, find_card, open_client
from gateway.commands.output import CommandFailed
from tests.support.answering import Answering, answering
from tests.table import for_each

CARD = (
    b'{"name":"A","supportedInterfaces":['
    b'{"url":"http://127.0.0.1/grpc","protocolBinding":"GRPC","protocolVersion":"1.0"},'
    b'{"url":"http://127.0.0.1/old","protocolBinding":"JSONRPC","protocolVersion":"0.3"},'
    b'{"url":"http://127.0.0.1/rest","protocolBinding":"HTTP+JSON","protocolVersion":"1.0"},'
    b'{"url":"http://127.0.0.1/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}'
)


def found(server: Answering, path: str = "/agent") -> FoundAgent:
    with open_client() as client:
        return find_card(client, server.url + path)


def test_the_card_is_read_at_the_well_known_path_behind_the_url() -> None:
    for typed in ("/agent", "/agent/"):
        with answering({"/agent/.well-known/agent-card.json": (200, CARD)}) as server:
            assert found(server, typed).url == f"{server.url}/agent/.well-known/agent-card.json"


def test_the_old_name_is_tried_where_the_new_one_is_missing() -> None:
    with answering({"/agent/.well-known/agent.json": (200, CARD)}) as server:
        assert found(server).url.endswith("/agent.json")


def test_a_url_that_ends_in_json_is_the_card_itself() -> None:
    with answering({"/cards/a.json": (200, CARD)}) as server:
        assert found(server, "/cards/a.json").card["name"] == "A"


def test_the_newest_version_is_called_and_then_the_first_of_the_card() -> None:
    with answering({"/agent/.well-known/agent-card.json": (200, CARD)}) as server:
        assert found(server).interface.dialect == Dialect(Binding.REST, Version.V1_0)


@for_each(
    ("answer", "words"),
    [
        ((404, b""), "there is no agent card"),
        ((401, b""), "needs a credential (401)"),
        ((500, b""), "500"),
        ((302, b""), "redirects to"),
        ((200, b"<html>"), "no agent card"),
        ((200, b"[]"), "no agent card"),
        ((200, b'{"name":1}'), "no agent card"),
        ((200, b'{"name":"' + b"x" * 300_000 + b'"}'), "longer than"),
    ],
)
def test_faults_of_a_card_are_reported(answer: tuple[int, bytes], words: str) -> None:
    with answering({"/agent/.well-known/agent-card.json": answer}) as server, pytest.raises(CommandFailed) as failed:
        found(server)
    assert words in failed.value.message
    assert "Traceback" not in failed.value.message


def test_a_card_without_an_interface_for_us_is_refused() -> None:
    with answering({"/agent/.well-known/agent-card.json": (200, b'{"name":"A"}')}) as server:
        card = found(server)
    with pytest.raises(CommandFailed, match="no interface"):
        _ = card.interface


def test_a_card_of_grpc_alone_is_told_apart() -> None:
    alone = {"url": "agents.example.com:443", "protocolBinding": "GRPC", "protocolVersion": "1.0"}
    with pytest.raises(OnlyGrpc, match="offers gRPC alone"):
        _ = FoundAgent({"name": "A", "supportedInterfaces": [alone]}, "https://agents.example.com/").interface


def test_a_refused_connection_is_reported_with_its_address() -> None:
    with answering({}) as server:
        url = server.url
    with open_client() as client, pytest.raises(CommandFailed, match=f"cannot connect to {url}: [A-Z]"):
        find_card(client, f"{url}/agent")


@for_each(
    "url",
    [
        "",
        "agents.example.com",
        "ftp://x",
        "http://",
        "http://u:p@x/",
        "http://x/?a=b",
        "http://x/#a",
        "http://x:99999/",
        "http://[x",
    ],
)
def test_only_plain_http_urls_are_asked(url: str) -> None:
    with pytest.raises(CommandFailed) as failed:
        check_url(url)
    assert failed.value.code == 2


@for_each("typed", ["grpc://127.0.0.1:50051", "grpcs://agents.example.com", "GRPC://x:1"])
def test_an_address_of_grpc_is_refused_with_where_it_belongs(typed: str) -> None:
    with pytest.raises(CommandFailed, match="is written into the file, this as its `backend`") as failed:
        check_url(typed)
    assert failed.value.code == 2


@for_each("typed", ["127.0.0.1:8080/echo", "localhost:1", "agents.example.com", "[::1]:1/a"])
def test_a_url_without_a_scheme_gets_a_suggestion(typed: str) -> None:
    with pytest.raises(CommandFailed) as failed:
        check_url(typed)
    assert failed.value.message.endswith(f"; did you mean http://{typed} ?")
