"""The catalog page on the public port: each caller sees what it may reach, and nothing of the operator's."""

import re
from collections.abc import Callable, Iterator

import httpx
import pytest
from playwright.sync_api import expect

from tests.catalog.browser import TOKEN, Site, Visit, open_site

PAGE = "/-/catalog/"


@pytest.fixture(scope="module")
def public(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with open_site(tmp_path_factory.mktemp("public"), token=TOKEN, public=True) as opened:
        yield opened


@pytest.fixture
def http(public: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=public.url, trust_env=False) as client:
        yield client


def shown(public: Site, tenant: str) -> dict[str, str]:
    return {"authorization": f"Bearer {public.keys[tenant].text}"}


def names(text: str) -> list[str]:
    return re.findall(r"agent\?name=([a-z]+)", text)


def test_a_stranger_and_each_tenant_see_their_own_agents(public: Site, http: httpx.Client) -> None:
    stranger = http.get(PAGE)
    assert stranger.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in stranger.headers["content-security-policy"]
    assert names(stranger.text) == ["clock", "echo", "hostile", "travel"]
    assert names(http.get(PAGE, headers=shown(public, "acme")).text) == [
        "clock", "echo", "hostile", "private", "travel",
    ]  # fmt: skip
    assert names(http.get(PAGE, headers=shown(public, "globex")).text) == ["echo", "flaky"]
    assert http.get(PAGE, headers={"authorization": "Bearer made-up"}).status_code == 401


def test_an_agent_that_a_caller_may_not_reach_looks_like_one_that_is_not_there(
    public: Site, http: httpx.Client
) -> None:
    missing = http.get(PAGE + "agent", params={"name": "nobody"}, headers=shown(public, "globex"))
    assert missing.status_code == 404
    for name in ("clock", "private", "unlisted", "away"):
        refused = http.get(PAGE + "agent", params={"name": name}, headers=shown(public, "globex"))
        assert refused.status_code == 404
        assert refused.text.replace(name, "nobody") == missing.text
    for query in ({"q": "private"}, {"skill": "time"}, {"tag": "streaming"}, {"tenant": "acme"}, {"health": "up"}):
        assert not {"clock", "private", "unlisted", "away"} & set(
            names(http.get(PAGE, params=query, headers=shown(public, "globex")).text)
        )


def test_nothing_of_the_operators_is_there(public: Site, http: httpx.Client) -> None:
    backend = httpx.get(public.admin + "/-/agents", headers={"authorization": f"Bearer {TOKEN}"}, trust_env=False)
    upstream = httpx.URL(next(each["url"] for each in backend.json()["agents"] if each["agent"] == "echo"))
    for path in (PAGE, PAGE + "agent?name=echo", PAGE + "agent?name=hostile", PAGE + "page.js"):
        text = http.get(path, headers=shown(public, "acme")).text
        assert f"{upstream.host}:{upstream.port}" not in text
        for word in ("globex", "Replicas", "Limits and usage", "Why this route", "gateway.yaml", "Sign out", "6000"):
            assert word not in text, (path, word)
    for path in ("agent/", "routes", "live", "-/requests", "base.html"):
        assert http.get(PAGE + path).status_code in (400, 401, 404), path
    assert http.get("/-/requests").status_code == 401
    assert http.post("/-/try/echo", json={"text": "x", "as": "acme"}).status_code == 401
    assert http.post(PAGE, content=b"x").status_code == 405


def test_the_root_and_the_folder_without_a_slash_lead_to_the_page(http: httpx.Client) -> None:
    for path in ("/", "/-/catalog"):
        answer = http.get(path)
        assert (answer.status_code, answer.headers["location"]) == (303, PAGE)


def test_the_page_is_not_public_unless_the_file_says_so(site: Site) -> None:
    for path in ("/", PAGE, PAGE + "style.css"):
        assert httpx.get(site.url + path, trust_env=False).status_code == 401


def test_a_tenants_view_in_a_browser(public: Site, visit: Callable[..., Visit]) -> None:
    page = visit(extra_http_headers=shown(public, "globex")).page
    page.goto(public.url + "/")
    expect(page.locator(".card")).to_have_count(2)
    page.get_by_role("complementary", name="Filters").get_by_role("link", name="failure").click()
    expect(page.locator(".card")).to_have_count(1)
    page.locator(".card h2").get_by_role("link", name="Flaky").click()
    expect(page.get_by_role("region", name="Served card")).to_contain_text(f"{public.url}/a2a")
    expect(page.get_by_role("region", name="Copy the call")).to_contain_text("SendStreamingMessage")
    expect(page.get_by_role("region", name="Try it")).to_have_count(0)
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
