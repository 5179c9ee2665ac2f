from gateway.config.model import REMOVED
from tests.config.reading import errors, examined
from tests.table import for_each


@for_each("pattern", REMOVED)
def test_a_key_that_is_gone_or_not_built_is_refused_with_the_reason_and_the_remedy(pattern: str) -> None:
    path = pattern.split(".")
    text = "{ x: 1 }"
    for step in reversed(path):
        text = f"{{ {step.replace('*', 'a')}: {text} }}"
    found = examined(f"version: 1\n{text[1:-1].strip()}\n").errors
    told = REMOVED[pattern]
    assert [one.remedy for one in found if one.fact == told.fact] == [told.remedy]


def test_a_key_of_a_tenants_own_backend_is_refused_likewise() -> None:
    own = "{ backend: http://127.0.0.1:1, upstream_auth: { token_exchange: {} } }"
    fact = "the key is called `exchange`"
    text = f"version: 1\nagents: {{ a: {own}, b: {{ by_tenant: {{ acme: {own} }} }} }}\n"
    assert errors(text) == [
        ("agents.a.upstream_auth.token_exchange", fact),
        ("agents.b.by_tenant.acme.upstream_auth.token_exchange", fact),
    ]
