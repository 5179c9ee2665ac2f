from gateway.config.problem import nearest
from tests.config.reading import examined
from tests.table import for_each


@for_each(
    ("text", "fact", "remedy"),
    [
        ("gateway: { listn: x }", "unknown key 'listn'", "did you mean 'listen'?"),
        ("observe: { log: { zzz: 1 } }", "unknown key 'zzz'", "keys here are: format, level, payloads"),
        ("gateway: text", "'text' is no mapping", "write a mapping with the keys "),
        ("gateway: { public_url: 5 }", "5 is no text", 'quote it: "5"'),
        ("gateway: { public_url: [x] }", "a list is no text", "write one text (The URL that cards"),
        ("gateway: { anonymous: 1 }", "1 is neither true nor false", "write true or false"),
        ("gateway: { anonymous: '${YES}' }", "'${YES}' is neither true nor false", "write true or false"),
        ("observe: { metrics: { max_tenants: -1 } }", "-1 is no whole number", "write digits"),
        ("observe: { log: { level: warn } }",
         "'warn' is none of: debug, info, warning, error", "did you mean 'warning'?"),
        ("observe: { log: { payloads: true } }", "true is not false", "write false"),
        ("tests: { name: x }", "a mapping is no list", "write [one, two]"),
        ("tests: [{ name: x, request: /x }]", "`expect` is missing", "add `expect:` (The expected result)"),
        ("agents: { a: { backend: 'http://127.0.0.1:1', methods: [send_message] } }",
         "'send_message' is no operation", "did you mean 'SendMessage'?"),
        ("agents: { a: { backend: 'http://127.0.0.1:1', match: { claim: { a: 1.5 } } } }",
         "1.5 is nothing that a claim is compared with", "write a text"),
    ],
)  # fmt: skip
def test_errors_of_the_model_are_told_in_the_operators_words(text: str, fact: str, remedy: str) -> None:
    found = examined(f"version: 1\n{text}\n", {"YES": "yes"}).errors
    assert fact in [problem.fact for problem in found]
    assert any(problem.remedy.startswith(remedy) for problem in found)


@for_each(
    ("algorithm", "remedy"),
    [
        ("HS256", "it signs with a shared secret"),
        ("HS384", "it signs with a shared secret"),
        ("hs512", "it signs with a shared secret"),
        ("none", "such tokens are not signed"),
        ("None", "such tokens are not signed"),
        ("RS1", "its hash is broken"),
        ("ES256K", "it is not supported"),
        ("Ed25519", "it is called EdDSA here"),
        ("RSA-OAEP-256", "it encrypts and does not sign"),
        ("A256GCM", "it encrypts and does not sign"),
        ("dir", "it encrypts and does not sign"),
        ("RS257", "did you mean 'RS256'?"),
        ("es256", "did you mean 'ES256'?"),
        ("DES", "write one of: RS256, "),
        ("5", "write one of: RS256, "),
    ],
)
def test_an_algorithm_is_refused_with_its_reason_and_a_misspelt_one_with_its_name(algorithm: str, remedy: str) -> None:
    issuer = f"{{ issuer: 'https://a.test', audience: a, tenant: t, algorithms: [RS256, {algorithm}] }}"
    auth = f"auth: {{ issuers: {{ corp: {issuer} }} }}\ntenants: {{ t: [a] }}"
    text = f"version: 1\n{auth}\nagents: {{ a: 'http://[::1]:1' }}\n"
    [problem] = examined(text).errors
    assert problem.path == ("auth", "issuers", "corp", "algorithms", 1)
    assert problem.remedy.startswith(remedy)


def test_a_flag_and_a_number_may_come_by_a_reference() -> None:
    text = "version: 1\ngateway: { anonymous: '${YES}' }\nobserve: { metrics: { max_tenants: '${MANY}' } }\n"
    config = examined(text, {"YES": "true", "MANY": "7"}).config
    assert config is not None
    assert (config.gateway.anonymous, config.observe.metrics.max_tenants) == (True, 7)


def test_suggestions_ignore_case() -> None:
    assert nearest("BILLING", ["billing", "support"]) == "did you mean 'billing'?"
    assert nearest("x", ["billing", "support"]) == ""
