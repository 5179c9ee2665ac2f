"""Fixtures of the catalog page: a browser, and gateways with and without an admin token."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.catalog.browser import CHROMIUM, TOKEN, Site, Visit, open_browser, open_site

Open = Callable[..., Visit]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, for one module: the synchronous API of Playwright keeps an event loop running in the thread."""
    if CHROMIUM is None:
        pytest.skip("there is no chromium: install Debian's package of that name")
    with open_browser() as opened:
        yield opened


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A gateway whose admin listener asks for a token, and whose public port has the page, too."""
    with open_site(tmp_path_factory.mktemp("site"), token=TOKEN, public=True) as opened:
        yield opened


@pytest.fixture(scope="module")
def open_to_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A gateway whose admin listener asks for none."""
    with open_site(tmp_path_factory.mktemp("open")) as opened:
        yield opened


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Share one context among the pages without options: each context is a process of its own."""
    with browser.new_context() as opened:
        yield opened


@pytest.fixture
def visit(browser: Browser, context: BrowserContext) -> Iterator[Callable[..., Visit]]:
    """Opens a page of a browser that knows nobody; every complaint of its console fails the test."""
    with ExitStack() as stack:

        def opened(**options: Any) -> Visit:
            own = stack.enter_context(browser.new_context(**options)) if options else context
            own.clear_cookies()
            return stack.enter_context(Visit(own.new_page()))

        yield opened
