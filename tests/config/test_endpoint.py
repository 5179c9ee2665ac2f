from tests.config.reading import HASH, errors, warnings
from tests.table import for_each

AUTH = f"auth: {{ api_keys: {{ bot: {{ sha256: {HASH}, tenant: t }} }} }}\ntenants: {{ t: '*' }}\n"


def agents(*matches: str, head: str = "") -> str:
    lines = [
        f"  a{number}: {{ backend: http://127.0.0.1:{number + 1}, {one} }}\n" for number, one in enumerate(matches)
    ]
    return f"version: 1\n{head}agents:\n{''.join(lines)}"


@for_each("path", ["/", "/a", "/a/b.c", "/A_b~c-d/1"])
def test_a_path_of_whole_segments_is_taken(path: str) -> None:
    assert errors(agents(f"match: {{ path: {path} }}")) == []


@for_each(
    ("path", "fact"),
    [
        ("a", "'a' does not start with a slash"),
        ("/a/", "'/a/' ends with a slash"),
        ("//", "'//' ends with a slash"),
        ("/a//b", "'/a//b' has an empty segment"),
        ("/a/./b", "'/a/./b' has a dot segment"),
        ("/-/live", "'/-/live' has the segment '-', which is the protocol's own"),
        ("/a/v1", "'/a/v1' has the segment 'v1', which is the protocol's own"),
        ("/tasks", "'/tasks' has the segment 'tasks', which is the protocol's own"),
        ("/message:send", "'/message:send' has the segment 'message:send', which is the protocol's own"),
        ("/a%20b", "'/a%20b' has a segment with other characters"),
        ("/a b", "'/a b' has a segment with other characters"),
        ("/ä", "'/ä' has a segment with other characters"),
    ],
)
def test_any_other_path_is_refused(path: str, fact: str) -> None:
    assert errors(agents(f'match: {{ path: "{path}" }}')) == [("agents.a0.match.path", fact)]


@for_each("host", ["a", "a.example.com", "*.example.com", "10.0.0.1", "a-b_c.x"])
def test_a_host_in_lower_case_is_taken(host: str) -> None:
    assert errors(agents(f'match: {{ host: "{host}" }}')) == []


@for_each("host", ["", "A.example", "a:80", "*", "*.", "a.*", "a..b", ".a", "a.", "-a", "http://a", "[::1]"])
def test_any_other_host_is_refused(host: str) -> None:
    assert errors(agents(f'match: {{ host: "{host}" }}')) == [("agents.a0.match.host", f"{host!r} is no host")]


def test_a_match_says_something() -> None:
    assert errors(agents("match: [{}]", "match: []", "match: { path: /c, claim: {} }")) == [
        ("agents.a0.match[0]", "the match is empty"),
        ("agents.a1.match", "there is no match in the list"),
        ("agents.a2.match.claim", "there is no claim"),
    ]


def test_order_and_spelling_do_not_make_two_matches_differ() -> None:
    head = AUTH
    one, other = "match: { claim: { x: 1, z: a }, path: /p }", "match: [{ path: /p, claim: { z: a, x: 1 } }]"
    assert errors(agents(one, other, head=head)) == [
        ("agents.a1.match[0]", "'/p' with the same keys is also what 'a0' matches (line 5)")
    ]


@for_each(
    ("one", "other"),
    [
        ("{ path: /p }", "{ path: /p, tenant: x }"),
        ("{ path: /p, tenant: z }", "{ path: /p, tenant: x }"),
        ("{ path: /p, claim: { x: 1 } }", "{ path: /p, claim: { x: true } }"),
        ("{ path: /p, claim: { x: 1 } }", '{ path: /p, claim: { x: "1" } }'),
        ("{ path: /p, host: x.y }", "{ path: /p, host: '*.y' }"),
        ("{ path: /p, key: bot }", "{ path: /p }"),
        # A path of a tenant on another host is another path, and a tenant that no path can say has none.
        ("{ path: /a, tenant: x, host: a.example }", "{ path: /a/x, host: b.example }"),
        ("{ path: /a, tenant: x, host: a.example }", "{ path: /a/x/y }"),
        ("{ path: /a2a, tenant: ~x }", "{ path: /a2a/~x }"),
        ("{ path: /a2a, tenant: x/y }", "{ path: /a2a/x/y }"),
    ],
)
def test_matches_that_differ_in_a_key_stand_side_by_side(one: str, other: str) -> None:
    assert errors(agents(f"match: {one}", f"match: {other}", head=AUTH)) == []


@for_each(
    ("one", "other"),
    [
        ("{ path: /a2a, tenant: x }", "{ path: /a2a/x }"),
        ("{ tenant: x }", "{ path: /x }"),
        ("{ path: /a2a, tenant: x }", "{ path: /a2a/x, host: h.example }"),
        ("{ path: /a2a, tenant: x, host: '*.example' }", "{ path: /a2a/x, host: h.example }"),
    ],
)
def test_a_path_is_not_also_that_of_a_tenant(one: str, other: str) -> None:
    ((path, fact),) = errors(agents(f"match: {one}", f"match: {other}"))
    assert path == "agents.a1.match.path"
    assert "is also the path of tenant 'x' of 'a0' (line 3)" in fact


def test_an_agent_that_keeps_any_tenant_has_a_path_of_its_own() -> None:
    ((path, fact),) = warnings(agents("match: { path: / }, upstream_tenant: keep", "visibility: listed"))
    assert path == "agents.a0.match"
    assert "(a1)" in fact


def test_a_match_for_a_tenant_without_a_backend_is_in_vain() -> None:
    match = "match: [{ path: /a, tenant: x }, { path: /b }]"
    text = f"version: 1\nagents: {{ crm: {{ {match}, by_tenant: {{ z: http://127.0.0.1:1 }} }} }}\n"
    assert errors(text) == [("agents.crm.match[0].tenant", "the match can never answer: `by_tenant` has no 'x'")]


def test_a_key_and_a_claim_never_come_together() -> None:
    ((path, fact),) = warnings(agents("match: { path: /a, key: bot, claim: { x: z } }", head=AUTH))
    assert path == "agents.a0.match"
    assert "two credentials" in fact
