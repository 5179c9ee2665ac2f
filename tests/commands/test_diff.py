"""`diff` tells the changes of another file before it is used."""

from pathlib import Path

from gateway.commands.diff import compare
from gateway.config.check import examine
from gateway.config.load import Examined

AUTH = f"auth: {{ api_keys: {{ k: {{ sha256: {'a' * 64}, tenant: acme }} }} }}\n"
OLD = AUTH + "tenants: { acme: [one], '*': [one] }\nagents: { one: 'http://127.0.0.1:1', two: 'http://127.0.0.1:2' }\n"
NEW = """\
tenants: { acme: [two], '*': [one], globex: [] }
gateway: { listen: "127.0.0.1:1" }
agents: { one: 'http://127.0.0.1:1', two: 'http://127.0.0.1:3' }
"""


def examined(text: str, name: str = "gateway.yaml") -> Examined:
    return examine(Path(name), {}, text="version: 1\n" + text)


def test_keys_reach_and_what_needs_a_restart_are_told() -> None:
    found = compare(examined(OLD), examined(AUTH + NEW, "new.yaml"))
    assert found.as_text().splitlines() == [
        '~ gateway.listen: ["127.0.0.1:8080"] → ["127.0.0.1:1"]',
        '~ tenants.acme.agents: ["one"] → ["two"]',
        "+ tenants.globex",
        '~ agents.two.backend.url: "http://127.0.0.1:2" → "http://127.0.0.1:3"',
        "",
        "tenant acme gains two and loses one",
        "tenant globex loses one",
        "",
        "new.yaml:4:20  gateway.listen takes effect with the next start: the socket is bound",
    ]
    assert found.as_json()["tenants"] == [
        {"tenant": "acme", "gains": ["two"], "loses": ["one"]},
        {"tenant": "globex", "gains": [], "loses": ["one"]},
    ]


def test_equal_configurations_do_not_differ() -> None:
    assert compare(examined(OLD), examined(OLD + "# as before\n")).as_text() == "Nothing differs."
