import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.config.check import examine
from gateway.config.load import load
from tests.config.broken import BROKEN
from tests.config.reading import HASH, TODAY, examined, warnings

SECRETS = ("hunter2", HASH)


def test_a_broken_file_is_refused_at_its_place_with_a_remedy_and_without_secrets(tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[]")
    (tmp_path / "folder").mkdir()
    path = tmp_path / "gateway.yaml"
    for expected, text in BROKEN:
        found = examine(path, {}, text=text.encode(), today=TODAY)
        first = found.errors[0]
        assert f"{first.place.exact} {first.fact}" == f"{path}:{expected}"
        assert all(problem.remedy for problem in found.problems), text
        assert found.config is None
        told = "\n".join(
            words
            for problem in found.problems
            for words in (problem.as_text(), problem.as_github(), str(problem.as_json()))
        )
        assert not any(secret in told for secret in SECRETS)
        assert not any(
            word in told.lower() for word in ("pydantic", "input should", "traceback", "further information")
        )


def test_each_pass_reports_all_of_its_mistakes_by_place_and_the_next_one_needs_it_clean() -> None:
    text = """\
        version: 1
        gateway: { listn: 127.0.0.1:8080 }
        agents:
          one: ftp://127.0.0.1:1
          two:
            backend: http://127.0.0.1:2
            timeouts: { send: 10 }
          three: { backend: "${THREE}" }
          no: http://127.0.0.1:4
          four: { backend: http://127.0.0.1:5, methods: [] }
        """

    def told(text: str) -> list[tuple[int, int]]:
        return [(one.place.line, one.place.column) for one in examined(text).problems]

    assert told(text) == [(8, 21), (9, 3)]
    text = text.replace('"${THREE}"', "http://127.0.0.1:3").replace("no:", "'no':")
    assert told(text) == [(2, 12), (7, 23)]
    text = text.replace("listn", "listen").replace("send: 10", "send: 10s")
    assert told(text) == [(4, 8), (10, 49)]


@pytest.mark.parametrize(
    ("text", "place"),
    [("version: 1\n", "1:1"), ("version: 1\nagents: {}\n", "2:9"), ("version: 1\ninclude: more.yaml\n", "1:1")],
)
def test_a_file_without_agents_is_an_error(tmp_path: Path, text: str, place: str) -> None:
    (tmp_path / "more.yaml").write_text("version: 1\nagents: {}\n")
    (tmp_path / "gateway.yaml").write_text(text)
    for found in (
        examine(tmp_path / "gateway.yaml", {}),
        examine(tmp_path / "gateway.yaml", {}, text=text.encode()),
    ):
        [problem] = found.errors
        assert (problem.fact, f"{problem.place.line}:{problem.place.column}") == ("there is no agent", place)
        assert found.config is None


def test_a_generated_file_may_have_no_agents() -> None:
    assert warnings("version: 1\n") == [("", "there is no agent")]


def test_the_hash_changes_with_every_file_read(tmp_path: Path) -> None:
    main, secret = tmp_path / "gateway.yaml", tmp_path / "token"
    text = (
        'version: 1\nagents: { echo: { backend: "http://127.0.0.1:1", upstream_auth: { bearer: "${file:token}" } } }\n'
    )
    main.write_text(text)
    secret.write_text("one\n")
    first = examine(main, {})
    secret.write_text("two\n")
    second = examine(main, {})
    assert first.config is not None
    assert first.files == (main, secret)
    assert first.text_hash != second.text_hash


def test_a_missing_file_is_a_problem_and_no_exception(tmp_path: Path) -> None:
    assert [problem.fact for problem in examine(tmp_path / "none.yaml", {}).problems] == ["there is no such file"]
    assert [problem.fact for problem in examine(tmp_path, {}).problems] == ["this is a folder, not a file"]


WORDS = st.sampled_from(
    """version: 1|agents:|  a:|    backend: http://127.0.0.1:1|auth:|tenants:|no|~|- x|{|}|[|]|&a|*a|!!int|${A}|${|<<:
'|"|>|? |: |#|\t|010|tests:|  - {name: x, request: /, expect: a}|include: 'x*'|match: {}|gateway:|  listen: 0.0.0.0:1
\x00|\u2028|    card: {set: {a: ~}}|    by_tenant: {b: http://127.0.0.1:1}""".replace("\n", "|").split("|")
)


@given(st.one_of(st.text(max_size=200), st.lists(WORDS, max_size=12).map("\n".join), st.lists(WORDS).map(" ".join)))
def test_no_text_is_too_odd_to_be_examined(text: str) -> None:
    found = examine(Path("gateway.yaml"), {"A": "x"}, text=text, today=TODAY)
    assert (found.config is None) == bool(found.errors)
    for problem in found.problems:
        assert "\n" not in problem.fact
        problem.as_text()


@given(st.binary(max_size=120))
def test_no_bytes_are_too_odd_to_be_loaded(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "odd.yaml"
    path.write_bytes(data)
    load(path, {})


KEYS = st.sampled_from(
    [
        *(
            "backend",
            "url",
            "match",
            "path",
            "tenant",
            "key",
            "claim",
            "host",
            "by_tenant",
            "card",
            "set",
            "acme",
            "echo",
        ),
        *("agents", "allow", "bearer", "header", "upstream_auth", "sha256", "name", "request", "expect", "stdio"),
        *("command", "env", "env_from", "cwd", "uid", "processes", "framing", "memory", "per_tenant"),
        *("methods", "issuers", "corp", "api_keys", "timeouts", "send", "isolation"),
        *("state", "replicas", "ledger", "limits", "requests", "queue", "identity_headers", "unknown_tasks", "audit"),
        *("mode", "allow", "deliver", "longest_pause", "file"),
    ]
)
PLAIN = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8)
VALUES = st.recursive(
    PLAIN | st.just("http://127.0.0.1:1"),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(KEYS, below, max_size=4),
    max_leaves=12,
)


@given(
    st.dictionaries(
        st.sampled_from(["gateway", "auth", "tenants", "defaults", "agents", "tests", "observe", "push"]), VALUES
    )
)
def test_no_shape_is_too_odd_to_be_examined(tree: dict[str, object]) -> None:
    text = json.dumps({"version": 1, **tree}, ensure_ascii=False)
    found = examine(Path("gateway.yaml"), {}, text=text, today=TODAY)
    assert (found.config is None) == bool(found.errors)
