"""Secrets that a file writes out, wherever one can stand; references to them, hashes and plain settings are none."""

from pathlib import Path

import pytest

from gateway.config.check import examine
from gateway.config.problem import spell
from tests.table import for_each

SECRET = "s3cr3t-of-a-test"
ENVIRONMENT = {"REF": SECRET, "PLAIN": "x"}
SCHEME = "https://h.test"


def found(text: str) -> list[tuple[str, int, int, str]]:
    """Return the place of each secret that is written out, with the words about it, which must not repeat it."""
    examined = examine(Path("gateway.yaml"), ENVIRONMENT, text=text, literals=True)
    assert examined.errors == ()
    assert not any(SECRET in problem.as_text() for problem in examined.problems)
    told = [problem for problem in examined.problems if "written out" in problem.fact]
    assert all("${NAME}" in problem.remedy and "${file:PATH}" in problem.remedy for problem in told)
    return [(spell(one.path), one.place.line, one.place.column, one.fact) for one in told]


def agent(keys: str) -> str:
    return f"version: 1\nagents:\n  a: {{ {keys} }}\n"


def gateway(keys: str) -> str:
    return f"version: 1\ngateway: {{ {keys} }}\nagents: {{ a: '{SCHEME}' }}\n"


# SECRET stands for the secret.
PLACES = [
    (gateway("admin: { token: 'SECRET' }"), "gateway.admin.token"),
    (gateway("state: 'redis://:SECRET@h:6379/0'"), "gateway.state"),
    (gateway("state: 'rediss://user:SECRET@h'"), "gateway.state"),
    (gateway("state: 'redis://:SECRET@${PLAIN}:6379/0'"), "gateway.state"),
    (gateway("state: 'unix://:SECRET@/run/redis.sock'"), "gateway.state"),
    (agent(f"backend: '{SCHEME}', upstream_auth: {{ bearer: 'SECRET' }}"), "agents.a.upstream_auth.bearer"),
    (
        agent(f"backend: '{SCHEME}', upstream_auth: {{ header: {{ X-Api-Key: 'SECRET' }} }}"),
        "agents.a.upstream_auth.header.X-Api-Key",
    ),
    (
        agent(f"backend: '{SCHEME}', upstream_auth: {{ header: {{ name: X-Api-Key, value: 'SECRET' }} }}"),
        "agents.a.upstream_auth.header.value",
    ),
    (
        agent(f"by_tenant: {{ t: {{ backend: '{SCHEME}', upstream_auth: {{ bearer: 'SECRET' }} }} }}"),
        "agents.a.by_tenant.t.upstream_auth.bearer",
    ),
    (agent("backend: { stdio: { command: cat, env: { API_KEY: 'SECRET' } } }"), "agents.a.backend.stdio.env.API_KEY"),
    (agent("backend: { stdio: { command: cat, env: { DB_PASS: 'SECRET' } } }"), "agents.a.backend.stdio.env.DB_PASS"),
    (
        agent("backend: { stdio: { command: cat, env: { DB: 'postgres://u:SECRET@h/db' } } }"),
        "agents.a.backend.stdio.env.DB",
    ),
    (agent("backend: [{ stdio: { command: cat, env: { TOKEN: 'SECRET' } } }]"), "agents.a.backend[0].stdio.env.TOKEN"),
    (
        "version: 1\nagents:\n  a: [{ stdio: { command: cat, env: { TOKEN: 'SECRET' } } }]\n",
        "agents.a[0].stdio.env.TOKEN",
    ),
    (agent("backend: { stdio: [cat, --api-key, 'SECRET'] }"), "agents.a.backend.stdio[2]"),
    (agent("backend: { stdio: { command: [cat, '--token=SECRET'] } }"), "agents.a.backend.stdio.command[1]"),
    (agent(f"backend: '{SCHEME}', card: '{SCHEME}/card.json?sig=SECRET'"), "agents.a.card"),
]
DEFAULTS = [
    (gateway("admin: { token: '${UNSET:-SECRET}' }"), "gateway.admin.token"),
    (gateway("state: '${UNSET:-redis://:SECRET@h}'"), "gateway.state"),
]


@for_each(("text", "path"), PLACES + DEFAULTS)
def test_a_literal_secret_is_found_in_every_place(text: str, path: str) -> None:
    [(where, line, column, _)] = found(text.replace("SECRET", SECRET))
    assert where == path
    value = text.splitlines()[line - 1][column - 1 :]
    assert "SECRET" in value.split("'")[1]


@pytest.mark.parametrize("reference", ["${REF}", "${REF:-}", "${file:secret}"])
@pytest.mark.parametrize(("text", "path"), PLACES)
def test_a_reference_to_a_secret_is_none(
    text: str, path: str, reference: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("secret").write_text(SECRET)
    assert found(text.replace("SECRET", reference)) == []


@for_each(
    "text",
    [
        gateway(f"}}\nauth: {{ api_keys: {{ k: {{ sha256: {'a' * 64}, tenant: t }} }} }}\ntenants: {{ t: [a] "),
        gateway("admin: { token: 'of-this-run-${REF}' }"),
        gateway("state: 'redis://h:6379/0'"),
        gateway("state: '${REDIS:-redis://h:6379/0}'"),
        agent("backend: { stdio: { command: cat, env: { MODE: fast, MAX_TOKENS: '4096', TOKEN_FILE: /run/x } } }"),
        agent("backend: { stdio: { command: cat, env: { TOKENIZER: bpe, AWS_ACCESS_KEY_ID: AKIA } } }"),
        agent("backend: { stdio: [cat, --token-file, /run/secret, --api-key, --verbose, --max-tokens, '7'] }"),
        agent(f"backend: '{SCHEME}', upstream_auth: {{ header: {{ Authorization: 'Basic ${{REF}}' }} }}"),
        agent(f"backend: '{SCHEME}', card: '{SCHEME}/card.json?version=2'"),
    ],
)
def test_values_that_are_no_secrets_are_not_reported(text: str) -> None:
    assert found(text) == []


def test_secrets_of_included_files_are_found_at_their_place(tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text(agent(f"backend: '{SCHEME}', upstream_auth: {{ bearer: {SECRET} }}"))
    (tmp_path / "gateway.yaml").write_text("version: 1\ninclude: more.yaml\n")
    [problem] = examine(tmp_path / "gateway.yaml", {}, literals=True).problems
    assert (problem.place.file, problem.place.line) == (str(tmp_path / "more.yaml"), 3)
