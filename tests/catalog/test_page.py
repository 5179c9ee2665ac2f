"""The catalog page, of operators and of the public port, in a real browser where a test needs one."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.catalog.browser import ATTACK, TOKEN, Site, Visit, below_prefix

Visits = Callable[..., Visit]


def signed_in(visit: Visits, site: Site, path: str = "/", **options: object) -> Page:
    """A page of the site, with the cookie of somebody who gave the token."""
    page = visit(**options).page
    form = {"token": TOKEN, "next": "/"}
    entered = httpx.post(site.admin + "/", data=form, trust_env=False)
    [(name, value)] = entered.cookies.items()
    page.context.add_cookies(
        [{"name": name, "value": value, "url": site.admin, "httpOnly": True, "sameSite": "Strict"}]
    )
    page.goto(site.admin + path)
    return page


def assert_lists(page: Page, *names: str) -> None:
    """Wait until the page lists these agents; a click does not wait for the next page."""
    expect(page.locator(".card h2 code")).to_have_text(list(names))


# ---- Sign in ---------------------------------------------------------------------------------------------------------


def test_the_page_asks_for_the_token_and_goes_on_to_the_page_that_was_asked_for(site: Site, visit: Visits) -> None:
    page = visit().page
    page.goto(site.admin + "/live?agent=echo")
    page.get_by_label("Admin token").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("This is not the admin token.")
    page.get_by_label("Admin token").fill(TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_url("**/live?agent=echo")
    expect(page.get_by_label("Agent")).to_have_value("echo")
    [cookie] = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert TOKEN not in cookie["value"]
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Admin token")).to_be_visible()
    assert page.context.cookies() == []


def test_another_site_cannot_use_the_session_of_a_browser(site: Site) -> None:
    with httpx.Client(base_url=site.admin, trust_env=False) as http:
        form = {"content-type": "application/x-www-form-urlencoded"}
        body = f"token={TOKEN}&next=https://evil.example/"
        assert http.post("/", content=body, headers={**form, "sec-fetch-site": "cross-site"}).status_code == 403
        entered = http.post("/", content=body, headers=form)
        assert (entered.status_code, entered.headers["location"]) == (303, "./")
        name, _, value = entered.headers["set-cookie"].partition(";")[0].partition("=")
        cookie = {"cookie": f"{name}={value}"}
        assert http.get("/-/agents", headers=cookie).status_code == 200
        question = {"path": "/echo", "as": "acme"}
        for foreign in (
            {"sec-fetch-site": "cross-site"},
            {"sec-fetch-site": "same-site"},
            {"origin": "http://evil.example"},
        ):
            assert http.post("/-/route", json=question, headers={**cookie, **foreign}).status_code == 403, foreign
            assert http.post("/-/try/echo", json={"text": "x"}, headers={**cookie, **foreign}).status_code == 403
        for own in ({"sec-fetch-site": "same-origin"}, {"origin": site.admin}, {}):
            assert http.post("/-/route", json=question, headers={**cookie, **own}).status_code == 200, own
        # Without the header that only a script of the page sends, a form of another site does nothing.
        assert http.post("/-/try/echo", json={"text": "x"}, headers=cookie).status_code == 403
        end, _, mac = value.partition(".")
        for forged in (f"{int(end) + 1}.{mac}", f"{end}.", "", f"9{end}.{mac}", f"{end}.{mac[:-1]}x", "é.é"):
            headers = {"cookie": f"{name}={forged}".encode()}
            assert http.get("/-/agents", headers=headers).status_code == 401, forged  # type: ignore[arg-type]


# ---- The list --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scripts", [pytest.param(True, id="script"), pytest.param(False, marks=pytest.mark.long, id="no script")]
)
def test_agents_are_searched_and_narrowed_by_facets(site: Site, visit: Visits, scripts: bool) -> None:  # noqa: FBT001
    page = signed_in(visit, site, java_script_enabled=scripts)
    assert_lists(page, "away", "clock", "echo", "flaky", "hostile", "private", "travel", "unlisted")
    page.get_by_role("searchbox").fill("JOURNEY")
    page.get_by_role("button", name="Search").click()
    assert_lists(page, "travel")
    page.goto(site.admin + "/")
    filters = page.get_by_role("complementary", name="Filters")
    filters.get_by_role("link", name="globex").click()
    assert_lists(page, "echo", "flaky")
    filters.get_by_role("link", name="failure").click()
    assert_lists(page, "flaky")
    filters.get_by_role("link", name="globex").click()
    filters.get_by_role("link", name="failure").click()
    filters.get_by_role("link", name="clock", exact=True).click()
    assert_lists(page, "clock")
    page.get_by_role("searchbox").fill("nothing like this")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("No agent is found.")).to_be_visible()


def test_an_agent_is_shown_with_card_dialects_replicas_limits_and_route(site: Site, visit: Visits) -> None:
    page = signed_in(visit, site)
    page.locator(".card h2").get_by_role("link", name="Echo").click()
    card = page.get_by_role("region", name="Served card")
    expect(card).to_contain_text(f"{site.url}/echo")
    expect(card).to_contain_text("JSONRPC 1.0")
    card.get_by_text("JSON", exact=True).click()
    expect(card.locator("#card-text")).to_contain_text('"supportedInterfaces"')
    expect(page.get_by_role("region", name="Replicas")).to_contain_text("up")
    limits = page.get_by_role("region", name="Limits and usage")
    expect(limits).to_contain_text("agent echo")
    expect(limits).to_contain_text("6000 in 60 s")
    why = page.get_by_role("region", name="Why this route")
    expect(why).to_contain_text("gateway.yaml:")
    expect(why.get_by_role("row", name="without a credential")).to_contain_text("auth_missing")
    expect(why.get_by_role("row", name="acme")).to_contain_text("echo")
    why.get_by_role("link", name="Explain").click()
    page.get_by_label("Caller's tenant").fill("globex")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("#answer")).to_contain_text("echo answers")


def test_an_agent_that_is_not_there_is_no_page(site: Site) -> None:
    with httpx.Client(base_url=site.admin, trust_env=False, headers={"authorization": f"Bearer {TOKEN}"}) as http:
        missing = http.get("/agent", params={"name": ATTACK})
        assert missing.status_code == 404
        assert "<script>document" not in missing.text
        assert http.get("/style.css/../page.html").status_code == 404


# ---- Try it ----------------------------------------------------------------------------------------------------------


def test_a_message_is_answered_live_and_a_question_is_answered_back(site: Site, visit: Visits) -> None:
    page = signed_in(visit, site)
    page.locator(".card h2").get_by_role("link", name="Travel").click()
    page.get_by_label("Act as tenant").select_option("acme")
    page.get_by_label("Message").fill("To Lisbon")
    page.get_by_role("button", name="Send").click()
    log = page.get_by_role("log")
    expect(log.locator(".asks")).to_have_text("'To Lisbon': gladly. On which day?")
    page.get_by_label("Message").fill("Friday")
    page.get_by_role("button", name="Answer").click()
    expect(log.locator(".artifact")).to_contain_text("Booked for Friday.")
    expect(log).to_contain_text("completed")
    expect(page.get_by_role("button", name="Send")).to_be_enabled()
    expect(log.locator("details").last).to_contain_text("HTTP 200")
    page.get_by_role("button", name="New conversation").click()
    expect(log).to_be_empty()


@pytest.mark.long
def test_events_arrive_one_by_one_and_can_be_stopped(site: Site, visit: Visits) -> None:
    page = signed_in(visit, site, "/agent?name=clock")
    page.get_by_label("Act as tenant").select_option("acme")
    page.get_by_role("button", name="Send").click()
    artifact = page.get_by_role("log").locator(".artifact")
    expect(artifact).to_have_text(re.compile(r"^\D*(\S+\s){1,3}$"))
    page.get_by_role("button", name="Stop").click()
    expect(page.get_by_role("log")).to_contain_text("Stopped.")
    assert len(artifact.inner_text().split()) < 11


def test_a_credential_is_proven_as_any_clients_is_and_a_tenant_has_its_own_agents_only(
    site: Site, visit: Visits
) -> None:
    page = signed_in(visit, site, "/agent?name=clock")
    log = page.get_by_role("log")
    page.get_by_label("Credential", exact=True).fill(site.keys["globex"].text)
    page.get_by_role("button", name="Send").click()
    expect(log.locator(".failed")).to_contain_text("there is nothing here")
    page.get_by_label("Credential", exact=True).fill("made-up")
    page.get_by_role("button", name="Send").click()
    expect(log.locator(".failed")).to_have_count(2)
    page.get_by_label("Credential", exact=True).fill("")
    page.get_by_label("Act as tenant").select_option("globex")
    page.get_by_role("button", name="Send").click()
    expect(log.locator(".failed")).to_have_count(3)
    page.goto(site.admin + "/agent?name=echo")
    page.get_by_label("Credential", exact=True).fill(site.keys["acme"].text)
    page.get_by_label("Message").fill(ATTACK)
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("log").locator(".theirs")).to_have_text(ATTACK)
    assert page.title().startswith("Echo")


def test_without_a_token_nobody_acts_as_a_tenant(open_to_all: Site, visit: Visits) -> None:
    page = visit().page
    page.goto(open_to_all.admin + "/agent?name=echo")
    expect(page.get_by_label("Act as tenant")).to_have_count(0)
    page.get_by_label("Credential", exact=True).fill(open_to_all.keys["globex"].text)
    page.get_by_label("Message").fill("hello there")
    page.get_by_role("button", name="Send").click()
    expect(page.get_by_role("log").locator(".theirs")).to_have_text("hello there")
    headers = {"x-a2a-gateway-page": "1"}
    with httpx.Client(base_url=open_to_all.admin, trust_env=False, headers=headers) as http:
        refused = http.post("/-/try/echo", json={"text": "x", "as": "acme"})
        assert (refused.status_code, "gateway.admin.token" in refused.json()["error"]) == (403, True)
        for wrong, status in (({"text": 1}, 400), ({"text": "x", "address": 7}, 400), ({"txt": "x"}, 400)):
            assert http.post("/-/try/echo", json=wrong).status_code == status
        assert http.post("/-/try/nobody", json={"text": "x"}).status_code == 404
        assert http.get("/", headers={"host": "evil.example"}).status_code == 421


# ---- Copy the call ---------------------------------------------------------------------------------------------------

MESSAGE = 'It\'s "quoted" \\ $HOME `id` é\nand has two lines'


@pytest.mark.long
@pytest.mark.parametrize("language", ["curl", "python", "javascript"])
def test_the_copied_call_runs(site: Site, visit: Visits, tmp_path: Path, language: str) -> None:
    page = signed_in(visit, site, "/agent?name=echo", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_label("Message").fill(MESSAGE)
    copied = copy(page, language)
    assert copied == page.locator(f"#call-{language}").text_content()
    environ = {**os.environ, "A2A_TOKEN": site.keys["acme"].text, "NO_PROXY": "*"}
    said = run(runner(language, copied, tmp_path), environ)
    # Protobuf writes what is not ASCII in octal, and apostrophes with a backslash.
    assert json.dumps(MESSAGE, ensure_ascii=False)[1:-1] in said or 'It\\\'s \\"quoted\\" \\\\ $HOME `id`' in said, said


@pytest.mark.long
def test_the_copied_call_to_an_agent_on_a_shared_path_names_its_tenant(
    site: Site, visit: Visits, tmp_path: Path
) -> None:
    page = signed_in(visit, site, "/agent?name=travel", permissions=["clipboard-read", "clipboard-write"])
    for language in ("curl", "python", "javascript"):
        if language == "javascript" and not SDK.exists():
            continue
        environ = {**os.environ, "A2A_TOKEN": site.keys["acme"].text}
        assert "gladly. On which day?" in run(runner(language, copy(page, language), tmp_path), environ)


def copy(page: Page, language: str) -> str:
    shown = page.locator("details").filter(has=page.locator(f"#call-{language}"))
    if language != "curl":
        shown.locator("summary").click()
    shown.get_by_role("button", name="Copy").click()
    expect(shown.get_by_role("button")).to_have_text("Copied")
    return str(page.evaluate("navigator.clipboard.readText()"))


def run(command: list[str], environ: dict[str, str]) -> str:
    done = subprocess.run(command, check=False, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def runner(language: str, call: str, folder: Path) -> list[str]:
    """The command that runs a call."""
    if language == "curl":
        return ["sh", "-c", call]
    if language == "python":
        (folder / "call.py").write_text(call)
        return [sys.executable, str(folder / "call.py")]
    if not SDK.exists() or shutil.which("node") is None:
        pytest.skip("tests/check installs the SDKs of JavaScript")
    (folder / "node_modules" / "@a2a-js").mkdir(parents=True, exist_ok=True)
    if not (folder / "node_modules" / "@a2a-js" / "sdk").exists():
        (folder / "node_modules" / "@a2a-js" / "sdk").symlink_to(SDK)
    (folder / "call.mjs").write_text(call)
    return ["node", str(folder / "call.mjs")]


SDK = Path(__file__).parents[1] / "javascript" / "node_modules" / "a2a-1.3"


# ---- Routes and live requests ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "scripts", [pytest.param(True, id="script"), pytest.param(False, marks=pytest.mark.long, id="no script")]
)
def test_the_route_of_a_request_is_explained(site: Site, visit: Visits, scripts: bool) -> None:  # noqa: FBT001
    page = signed_in(visit, site, "/routes", java_script_enabled=scripts)
    page.get_by_label("Path").fill("/a2a")
    page.get_by_label("API key, by name").fill("globex")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("#answer")).to_contain_text("flaky answers")
    page.get_by_label("API key, by name").fill("nobody")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("alert")).to_contain_text("nobody")
    page.get_by_label("API key, by name").fill("")
    page.get_by_label("Caller's tenant").fill("acme")
    page.get_by_label("Claims").fill("[")
    page.get_by_role("button", name="Explain").click()
    expect(page.get_by_role("alert")).to_contain_text("claims are a JSON object")
    page.get_by_label("Claims").fill("")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("#answer")).to_contain_text("No agent answers")


def test_requests_are_followed_live_and_filtered(site: Site, visit: Visits) -> None:
    page = signed_in(visit, site, "/live?agent=echo&tenant=globex")
    expect(page.locator("#follow-state")).to_have_text("following")
    rows = page.locator("#live tbody tr")
    before = rows.count()
    said = f"secret-{uuid.uuid4()}"
    with httpx.Client(trust_env=False) as http:
        for tenant in ("acme", "globex"):
            headers = {"authorization": f"Bearer {site.keys[tenant].text}", "a2a-version": "1.0"}
            message = {"messageId": "1", "role": "ROLE_USER", "parts": [{"text": said}]}
            call = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message}}
            assert http.post(f"{site.url}/echo", json=call, headers=headers).status_code == 200
        expect(rows).to_have_count(before + 1)
        expect(rows.first).to_contain_text("globex")
        expect(rows.first).to_contain_text("SendMessage")
        shown = http.get(f"{site.admin}/-/requests", headers={"authorization": f"Bearer {TOKEN}"})
    assert [line["tenant"] for line in shown.json()["requests"][:2]] == ["globex", "acme"]
    assert said not in shown.text
    assert site.keys["acme"].text not in shown.text
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#follow-state")).to_have_text("paused")
    page.get_by_label("Status, outcome or reason").fill("no_such_reason")
    page.get_by_role("button", name="Filter").click()
    expect(rows).to_have_count(0)


@pytest.mark.long
def test_the_theme_follows_the_system_and_the_button(site: Site, visit: Visits) -> None:
    def back(page: Page) -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light, dark = "rgb(246, 247, 249)", "rgb(18, 21, 27)"
    page = signed_in(visit, site, color_scheme="dark")
    assert back(page) == dark
    page.get_by_role("button", name="Light").click()
    assert back(page) == light
    page.reload()
    assert back(page) == light
    page.get_by_role("button", name="Dark").click()
    assert back(page) == dark
    assert back(signed_in(visit, site, color_scheme="light")) == light
    without = signed_in(visit, site, color_scheme="dark", java_script_enabled=False)
    expect(without.locator("#theme")).to_be_hidden()


# ---- For everybody ---------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_keyboard_is_enough(site: Site, visit: Visits) -> None:
    page = signed_in(visit, site)

    def focused() -> str:
        return str(page.evaluate("document.activeElement.name || document.activeElement.textContent")).strip()

    def walk(to: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            if focused() == to:
                assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
                return
        raise AssertionError(f"Tab does not come to {to}")

    page.keyboard.press("Tab")
    assert focused() == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("/")
    page.keyboard.type("hello")
    page.keyboard.press("Control+A")
    page.keyboard.type("says what")
    page.keyboard.press("Enter")
    page.wait_for_url("**q=says+what**")
    walk("Echo")
    page.keyboard.press("Enter")
    page.wait_for_url("**/agent?name=echo")
    walk("text")
    page.keyboard.press("Control+A")
    page.keyboard.type("by keyboard")
    walk("as")
    page.keyboard.type("acme")
    walk("Send")
    page.keyboard.press("Enter")
    expect(page.get_by_role("log").locator(".theirs")).to_have_text("by keyboard")


def test_a_hostile_card_stays_a_text(site: Site, visit: Visits) -> None:
    page = signed_in(visit, site, "/?q=hostile")
    assert page.title() == "Agents · A2A gateway"
    expect(page.locator(".card h2 a")).to_have_text(f"Hostile {ATTACK}")
    page.locator(".card h2 a").click()
    expect(page.get_by_role("region", name="Skills")).to_contain_text(ATTACK)
    assert page.title().startswith("Hostile <script>")
    assert page.locator("main script, main img, main b, main i").count() == 0
    links = page.evaluate("[...document.links].map((each) => each.href)")
    assert [link for link in links if not link.startswith("http")] == []
    page.locator("#copy summary", has_text="Python").click()
    expect(page.locator("#call-python")).to_contain_text("'; rm -rf / #")
    page.goto(site.admin + "/?skill=%22%3E%3Cb%3E")
    assert_lists(page, "hostile")
    headers = httpx.get(site.admin + "/", headers={"authorization": f"Bearer {TOKEN}"}, trust_env=False).headers
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]


@pytest.mark.long
def test_the_page_works_below_a_prefix(site: Site, visit: Visits) -> None:
    with below_prefix(site.admin, "/ops/gw") as url:
        page = visit().page
        requested: list[str] = []
        page.on("request", lambda request: requested.append(request.url))
        page.goto(url + "/")
        page.get_by_label("Admin token").fill(TOKEN)
        page.keyboard.press("Enter")
        expect(page.locator(".card")).to_have_count(8)
        page.locator(".card h2").get_by_role("link", name="Clock").click()
        page.get_by_label("Act as tenant").select_option("acme")
        page.get_by_role("button", name="Send").click()
        expect(page.get_by_role("log")).to_contain_text("completed")
        page.get_by_role("link", name="Routes").click()
        page.get_by_label("Path").fill("/clock")
        page.get_by_role("button", name="Explain").click()
        expect(page.locator("#answer")).to_be_visible()
        page.get_by_role("link", name="Live requests").click()
        expect(page.locator("#follow-state")).to_have_text("following")
        assert [each for each in requested if not each.startswith(url + "/")] == []
        page.close()


def test_an_operator_who_acts_as_a_tenant_is_named_in_the_access_log(site: Site) -> None:
    headers = {"authorization": f"Bearer {TOKEN}", "x-a2a-gateway-page": "1"}
    with httpx.Client(base_url=site.admin, trust_env=False, headers=headers) as http:
        answer = http.post("/-/try/echo", json={"text": "x", "as": "acme"})
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert http.post("/-/try/echo", json={"text": "x", "as": "nobody"}).status_code == 403
        assert http.post("/-/try/echo", json={"text": "x", "as": "a\nb"}).status_code == 400
    line = site.process.access(answer.headers["x-request-id"])
    assert (line["tenant"], line["principal"], line["auth_method"]) == ("acme", "operator", "admin")


# ---- On the public port: each caller sees what it may reach, and nothing of the operator's --------------------------

PAGE = "/-/catalog/"


@pytest.fixture
def http(site: Site) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=site.url, trust_env=False) as client:
        yield client


def shown(site: Site, tenant: str) -> dict[str, str]:
    return {"authorization": f"Bearer {site.keys[tenant].text}"}


def linked(text: str) -> list[str]:
    return re.findall(r"agent\?name=([a-z]+)", text)


def test_a_stranger_and_each_tenant_see_their_own_agents(site: Site, http: httpx.Client) -> None:
    stranger = http.get(PAGE)
    assert stranger.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in stranger.headers["content-security-policy"]
    assert linked(stranger.text) == ["clock", "echo", "hostile", "travel"]
    assert linked(http.get(PAGE, headers=shown(site, "acme")).text) == [
        "clock", "echo", "hostile", "private", "travel",
    ]  # fmt: skip
    assert linked(http.get(PAGE, headers=shown(site, "globex")).text) == ["echo", "flaky"]
    assert http.get(PAGE, headers={"authorization": "Bearer made-up"}).status_code == 401


def test_an_agent_that_a_caller_may_not_reach_looks_like_one_that_is_not_there(site: Site, http: httpx.Client) -> None:
    missing = http.get(PAGE + "agent", params={"name": "nobody"}, headers=shown(site, "globex"))
    assert missing.status_code == 404
    for name in ("clock", "private", "unlisted", "away"):
        refused = http.get(PAGE + "agent", params={"name": name}, headers=shown(site, "globex"))
        assert refused.status_code == 404
        assert refused.text.replace(name, "nobody") == missing.text
    for query in ({"q": "private"}, {"skill": "time"}, {"tag": "streaming"}, {"tenant": "acme"}, {"health": "up"}):
        assert not {"clock", "private", "unlisted", "away"} & set(
            linked(http.get(PAGE, params=query, headers=shown(site, "globex")).text)
        )


def test_pages_of_callers_show_nothing_of_the_operators(site: Site, http: httpx.Client) -> None:
    backend = httpx.get(site.admin + "/-/agents", headers={"authorization": f"Bearer {TOKEN}"}, trust_env=False)
    upstream = httpx.URL(next(each["url"] for each in backend.json()["agents"] if each["agent"] == "echo"))
    for path in (PAGE, PAGE + "agent?name=echo", PAGE + "agent?name=hostile", PAGE + "page.js"):
        text = http.get(path, headers=shown(site, "acme")).text
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


def test_the_page_is_not_public_unless_the_file_says_so(open_to_all: Site) -> None:
    for path in ("/", PAGE, PAGE + "style.css"):
        assert httpx.get(open_to_all.url + path, trust_env=False).status_code == 401


def test_a_tenants_view_in_a_browser(site: Site, visit: Callable[..., Visit]) -> None:
    page = visit(extra_http_headers=shown(site, "globex")).page
    page.goto(site.url + "/")
    expect(page.locator(".card")).to_have_count(2)
    page.get_by_role("complementary", name="Filters").get_by_role("link", name="failure").click()
    expect(page.locator(".card")).to_have_count(1)
    page.locator(".card h2").get_by_role("link", name="Flaky").click()
    expect(page.get_by_role("region", name="Served card")).to_contain_text(f"{site.url}/a2a")
    expect(page.get_by_role("region", name="Copy the call")).to_contain_text("SendStreamingMessage")
    expect(page.get_by_role("region", name="Try it")).to_have_count(0)
    page.get_by_role("button", name="Dark").click()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


# ---- The end ---------------------------------------------------------------------------------------------------------


def test_followers_do_not_delay_a_shutdown(open_to_all: Site) -> None:
    """The last one of this file, for it ends that gateway."""
    with httpx.stream("GET", open_to_all.admin + "/-/requests/tail", trust_env=False, timeout=30) as followed:
        assert followed.headers["content-type"].startswith("text/event-stream")
        chunks = followed.iter_raw()
        assert next(chunks) == b": follows\n\n"
        open_to_all.process.signal(signal.SIGTERM)
        assert b"".join(chunks) == b""
    assert open_to_all.process.wait() == 0
    assert "Traceback" not in open_to_all.process.log_text
