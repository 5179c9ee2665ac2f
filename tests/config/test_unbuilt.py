import pytest

from gateway.config.unbuilt import UNBUILT
from tests.config.reading import errors, examined


@pytest.mark.parametrize("path", list(UNBUILT), ids=".".join)
def test_a_key_that_is_not_built_is_refused_with_that_reason(path: tuple[str, ...]) -> None:
    text = "{ x: 1 }"
    for number, step in reversed(list(enumerate(path))):
        is_index = step == "*" and path[number - 1] == "match"
        text = f"[{text}]" if is_index else f"{{ {step.replace('*', 'a')}: {text} }}"
    found = [one.fact for one in examined(f"version: 1\n{text[1:-1].strip()}\n").errors]
    told = [fact for fact in found if "not available yet" in fact]
    assert len(told) == 1
    assert UNBUILT[path] in told[0]


@pytest.mark.parametrize(
    ("text", "path", "fact"),
    [
        (
            "a: { backend: http://127.0.0.1:1, upstream_auth: { oauth2: {} } }",
            "agents.a.upstream_auth.oauth2",
            "`oauth2` is not available yet: it belongs to OAuth2 client credentials",
        ),
    ],
)
def test_a_value_that_is_not_built_is_refused_with_that_reason(text: str, path: str, fact: str) -> None:
    assert errors(f"version: 1\nagents: {{ {text} }}\n") == [(path, fact)]
