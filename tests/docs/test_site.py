"""The documentation as a built site: links and anchors lead somewhere, and search finds the page about a word."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urljoin, urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.catalog.browser import CHROMIUM, open_browser

ROOT = Path(__file__).parents[2]
HOST = "https://site.invalid"
SEARCHES = {
    "load balancing": "replicas",
    "sticky session": "replicas",
    "circuit breaker": "replicas",
    "outlier detection": "replicas",
    "retry": "replicas",
    "canary": "replicas",
    "rate limit": "limits",
    "burst": "limits",
    "quota": "limits",
    "graceful shutdown": "operations",
    "readiness": "operations",
    "hot reload": "operations",
    "mTLS": "mtls",
    "SPIFFE": "mtls",
    "OAuth": "tokens",
    "JWT": "tokens",
    "token exchange": "tokens",
    "API key": "how-to/rotate-keys",
    "webhook": "push",
    "SSRF": "push",
    "agent card": "cards",
    "access log": "logs",
    "OpenTelemetry": "tracing",
    "Prometheus": "operations",
    "Helm": "kubernetes",
    "nginx": "proxies",
    "Redis": "how-to/redis-and-replicas",
    "backup": "how-to/back-up-state",
    "Keycloak": "how-to/identity-providers",
    "grpcurl": "how-to/call-it",
    "LangGraph": "how-to/put-an-agent-behind",
    "queue_timeout": "reference/configuration",
    "body_limit": "limits",
    "route_conflict": "reference/error-reasons",
    "rejected_total": "reference/metrics",
    "traceparent": "tracing",
    "stdio": "stdio",
    "CORS": "reference/configuration",
    "multi-tenant": "",
    "Envoy": "explanation/comparison",
}
"""Words that people search for, and a page that is among the first results; empty for the home page."""
FIRST = 5


class Document(HTMLParser):
    """Collects the ids and the links of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag says."""
        said = dict(attrs)
        self.ids |= {value for key in ("id", "name") if (value := said.get(key))}
        if link := said.get("href" if tag in ("a", "link") else "src"):
            self.links.append(link)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as for its readers."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def pages(built: Path) -> dict[str, Document]:
    return {
        "/" + path.relative_to(built).as_posix().removesuffix("index.html"): Document(path.read_text())
        for path in built.rglob("*.html")
        if path.name != "404.html"
    }


def test_every_link_and_anchor_of_the_site_leads_somewhere(built: Path, pages: dict[str, Document]) -> None:
    lost = []
    for place, page in pages.items():
        for link in page.links:
            target = urlsplit(_resolved(place, link))
            if target.scheme != "https" or target.netloc != "site.invalid":
                continue
            path = unquote(target.path)
            there = pages.get(path)
            is_lost = there is None and not (built / path[1:]).is_file()
            if is_lost or (there is not None and target.fragment and unquote(target.fragment) not in there.ids):
                lost.append((place, link))
    assert lost == []


def _resolved(place: str, link: str) -> str:
    return urljoin(HOST + place, link)


def test_every_page_is_reached_from_the_home_page(pages: dict[str, Document]) -> None:
    found, ahead = {"/"}, ["/"]
    while ahead:
        place = ahead.pop()
        for link in pages[place].links:
            path = unquote(urlsplit(_resolved(place, link)).path)
            if path in pages and path not in found:
                found.add(path)
                ahead.append(path)
    assert found == set(pages)


def test_nothing_is_loaded_from_another_site(pages: dict[str, Document], built: Path) -> None:
    text = "".join(path.read_text() for path in built.rglob("*.html"))
    loads = [line for line in text.splitlines() if "<script" in line or 'rel="stylesheet"' in line]
    assert [line for line in loads if 'src="http' in line or 'href="http' in line] == []


def test_the_index_of_the_search_has_every_page(built: Path, pages: dict[str, Document]) -> None:
    index = json.loads((built / "search/search_index.json").read_text())
    indexed = {"/" + urlsplit(entry["location"]).path for entry in index["docs"]}
    assert indexed == set(pages)


# ---- In a browser ----------------------------------------------------------------------------------------------------


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def served(built: Path) -> Iterator[str]:
    """The URL of the site."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(built)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def page(served: str) -> Iterator[Page]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium: install Debian's package of that name")
    with open_browser() as browser, browser.new_page() as opened:
        opened.goto(served)
        yield opened


def results(page: Page, words: str) -> list[str]:
    """Return the places of the results of a search, the best first, without the site's own URL."""
    field, found = page.get_by_role("textbox", name="Search"), page.locator(".md-search-result__meta")
    for text, told in (("", "Type to start searching"), (words, re.compile("matching"))):
        field.fill(text)
        field.press("Shift")  # The search listens to keys.
        expect(found).to_have_text(told)
    links = page.locator(".md-search-result__item > .md-search-result__link")
    places: list[str] = links.evaluate_all("links => links.map(link => new URL(link.href).pathname)")
    return list(dict.fromkeys(place.strip("/") for place in places))


def test_search_finds_the_page_about_a_word(page: Page) -> None:
    page.get_by_role("textbox", name="Search").click()
    missed = {
        words: found[:FIRST]
        for words, place in SEARCHES.items()
        if place not in (found := results(page, words))[:FIRST]
    }
    assert missed == {}


_WIDTHS = """async places => {
  const widths = {};
  for (const place of places) {
    const text = await (await fetch(place)).text();
    const there = new DOMParser().parseFromString(text, "text/html").querySelector(".md-container");
    document.querySelector(".md-container").replaceWith(there);
    widths[place] = document.documentElement.scrollWidth;
  }
  return widths;
}"""
"""Each page is shown below the header of the first: to load them all takes Chromium ten times as long."""


def test_no_page_is_wider_than_a_telephone(page: Page, served: str, pages: dict[str, Document]) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(served)
    widths = page.evaluate(_WIDTHS, sorted(pages))
    assert widths.keys() == pages.keys()
    assert {place: width for place, width in widths.items() if width > 390} == {}
