"""`diff` tells differences key by key, and never a secret."""

from pathlib import Path

from gateway.config.check import examine
from gateway.config.diff import changes
from gateway.config.model import Config
from tests.table import for_each


def config(text: str) -> Config:
    examined = examine(Path("gateway.yaml"), {}, text="version: 1\n" + text)
    assert examined.config is not None, examined.errors
    return examined.config


ONE = "agents:\n  one: http://127.0.0.1:1\n"
REPLICAS = """\
agents:
  one: { backend: ['http://127.0.0.1:1', { url: 'http://127.0.0.1:2', weight: 5, label: canary }] }
"""
NEXT = '~ agents.one.backend[1].url: "http://127.0.0.1:2" → "http://127.0.0.1:3"'
KEY = "auth: {{ api_keys: {{ k: {{ sha256: {}, tenant: acme }} }} }}\ntenants: {{ acme: [one] }}\n"


@for_each(
    ("old", "new", "told"),
    [
        (ONE, ONE, []),
        (ONE, "agents: { one: { backend: 'http://127.0.0.1:1' } }", []),
        (ONE, ONE + "  two: http://127.0.0.1:2\n", ["+ agents.two"]),
        (ONE + "  two: http://127.0.0.1:2\n", ONE, ["- agents.two"]),
        (ONE, ONE.replace(":1\n", ":2\n"), ['~ agents.one.backend.url: "http://127.0.0.1:1" → "http://127.0.0.1:2"']),
        (REPLICAS, REPLICAS.replace("5,", "20,"), ["~ agents.one.backend[1].weight: 5 → 20"]),
        (REPLICAS, REPLICAS.replace("url: 'http://127.0.0.1:2'", "url: 'http://127.0.0.1:3'"), [NEXT]),
        (
            REPLICAS,
            "agents: { one: { backend: ['http://127.0.0.1:3', 'http://127.0.0.1:1'] } }",
            ['+ agents.one.backend[0]: "127.0.0.1:3"', '- agents.one.backend[1]: "canary"'],
        ),
        (ONE, ONE + "gateway: { body_limit: 5 }", ["~ gateway.body_limit: 10485760 → 5"]),
        (KEY.format("a" * 64) + ONE, KEY.format("b" * 64) + ONE, ["~ auth.api_keys.k.sha256"]),
        (ONE, KEY.format("a" * 64) + ONE, ["+ auth", "+ tenants.acme"]),
        (
            ONE + "gateway: { state: 'redis://:one@h/0' }",
            ONE + "gateway: { state: 'redis://:two@h/0' }",
            ["~ gateway.state"],
        ),
    ],
)
def test_each_key_that_means_something_else_is_told(old: str, new: str, told: list[str]) -> None:
    assert [str(change) for change in changes(config(old), config(new))] == told


TESTS = """\
agents: { one: http://127.0.0.1:1, two: http://127.0.0.1:2 }
tests:
  - { name: all that is posted to the path of the first agent reaches the first agent, request: /one, expect: one }
  - { name: all that is posted to the path of the second agent reaches it, request: /two, expect: two }
"""
THIRD = "  - { name: a third, request: /x, expect: { reason: no_route } }\n"
MATCH = "agents: {{ one: {{ backend: 'http://127.0.0.1:1', match: [{}] }} }}"


@for_each(
    ("old", "new", "told"),
    [
        (TESTS, TESTS.replace("expect: two", "expect: one"), ['~ tests[1].expect.agent: "two" → "one"']),
        (TESTS, TESTS + THIRD, ['+ tests[2]: {"name":"a third","request":{"method":"POST","path":"/x","t…']),
        (
            TESTS,
            TESTS.replace("reaches the first", "reaches the 1st"),
            ['~ tests[0].name: … agent reaches the first agent" → … agent reaches the 1st agent"'],
        ),
        (
            MATCH.format("{ path: /a }, { path: /b }"),
            MATCH.format("{ path: /c }, { path: /a }, { path: /b, tenant: x }"),
            ['+ agents.one.match[0]: {"path":"/c"}', '+ agents.one.match[2].tenant: "x"'],
        ),
        (
            MATCH.format("{ path: /a }, { path: /b }"),
            MATCH.format("{ path: /b }"),
            ['- agents.one.match[0]: {"path":"/a"}'],
        ),
    ],
)
def test_differences_of_lists_are_told_by_entry(old: str, new: str, told: list[str]) -> None:
    assert [str(change) for change in changes(config(old), config(new))] == told


@for_each("number", [0, 19, 39, 40, 41, 60, 99])
def test_cut_values_include_their_difference(number: int) -> None:
    origins = [f"https://{each:03}.example" for each in range(100)]
    other = [*origins[:number], "https://x.example", *origins[number + 1 :]]
    old, new = (config(ONE + f"gateway: {{ cors: {{ origins: {each} }} }}") for each in (origins, other))
    [change] = changes(old, new)
    assert change.old != change.new
    assert max(len(change.old), len(change.new)) <= 60


def test_no_secret_is_told() -> None:
    bearer = "agents: {{ one: {{ backend: 'http://127.0.0.1:1', upstream_auth: {{ bearer: {} }} }} }}"
    old, new = config(bearer.format("first-secret")), config(bearer.format("second-secret"))
    [change] = changes(old, new)
    assert change.as_json() == {"change": "changed", "path": "agents.one.upstream_auth.bearer", "old": "", "new": ""}
