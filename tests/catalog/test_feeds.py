"""The catalog as documents: each caller's own view, in the shapes of their specifications."""

import json
from collections.abc import AsyncIterator
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

from tests.catalog.fleet import Fleet, fleet
from tests.support.gateway import Answer, bearer

pytestmark = pytest.mark.anyio

AI, API = "/.well-known/ai-catalog.json", "/.well-known/api-catalog"

AI_SCHEMA = {
    "type": "object",
    "required": ["specVersion", "entries"],
    "properties": {
        "specVersion": {"type": "string", "pattern": r"^[0-9]+\.[0-9]+$"},
        "host": {"type": "object", "required": ["displayName"], "properties": {"displayName": {"type": "string"}}},
        "entries": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["identifier", "type"],
                "oneOf": [{"required": ["url"]}, {"required": ["data"]}],
                "properties": {
                    "identifier": {"type": "string", "pattern": r"^https?://[^\s]+#[A-Za-z0-9._-]+$"},
                    "type": {"const": "application/a2a-agent-card+json"},
                    "url": {"type": "string", "pattern": r"^https?://"},
                    "displayName": {"type": "string", "minLength": 1},
                    "description": {"type": "string"},
                    "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
                },
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
"""The AI Catalog, as far as the gateway uses it: an entry has a `url` or `data`, and never both."""

LINKS = {
    "type": "array",
    "minItems": 1,
    "items": {
        "type": "object",
        "required": ["href"],
        "properties": {"href": {"type": "string", "pattern": "^https?://"}},
    },
}
LINKSET_SCHEMA = {
    "type": "object",
    "required": ["linkset"],
    "properties": {
        "linkset": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"anchor": {"type": "string", "pattern": "^https?://"}},
                "additionalProperties": LINKS,
            },
        }
    },
    "additionalProperties": False,
}
"""RFC 9264 §4.2: link contexts with an anchor, and arrays of target objects by relation type."""


@pytest.fixture(scope="module")
async def site() -> AsyncIterator[Fleet]:
    async with fleet(gateway='gateway: { listen: "127.0.0.1:0", admin: "127.0.0.1:0" }') as made:
        yield made


async def ask(site: Fleet, who: str | None, target: str = AI, *headers: tuple[bytes, bytes]) -> Answer:
    return await site.gateway.get(target, [*([] if who is None else [bearer(who)]), *headers])


def agents(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    if "linkset" in answer.json:
        jsonschema.validate(answer.json, LINKSET_SCHEMA)
        first: list[dict[str, Any]] = [each for each in answer.json["linkset"] if "item" in each]
        return [link["href"].rpartition("/")[2] for each in first for link in each["item"]]
    jsonschema.validate(answer.json, AI_SCHEMA)
    return [each["identifier"].rpartition("#")[2] for each in answer.json["entries"]]


@pytest.mark.parametrize("feed", [AI, API])
async def test_each_caller_sees_only_reachable_agents(site: Fleet, feed: str) -> None:
    assert agents(await ask(site, "acme", feed)) == ["alpha", "beta", "delta"]
    assert agents(await ask(site, "globex", feed)) == ["beta", "secret"]
    assert agents(await ask(site, "initech", feed)) == []
    # A stranger sees what is listed for anyone: nothing private, nothing unlisted.
    assert agents(await ask(site, None, feed)) == ["alpha", "beta", "delta"]
    for who in ("acme", "initech", None):
        body = (await ask(site, who, feed)).body
        assert not any(word in body for word in (b"secret", b"Secret", b"rockets", b"quiet", b"127.0.0.1:9"))
        assert not any(str(backend.port).encode() in body for backend in site.backends.values())
    assert (await ask(site, "nobody", feed)).status == 401


async def test_every_card_that_is_named_is_there(site: Fleet) -> None:
    found = (await ask(site, "globex")).json["entries"]
    links = [each for each in (await ask(site, "globex", API)).json["linkset"] if "service-desc" in each]
    assert [each["url"] for each in found] == [each["service-desc"][0]["href"] for each in links]
    for entry in found:
        path = entry["url"].removeprefix(site.gateway.gateway.public_url)
        card = await ask(site, "globex", path)
        assert card.json["name"] == entry["displayName"]
    assert {each["displayName"]: each.get("tags") for each in found} == {"Beta": ["language"], "Secret": ["rockets"]}


async def test_filters_rank_as_skills_are_routed(site: Fleet) -> None:
    assert agents(await ask(site, "acme", f"{AI}?skill=translate")) == ["delta", "beta", "alpha"]
    assert agents(await ask(site, "globex", f"{AI}?skill=translate")) == ["secret", "beta"]
    assert agents(await ask(site, "acme", f"{API}?skill=Translate")) == []
    assert agents(await ask(site, "acme", f"{AI}?tag=language")) == ["delta", "beta"]
    assert agents(await ask(site, "acme", f"{AI}?tag=translate")) == ["alpha"]
    assert agents(await ask(site, "acme", f"{AI}?q=SUMMAR")) == ["beta"]
    assert agents(await ask(site, "acme", f"{AI}?skill=translate&q=words")) == ["alpha"]
    for query in ("skill=launch", "tag=rockets", "q=secret", "skill=nothing"):
        foreign, unknown = await ask(site, "acme", f"{AI}?{query}"), await ask(site, "acme", f"{AI}?q=nothing")
        assert (foreign.status, foreign.body) == (unknown.status, unknown.body)


@pytest.mark.parametrize("feed", [AI, API])
async def test_pages_follow_each_other(site: Fleet, feed: str) -> None:
    for query, whole in (("", ["alpha", "beta", "delta"]), ("skill=translate&", ["delta", "beta", "alpha"])):
        found: list[str] = []
        target: str | None = f"{feed}?{query}limit=1"
        while target is not None:
            answer = await ask(site, "acme", target)
            found += agents(answer)
            links = [value for name, value in answer.headers if name == "link" and 'rel="next"' in value]
            public = site.gateway.gateway.public_url
            target = links[0].partition(">")[0].removeprefix(f"<{public}") if links else None
        assert found == whole


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=501", "limit=x", "skill=a&skill=b", f"q={'x' * 300}", "q=%FF", "skill=translate&cursor=secret"],
)
async def test_a_query_that_cannot_be_used_is_refused(site: Fleet, query: str) -> None:
    answer = await ask(site, "acme", f"{AI}?{query}")
    assert (answer.status, answer.reasons) == (400, ["INVALID_PARAMS", "BAD_REQUEST"])
    if "cursor" in query:
        assert answer.anonymous == (await ask(site, "acme", f"{AI}?skill=translate&cursor=nothing")).anonymous


