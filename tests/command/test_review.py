"""`check` tells the same to people, to programs and to GitHub, with one exit code."""

from pathlib import Path

from gateway.command.online import Visit, Visited
from gateway.command.review import Review
from gateway.config.check import Examined, examine

GOOD = """\
version: 1
agents:
  echo: http://127.0.0.1:1
  crm:
    by_tenant: { acme: http://127.0.0.1:2 }
"""
WARNED = "version: 1\n"
BAD = "version: 2\n"
FAILING = GOOD + "tests: [{ name: t, request: /echo, expect: crm }]\n"

UP = Visit("echo", good=True, fact="JSONRPC 1.0")
DOWN = Visit("echo", good=False, fact="not reached")
DOWN_TENANT = Visit("crm/acme", good=False, fact="answered 500")


def of(text: str) -> Examined:
    return examine(Path("gateway.yaml"), {}, text=text)


def test_the_exit_code_says_what_was_found() -> None:
    assert Review(of(GOOD)).code == 0
    assert Review(of(GOOD), (UP,)).code == 0
    assert Review(of(GOOD), (UP, DOWN_TENANT)).code == 1
    assert Review(of(WARNED)).code == 0
    assert Review(of(WARNED), strict=True).code == 1
    assert Review(of(BAD)).code == 1
    assert Review(of(FAILING)).code == 3
    assert Review(of(FAILING), (DOWN,)).code == 1


def test_what_so_many_workers_cannot_serve_is_an_error_at_its_line() -> None:
    of_one = of("version: 1\ngateway: { state: memory }\ndefaults: { isolation: tenant }\n" + GOOD.partition("\n")[2])
    assert Review(of_one).code == 0
    divided = Review(of_one, workers=2)
    assert divided.code == 1
    [told] = divided.as_json()["problems"]
    assert (told["path"], told["line"]) == ("gateway.state", 2)
    assert "sqlite:///PATH" in divided.as_text()
    assert Review(of(BAD), workers=2).told == Review(of(BAD)).told


def test_an_agent_that_is_down_is_an_error_at_its_line_for_github() -> None:
    remedy = " → start the agent, or correct its `backend` or `card`"
    assert Review(of(GOOD), (DOWN, DOWN_TENANT)).as_github().splitlines() == [
        f"::error file=gateway.yaml,line=3,col=3::agents.echo: no card: not reached{remedy}",
        f"::error file=gateway.yaml,line=5,col=18::agents.crm.by_tenant.acme: no card: answered 500{remedy}",
    ]
    assert Review(of(GOOD), (UP,)).as_github() == ""


def test_people_are_told_that_all_is_well_and_of_every_agent() -> None:
    assert Review(of(GOOD)).as_text() == "gateway.yaml: no problems"
    assert Review(of(GOOD), (UP, DOWN)).as_text().splitlines() == [
        "gateway.yaml: no problems",
        "echo: JSONRPC 1.0",
        "echo: no card: not reached",
    ]


def test_issuers_the_store_and_webhooks_are_told_beside_agents() -> None:
    text = """\
version: 1
gateway: { state: redis://127.0.0.1:6379 }
auth: { issuers: { corp: { issuer: "https://idp.example", audience: a, tenant: acme } } }
tenants: { acme: [echo] }
push: { mode: relay, allow: "https://hooks.example", tls: { ca: system } }
agents: { echo: "http://127.0.0.1:1" }
"""
    found = (
        UP,
        Visit("corp", good=False, fact="ConnectError", missed="no keys", to=Visited.ISSUER),
        Visit("redis://127.0.0.1:6379", good=True, fact="can be used", to=Visited.STATE),
        Visit("https://hooks.example", good=False, fact="x", missed="not reached", to=Visited.WEBHOOK),
    )
    review = Review(of(text), found)
    assert review.code == 1
    assert "issuer corp: no keys: ConnectError" in review.as_text()
    told = review.as_json()
    assert told["agents"] == [{"backend": "echo", "ok": True, "message": "JSONRPC 1.0"}]
    assert told["issuers"] == [{"issuer": "corp", "ok": False, "message": "ConnectError"}]
    assert told["state"] == [{"state": "redis://127.0.0.1:6379", "ok": True, "message": "can be used"}]
    assert told["webhooks"] == [{"webhook": "https://hooks.example", "ok": False, "message": "x"}]
    github = review.as_github().splitlines()
    assert [line.partition("::")[2].partition(",col")[0] for line in github if "::error" in line] == [
        "error file=gateway.yaml,line=3",
        "error file=gateway.yaml,line=5",
    ]


def test_programs_hear_of_agents_where_these_were_visited() -> None:
    assert Review(of(GOOD)).as_json() == {"ok": True, "problems": []}
    told = Review(of(BAD), ()).as_json()
    assert (told["ok"], told["problems"][0]["line"], told["agents"]) == (False, 1, [])
    assert Review(of(GOOD), (DOWN,)).as_json()["ok"] is False
