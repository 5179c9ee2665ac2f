"""Bad tokens on real sockets: refused, never a defect, and the next good one is served (safety K1 to K4, T5, T13)."""

import logging
import time
from collections import Counter
from collections.abc import Callable

import pytest

from tests.identity.corpus.genuine import good
from tests.identity.corpus.token import tokens
from tests.identity.front import Header, front, key_header, shown
from tests.support.gateway import CALL, Answer
from tests.table import for_each

pytestmark = pytest.mark.anyio

PLENTY = {"failures": "100000/s"}


def families() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in tokens(time.time()):
        found.setdefault(name.partition(":")[0], []).append(name)
    return found


def is_sendable(token: bytes) -> bool:
    """Whether the token fits into a header as it is: no line ends, no NUL, and nothing that a header's ends lose."""
    return not set(token) & {0, 10, 13} and token == token.strip(b" \t")


def check(answer: Answer, token: bytes, name: str) -> None:
    assert answer.status == 401, (name, answer)
    assert answer.reasons in (["AUTH_INVALID"], ["AUTH_EXPIRED"]), name
    assert (answer.header("www-authenticate") or "").startswith("Bearer"), name
    assert token not in answer.body or len(token) < 10, name


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.long)], ids=["some", "all"])
@pytest.mark.parametrize("family", families())
async def test_every_bad_token_is_a_401_and_the_good_one_after_it_a_200(
    family: str, every: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Each of them is judged in `test_corpus.py` as well: the check sends every third over a socket."""
    caplog.set_level(logging.DEBUG, "gateway")
    now = time.time()
    corpus = {name: token for name, token in tokens(now).items() if name.startswith(f"{family}:")}
    async with front(PLENTY) as place:
        ours = shown(good(now))
        sent = {name: token for name, token in corpus.items() if is_sendable(token)}
        assert len(sent) > len(corpus) / 2
        asked = list(sent.items())[::every]
        for name, token in asked:
            check(await place.call(shown(token)), token, name)
            assert (await place.call(ours)).status == 200, name
        assert len(place.backend.requests) == len(asked)
        # One for the start, and one for all the kids that nobody knows.
        assert place.served.asked["/keys"] <= 2
        await place.gateway.until(lambda: len(place.gateway.lines) == 2 * len(asked))
        assert {line["status"] for line in place.gateway.lines} == {200, 401}
    assert [record for record in caplog.records if record.levelno >= logging.ERROR or record.exc_info] == []


TWO: dict[str, Callable[[bytes], list[Header]]] = {
    "two Authorization": lambda token: [shown(token), shown(token)],
    "two Authorization, one of them bad": lambda token: [shown(token), shown(b"x")],
    "a token and a key": lambda token: [shown(token), key_header()],
    "two keys": lambda _token: [key_header(), key_header("other")],
    "one key twice": lambda _token: [key_header(), key_header()],
    "a key and nothing": lambda _token: [key_header(), (b"Authorization", b"")],
    "a token and an empty key": lambda token: [shown(token), (b"X-API-Key", b"")],
    "in two cases": lambda token: [shown(token), (b"AUTHORIZATION", b"Bearer " + token)],
    "in one line": lambda token: [shown(token + b", Bearer " + token)],
}


@for_each("name", TWO)
async def test_two_credentials_in_one_request_are_none(name: str) -> None:
    async with front() as place:
        answer = await place.call(*TWO[name](good(time.time())))
        assert answer.status in (400, 401)
        assert place.backend.requests == []
        assert (await place.good()).status == 200


async def test_a_tenant_is_named_by_exactly_one_string() -> None:
    async with front() as place:
        assert (await place.good()).status == 200
        for name in ("Acme", "ACME", "globex", "acme-eu"):
            answer = await place.good(org=name)
            assert (answer.status, answer.reasons) == (403, ["TENANT_DENIED"])
        odd: list[object] = [["acme"], ["acme", "globex"], {"acme": 1}, 1, None, True, "", "acme ", "anonymous", "*"]
        for value in odd:
            answer = await place.good(org=value)
            assert (answer.status, answer.reasons) == (401, ["AUTH_INVALID"])
        assert len(place.backend.requests) == 1


async def test_a_tenant_that_is_not_named_falls_to_the_star() -> None:
    async with front(tenants='{ acme: [], "*": ["*"] }', more="defaults: { isolation: none }") as place:
        assert (await place.good(org="unnamed")).status == 200
        assert (await place.good(org="Acme")).status == 200
        assert (await place.good(org="acme")).status == 404
        assert [each.header(b"x-a2a-tenant") for each in place.backend.requests] == [b"unnamed", b"Acme"]
        assert (await place.good(org=["unnamed"])).status == 401


async def test_a_refused_token_is_counted_by_the_issuer_that_it_names() -> None:
    async with front() as place:
        now = time.time()
        for odd in ({"aud": "others"}, {"aud": 7}, {"org": 7}, {"exp": ...}):
            # The second time it is told from memory.
            for _ in range(2):
                await place.call(shown(good(now, **odd)))
        await place.call(shown(good(now, exp=int(now) - 3600)))
        await place.call(shown(good(now, iss="https://elsewhere.example.com")))
        await place.call(shown(b"a.b.c"))
        await place.good()
        counted = Counter(
            {
                (labels["method"], labels["issuer"], labels["result"]): int(value)
                for labels, value in place.gateway.series("auth_total")
            }
        )
        assert counted == {
            ("jwt", "corp", "invalid"): 8,
            ("jwt", "corp", "expired"): 1,
            ("jwt", "", "invalid"): 2,
            ("jwt", "corp", "ok"): 1,
        }


async def test_nothing_of_a_credential_is_in_an_answer_or_a_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    canary = b"c4n4ry-" + b"0123456789abcdef" * 4
    async with front() as place:
        now = time.time()
        headers = [
            [shown(canary)], [(b"X-API-Key", canary)], [(b"Authorization", b"Basic " + canary)],
            [(b"Authorization", canary)], [shown(canary + b".b.c")], [shown(b"a." + canary + b".c")],
            [shown(good(now, iss=canary.decode()))], [shown(good(now, org=canary.decode() * 2))],
            [shown(good(now, sub=canary.decode() + "\n"))], [shown(good(now, aud=canary.decode()))],
            [key_header(), (b"Proxy-Authorization", canary), (b"Cookie", canary), (b"X-Anything", canary)],
            [key_header(), (b"A2A-Version", canary)], [key_header(), (b"Content-Encoding", canary)],
            [shown(good(now, exp=int(now) - 3600, jti=canary.decode()))],
        ]  # fmt: skip
        for each in headers:
            for target, body in (("/echo", CALL), ("/nothing", CALL), ("/echo", b"{"), ("/echo/tasks/t", b"{}")):
                answer = await place.gateway.post(target, body, each)
                assert canary not in answer.body + repr(answer.headers).encode()
                assert answer.status != 500
        await place.gateway.until(lambda: len(place.gateway.lines) == 4 * len(headers))
        assert canary.decode() not in repr(place.gateway.lines)
        assert canary not in repr(place.backend.requests).encode()
    assert canary.decode() not in caplog.text