async def test_a_page_may_be_kept_by_its_caller_alone(site: Fleet) -> None:
    acme, globex, stranger = [await ask(site, who) for who in ("acme", "globex", None)]
    assert acme.header("cache-control") == "private, max-age=60"
    assert stranger.header("cache-control") == "public, max-age=60"
    assert acme.header("vary") == "Authorization, X-API-Key"
    assert acme.header("content-type") == "application/ai-catalog+json"
    tag = acme.header("etag")
    assert tag is not None
    assert tag != globex.header("etag")
    again = await ask(site, "acme", AI, (b"If-None-Match", tag.encode()))
    assert (again.status, again.body) == (304, b"")
    assert (await ask(site, "globex", AI, (b"If-None-Match", tag.encode()))).status == 200


async def test_the_api_catalog_names_itself_and_its_profile(site: Fleet) -> None:
    for method in ("GET", "HEAD"):
        answer = await site.gateway.ask(method, API)
        assert (
            answer.header("content-type")
            == 'application/linkset+json; profile="https://www.rfc-editor.org/info/rfc9727"'
        )
        assert answer.header("link") == f'<{site.gateway.gateway.public_url}{API}>; rel="api-catalog"'
    refused = await site.gateway.ask("POST", API, b"{}")
    assert (refused.status, refused.header("allow")) == (405, "GET, HEAD")


async def test_an_operator_may_serve_no_feeds_and_callers_pay_for_them() -> None:
    async with fleet(gateway="catalog: { feeds: false }") as site:
        assert (await ask(site, "acme")).status == 404
        assert (await ask(site, None)).status == 401
    async with fleet(gateway="", limits="requests: 2/h") as site:
        assert [(await ask(site, "acme", feed)).status for feed in (AI, API, AI)] == [200, 200, 429]


async def test_a_reload_changes_the_catalog_and_the_ranks(tmp_path: Any) -> None:
    async with fleet(path=tmp_path / "gateway.yaml") as site:
        assert (await site.task("acme", "translate"))["by"] == "delta"
        made = await site.task("acme", "translate")
        await site.rewrite("trust: 4", "trust: 1, visibility: unlisted")
        assert agents(await ask(site, "acme")) == ["alpha", "beta"]
        assert (await site.task("acme", "translate"))["by"] == "beta"
        got = await site.call("acme", "translate", "GetTask", id=made["id"])
        assert got.json["result"]["id"] == made["id"]
        await site.rewrite('acme: ["alpha", "beta", "delta", "quiet"]', 'acme: ["alpha"]')
        assert agents(await ask(site, "acme")) == ["alpha"]
        assert (await site.task("acme", "translate"))["by"] == "alpha"
        gone = await site.call("acme", "translate", "GetTask", id=made["id"])
        assert json.loads(gone.body)["error"]["code"] == -32001
