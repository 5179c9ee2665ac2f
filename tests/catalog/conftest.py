"""What the tests of the catalog page stand on: a browser, and gateways with and without an admin token."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from playwright.sync_api import Browser

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
    """A gateway whose admin listener asks for a token."""
    with open_site(tmp_path_factory.mktemp("site"), token=TOKEN) as opened:
        yield opened


@pytest.fixture(scope="module")
def open_to_all(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A gateway whose admin listener asks for none."""
    with open_site(tmp_path_factory.mktemp("open")) as opened:
        yield opened


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visit]]:
    """Opens a browser that has seen nothing before; every complaint of its console fails the test."""
    with ExitStack() as stack:
        yield lambda **options: stack.enter_context(Visit(browser.new_context(**options).new_page()))
