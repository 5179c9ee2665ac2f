"""Takes the pictures of `docs/page.md` with Debian's Chromium: `python -m tests.catalog.screenshots`."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page, expect

from tests.catalog.browser import CHROMIUM, TOKEN, Site, open_browser, open_site

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
LARGEST = 200 * 1024
"""Bytes of a picture."""


def take(page: Page, name: str) -> None:
    """Take one picture."""
    page.screenshot(path=PICTURES / f"{name}.png")
    size = (PICTURES / f"{name}.png").stat().st_size
    print(f"{name}.png  {size // 1024} KiB")  # noqa: T201 - a command for people
    assert size <= LARGEST


def tour(page: Page, site: Site) -> None:
    """Walk through the pages."""
    page.goto(site.admin + "/")
    page.get_by_label("Admin token").fill(TOKEN)
    page.keyboard.press("Enter")
    expect(page.locator(".card")).to_have_count(5)
    take(page, "agents")
    page.goto(site.admin + "/agent?name=travel")
    page.get_by_label("Act as tenant").select_option("acme")
    page.get_by_label("Message").fill("To Lisbon")
    page.get_by_role("button", name="Send").click()
    expect(page.locator(".log .asks")).to_be_visible()
    page.get_by_label("Message").fill("On Friday")
    page.get_by_role("button", name="Answer").click()
    expect(page.get_by_role("log")).to_contain_text("Have a good journey.")
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    page.get_by_label("Message").blur()
    page.get_by_role("button", name="Dark").click()
    take(page, "agent")
    page.goto(site.admin + "/agent?name=echo")
    page.locator("#copy").scroll_into_view_if_needed()
    page.locator("#copy summary", has_text="Python").click()
    page.get_by_role("button", name="Light").click()
    page.mouse.wheel(0, 300)
    take(page, "call")
    for name, tenant in (("echo", "acme"), ("clock", "acme"), ("clock", "globex"), ("echo", "globex")):
        page.goto(f"{site.admin}/agent?name={name}")
        page.get_by_label("Act as tenant").select_option(tenant)
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_role("button", name="Send")).to_be_enabled()
        expect(page.locator(".log details")).to_have_count(1)
    page.goto(site.admin + "/live")
    expect(page.locator("#follow-state")).to_have_text("following")
    take(page, "live")
    page.goto(site.admin + "/routes?path=/a2a&as=acme&tenant=travel")
    expect(page.locator("#answer")).to_be_visible()
    take(page, "routes")


def main() -> int:
    """Take all pictures; return the exit code."""
    if CHROMIUM is None:
        print("there is no chromium: install Debian's package of that name", file=sys.stderr)  # noqa: T201
        return 1
    PICTURES.mkdir(exist_ok=True)
    with (
        TemporaryDirectory() as folder,
        open_site(Path(folder), token=TOKEN, hostile=False) as site,
        open_browser() as browser,
    ):
        tour(browser.new_page(viewport={"width": 1200, "height": 820}, color_scheme="light"), site)
    return 0


if __name__ == "__main__":
    sys.exit(main())
