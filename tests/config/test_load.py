from pathlib import Path

import pytest

from gateway.config.load import load
from gateway.config.problem import spell


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "gateway.yaml"


def told(path: Path) -> list[tuple[str, int, str, str]]:
    return [(Path(one.place.file).name, one.place.line, spell(one.path), one.fact) for one in load(path, {}).problems]


def test_agents_of_included_files_stand_beside_the_others(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        gateway="version: 1\ninclude: teams/*.yaml\nagents: { a: http://127.0.0.1:1 }\n",
        teams__b="agents:\n  b: http://127.0.0.1:2\n",
        teams__c="version: 1\nagents:\n  c: { backend: http://127.0.0.1:3 }\n",
    )
    loaded = load(path, {})
    assert loaded.config is not None
    assert list(loaded.config.agents) == ["a", "b", "c"]
    assert loaded.files == (path, tmp_path / "teams/b.yaml", tmp_path / "teams/c.yaml")
    place = loaded.marks.place(("agents", "c", "backend"))
    assert (Path(place.file).name, place.line) == ("c.yaml", 3)


def test_an_agent_in_two_files_is_told_with_both_places(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        gateway="version: 1\ninclude: [b.yaml]\nagents:\n  a: http://127.0.0.1:1\n",
        b="agents:\n  a: http://127.0.0.1:2\n",
    )
    assert told(path) == [("b.yaml", 2, "agents.a", f"'a' is already an agent at {path}:4")]


def test_a_problem_of_an_included_file_names_that_file_and_quotes_its_line(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        gateway="version: 1\ninclude: [b.yaml, c.yaml]\n",
        b="agents:\n  a: { backend: http://127.0.0.1:2, colour: red }\n",
        c="agents: { c: { backend: http://127.0.0.1:3, color: red } }\n",
    )
    problems = load(path, {}).problems
    assert [(Path(one.place.file).name, one.place.line) for one in problems] == [("b.yaml", 2), ("c.yaml", 1)]
    assert problems[0].quote == "  a: { backend: http://127.0.0.1:2, colour: *** }"


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("include: x.yaml\n", "an included file includes no other"),
        ("gateway: {}\n", "`gateway` stands in an included file"),
        ("version: 2\n", "this version of the format is not known"),
        ("version: 1.0\n", "this version of the format is not known"),
        ("version: true\n", "this version of the format is not known"),
        ("agents: [a]\n", "the agents are no mapping"),
        ("", "the file is empty"),
    ],
)
def test_an_included_file_has_agents_only(tmp_path: Path, text: str, fact: str) -> None:
    path = written(tmp_path, gateway="version: 1\ninclude: b.yaml\n", b=text)
    assert [one[3] for one in told(path)] == [fact]


def test_a_file_does_not_include_itself(tmp_path: Path) -> None:
    path = written(tmp_path, gateway="version: 1\ninclude: '*.yaml'\n", b="agents: { b: http://127.0.0.1:2 }\n")
    assert [one[3] for one in told(path)] == ["'*.yaml' matches this file itself"]


def test_a_pattern_that_matches_nothing_is_told(tmp_path: Path) -> None:
    path = written(tmp_path, gateway='version: 1\ninclude: ["none/*.yaml", "a\\0b", "${NONE}"]\n')
    facts = [one[3] for one in told(path)]
    assert facts[0] == "'none/*.yaml' matches no file"
    assert facts[2] == "the environment variable NONE is not set"
    assert len(facts) == 3


def test_references_of_an_included_file_are_relative_to_it(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        gateway="version: 1\ninclude: teams/b.yaml\n",
        teams__b='agents: { b: "${file:url}" }\n',
    )
    (tmp_path / "teams/url").write_text("http://127.0.0.1:2\n")
    loaded = load(path, {})
    assert loaded.config is not None
    assert [one.url for one in loaded.config.agents["b"].backend] == ["http://127.0.0.1:2"]


def test_consequences_of_a_mistake_are_not_reported(tmp_path: Path) -> None:
    text = (
        "version: 1\nagents:\n  a: { backend: { url: *x } }\n  b: { backend: { url: } }\n  c: { backend: { url: 7 } }\n"
    )
    assert [one[3] for one in told(written(tmp_path, gateway=text))] == ["*x is an alias"]
    assert [one[3] for one in told(written(tmp_path, gateway=text.replace("*x", "http://127.0.0.1:1")))] == [
        "there is no value",
        "7 is no text",
    ]


def test_a_card_may_have_null_and_nothing_else_may(tmp_path: Path) -> None:
    text = (
        "version: 1\nagents:\n  a:\n    backend: http://127.0.0.1:1\n    card: { set: { icon: ~ } }\n    methods: [~]\n"
    )
    assert [(one[2], one[3]) for one in told(written(tmp_path, gateway=text))] == [
        ("agents.a.methods[0]", "there is no value")
    ]


def test_a_header_that_tells_who_calls_may_have_null(tmp_path: Path) -> None:
    text = (
        "version: 1\ndefaults: { identity_headers: { tenant: null } }\nagents:\n"
        "  a: { backend: http://127.0.0.1:1, identity_headers: { subject: null } }\n"
        "  identity_headers: { backend: null }\n"
    )
    path = written(tmp_path, gateway=text)
    assert [one[2] for one in told(path)] == ["agents.identity_headers.backend"]
    path.write_text(text.replace("{ backend: null }", "{ backend: 'http://127.0.0.1:2' }"))
    config = load(path, {}).config
    assert config is not None
    assert (config.defaults.identity_headers.tenant, config.agents["a"].identity_headers.subject) == ("", "")
