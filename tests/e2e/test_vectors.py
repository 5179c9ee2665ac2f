"""The vectors, through the gateway: each operation in each dialect, from a client to an agent that both speak it."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.e2e.sdk import open_http
from tests.support.gateway import scripted
from tests.support.scripted import Script, answers, chunk, head

pytestmark = pytest.mark.anyio

_VECTORS = Path(__file__).parents[1] / "vectors"
_EXTENDED_CARD = "GetExtendedAgentCard"


@dataclass(frozen=True, slots=True)
class Case:
    """One request of one vector, and what the agent answers to it.

    Attributes:
        suffix: The path behind the interface's own.
        answer: The body, or the data of each event.
    """

    name: str
    version: str
    binding: str
    method: str
    suffix: str
    headers: dict[str, str]
    body: bytes
    content_type: str
    answer: bytes | list[bytes]

    def __str__(self) -> str:
        return self.name

    @property
    def script(self) -> Script:
        if isinstance(self.answer, bytes):
            opening = head(b"content-length: %d" % len(self.answer), content_type=self.content_type.encode())
            return answers(opening + self.answer)
        opening = head(b"transfer-encoding: chunked", content_type=b"text/event-stream")
        return answers(opening + b"".join(chunk(event) for event in self.answer) + chunk(b""))


def _cases() -> Iterator[Case]:
    for file in sorted(_VECTORS.glob("*.json")):
        vector = json.loads(file.read_text())
        for dialect, request in vector.get("request", {}).items() if isinstance(vector, dict) else ():
            # An agent of 0.1 cannot be configured before versions are translated.
            if "http" not in request or dialect.startswith("v0.1"):
                continue
            answer = _answer(vector, dialect.removesuffix("-snake"))
            if answer is not None:
                yield _case(f"{file.stem}-{dialect}", dialect, request["http"], answer)


def _answer(vector: dict[str, Any], dialect: str) -> tuple[str, bytes | list[bytes]] | None:
    if "events" in vector:
        found = [event[dialect]["sse_data"] for event in vector["events"] if event.get(dialect)]
        return ("text/event-stream", [b"data: " + _bytes(data) + b"\n\n" for data in found]) if found else None
    response = vector.get("response", {}).get(dialect)
    if response is None:
        return None
    return response["http"]["headers"]["Content-Type"], _bytes(response["http"]["body"])


def _case(name: str, dialect: str, http: dict[str, Any], answer: tuple[str, bytes | list[bytes]]) -> Case:
    version, binding = dialect.split("-")[:2]
    path = http["path"].removeprefix("/acme").removeprefix("/rest" if binding == "rest" else "/rpc")
    query = "?" + urlencode(http["query"]) if http.get("query") else ""
    body = b"" if http.get("body") is None else _bytes(http["body"])
    return Case(name, version[1:], binding, http["method"], path + query, http["headers"], body, *answer)


def _bytes(tree: Any) -> bytes:
    return json.dumps(tree, ensure_ascii=False, indent=1).replace("\n", "").encode()


CASES = tuple(_cases())


def test_the_vectors_are_all_there() -> None:
    assert len(CASES) > 50
    assert {(case.version, case.binding) for case in CASES} == {
        ("1.0", "jsonrpc"),
        ("1.0", "rest"),
        ("0.3", "jsonrpc"),
        ("0.3", "rest"),
    }


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_a_vector_is_relayed_as_it_is(case: Case, tmp_path: Path) -> None:
    modern, rest = case.version == "1.0", case.binding == "rest"
    below = "/rest" if rest else "/rpc"
    # 1.0 says the tenant in the message or, over HTTP+JSON, in the path; before that only a URL can say it.
    settings: dict[str, Any] = {"match": {"path": "/agent", "tenant": "acme"}}
    if modern:
        settings["upstream_tenant"] = "keep"
    at = "" if modern and not rest else "/acme"
    async with (
        scripted(case.script, tmp_path, below=below, speaks=(case.binding, case.version), **settings) as gateway,
        open_http() as http,
    ):
        answer = await http.request(
            case.method, gateway.url + at + case.suffix, content=case.body or None, headers=case.headers
        )
        [received] = gateway.backend.requests
        assert received.method.decode() == case.method
        assert received.target.decode() == below + ("/acme" if modern and rest else "") + case.suffix
        assert received.body == case.body
        said = received.header(b"a2a-version")
        assert (said and said.decode()) == case.headers.get("A2A-Version")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == case.content_type
        if case.name.startswith(_EXTENDED_CARD):
            _check_card(answer.json(), gateway.url)
            return
        expected = case.answer if isinstance(case.answer, bytes) else b"".join(case.answer)
        assert answer.content == expected
        await gateway.stop()
    [line] = gateway.access
    assert (line["binding"], line["a2a_version"], line["agent"]) == (case.binding, case.version, "agent")
    assert line["operation"] == case.name.partition("-")[0].partition("_")[0]
    assert line["a2a_tenant"] == "acme"
    assert line["outcome"] == "ok"
    if "Push" not in case.name and "ListTasks" not in case.name:
        assert line["context_id"] == "ctx-42"


def _check_card(tree: dict[str, Any], url: str) -> None:
    """Every URL on the card is the gateway's."""
    card = tree.get("result", tree)
    assert card["name"] == "Order Agent"
    interfaces = card.get("supportedInterfaces") or [{"url": card["url"]}, *card.get("additionalInterfaces", ())]
    assert {interface["url"].removesuffix("/acme") for interface in interfaces} == {url}
