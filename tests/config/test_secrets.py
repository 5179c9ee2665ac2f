from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.config.secrets import Interpolation, Masks, Span, guess, is_reference, is_secret, is_unknown, quote
from tests.config.reading import examined
from tests.table import for_each

SECRET = "hunter2" * 10
TEXT = f"""\
version: 1
gateway:
  admin: {{ listen: 127.0.0.1:9090, token: {SECRET} }}
  state: redis://user:{SECRET}@redis:6379/0
auth:
  api_keys:
    bot:
      sha256: ["{SECRET}"]
      tenant: acme
      pasted: {SECRET}
tenants:
  acme: [echo]
agents:
  echo:
    backend: http://127.0.0.1:9001
    upstream_auth:
      header:
        X-Key: {SECRET}
  other:
    backend: http://127.0.0.1:9002
    upstream_auth: {{ bearer: "{SECRET}", header: {{ X-Key: '{SECRET}' }} }}
"""


def told(text: str) -> str:
    return "\n".join(
        words for one in examined(text).problems for words in (one.as_text(), one.as_github(), str(one.as_json()))
    )


def test_values_of_variables_are_filled_in() -> None:
    filling = Interpolation({"HOST": "example.com", "EMPTY": ""})
    assert filling.fill("https://${HOST}/${PATH:-a}/${EMPTY:-b}/${EMPTY}$${HOST}$HOST", Path()) == (
        "https://example.com/a/b/${HOST}$HOST",
        [],
    )


@for_each(
    ("text", "fact"),
    [
        ("${NONE}", "the environment variable NONE is not set"),
        ("${A:-${B}}", "a ${ has no }"),
        ("${1}", "${1} is no reference"),
        ("${A:x}", "${A:x} is no reference"),
        ("${}", "${} is no reference"),
        ("${file:}", "'' is no file"),
    ],
)
def test_a_reference_that_cannot_be_filled_in_is_a_fact_with_a_remedy(text: str, fact: str) -> None:
    _, faults = Interpolation({"B": "b"}).fill(text, Path())
    assert faults[0][0] == fact
    assert faults[0][1]


def test_a_file_gives_its_content_without_the_line_end(tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(b"abc def\r\n\n")
    filling = Interpolation({})
    assert filling.fill("<${file:token}>", tmp_path) == ("<abc def>", [])
    assert list(filling.files) == [tmp_path / "token"]


def test_a_file_that_holds_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff")
    (tmp_path / "large").write_bytes(b"a" * (256 * 1024 + 1))
    facts = [Interpolation({}).fill(f"${{file:{name}}}", tmp_path)[1][0][0] for name in ("binary", "large")]
    assert facts == ["'binary' is not UTF-8", "'large' is larger than 256 KiB"]


@for_each(
    "path",
    [
        ("auth", "api_keys", "bot", "sha256", 0),
        ("auth", "api_keys", "bot", "anything"),
        ("auth", "api_keys"),
        ("gateway", "admin", "token"),
        ("agents", "echo", "upstream_auth", "bearer"),
        ("agents", "echo", "by_tenant", "acme", "upstream_auth", "header", "X"),
        ("agents", "echo", "password"),
        ("push", "client_secret"),
        ("gateway", "state"),
        ("gateway", "state", 0, "url"),
    ],
)
def test_a_credential_is_known_by_its_path(path: tuple[str | int, ...]) -> None:
    assert is_secret(path)


@for_each(
    "path",
    [
        (),
        ("auth", "api_keys", "bot", "tenant"),
        ("auth", "issuers", "corp", "tenant_claim"),
        ("agents", "token-service", "backend"),
        ("agents", "echo", "by_tenant", "secret", "backend"),
        ("agents", "echo", "match", 0, "claim", "token_use"),
        ("agents", "echo", "match", 0, "key"),
        ("agents", "echo", "upstream_auth", "oauth2", "client_id"),
        ("agents", "echo", "upstream_auth", "exchange", "resource", 0),
        ("agents", "echo", "by_tenant", "acme", "upstream_auth", "exchange", "tls", "ca"),
    ],
)
def test_names_that_operators_give_make_no_secret(path: tuple[str | int, ...]) -> None:
    assert not is_secret(path)


def test_some_places_hold_a_password_only_at_times() -> None:
    assert not is_secret(("gateway", "state"), "sqlite:///var/lib/state.db")
    assert not is_secret(("gateway", "state"), "redis://redis:6379")
    assert is_secret(("gateway", "state"), "redis://user:pw@redis:6379")
    assert is_secret(("gateway", "state"), "pw")
    assert is_secret(("gateway", "admin", "token"), "memory")


def test_a_reference_alone_may_be_shown_and_a_default_may_not() -> None:
    assert is_reference("${TOKEN}")
    assert is_reference("${file:/run/secrets/token}")
    assert not is_reference("${TOKEN:-hunter2}")
    assert not is_reference("x${TOKEN}")


def test_a_message_shows_the_reference_and_not_its_value() -> None:
    masks = Masks({"value": "${VAR}"}, {"s3cret": "***", "s3cret-longer": "${TOKEN}"})
    assert masks.clean("'value' is no value") == "'${VAR}' is no value"
    assert masks.clean("s3cret-longer, s3cret, http://u:p@host") == "${TOKEN}, ***, http://***@host"


def test_a_masked_line_keeps_the_caret_where_it_points() -> None:
    line = "a: { token: abcdefgh, x: 1 }"
    text, caret = quote(line, line.index("x:") + 1, [Span(1, 13, 21)])
    assert text == "a: { token: ***, x: 1 }"
    assert text[caret - 1 :].startswith("x:")
    assert quote(line, 15, [Span(1, 13, 21)])[1] == 13


def test_a_line_that_is_no_yaml_is_masked_by_the_names_around_it() -> None:
    lines = ["auth:", "  api_keys:", "    bot:", "      sha256: abc", "      pasted: abc: def", "      more"]
    assert [guess(lines, number) != [] for number in range(1, 7)] == [False, False, False, True, True, True]


def test_a_password_in_a_url_is_never_told() -> None:
    text = f"version: 1\nagents:\n  echo: 'http://user:{SECRET}@127.0.0.1:1'\n  other: [https://{SECRET}@127.0.0.1\n"
    assert "hunter2" not in told(text)
    assert "hunter2" not in told(text.replace("[", ""))


def test_a_value_below_a_key_that_nobody_knows_is_not_told() -> None:
    assert is_unknown(("gateway", "admin", "tokn"))
    assert is_unknown(("agents", "echo", "upstrem_auth", "bearer"))
    assert not is_unknown(("agents", "echo", "card", "set", "anything", "below"))
    assert not is_unknown(("auth", "api_keys", "bot", "tenant"))
    assert not is_unknown(("auth", "issuers", "corp", "audience"))
    assert is_unknown(("auth", "issuers", "corp", "tokn"))
    assert not is_unknown(("agents", "echo", "limits", "requests"))
    assert "hunter2" not in told(TEXT.replace("token:", "tokn:"))


def test_no_secret_is_told_of_a_file_that_can_be_read() -> None:
    assert "hunter2" not in told(TEXT)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    st.integers(0, len(TEXT) - 1),
    st.integers(0, 2),
    st.sampled_from(["", ":", '"', "'", "{", "}", "[", "\t", " ", "&", "*", "@", "\x07", "- ", "#", "${"]),
)
@example(TEXT.index("sha256"), 0, "\t")
def test_no_secret_is_told_of_a_file_that_is_broken_anywhere(at: int, cut: int, put: str) -> None:
    assert "hunter2" not in told(TEXT[:at] + put + TEXT[at + cut :])
