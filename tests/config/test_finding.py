from pathlib import Path

from gateway.config.finding import Findings
from gateway.config.secrets import Interpolation
from gateway.config.yaml import read

MARKS = read(Path("g.yaml"), Interpolation({}), "agents:\n  a: http://x\n  b: { match: { path: /x } }\n").marks


def test_a_finding_stands_at_the_value_or_the_key_that_it_is_about() -> None:
    findings = Findings(MARKS)
    findings.error(("agents", "b", "match", 0, "path"), "f", "r")
    findings.error_at_key(("agents", "a", "backend", "url"), "f", "r")
    findings.warning(("agents", "b"), "f", "r")
    assert [(one.place.line, one.place.column, one.path, one.severity) for one in findings.problems] == [
        (3, 23, ("agents", "b", "match", "path"), "error"),
        (2, 3, ("agents", "a"), "error"),
        (3, 3, ("agents", "b"), "warning"),
    ]


def test_an_unknown_name_is_told_with_the_nearest_or_with_all() -> None:
    findings = Findings(MARKS)
    assert findings.known(("agents", "a"), "a", {"a"}, "agent")
    assert not findings.known(("agents", "a"), "suport", {"support", "crm"}, "agent")
    assert not findings.known(("agents", "b"), "zzz", {f"agent{number}" for number in range(10)}, "agent")
    assert not findings.known_key(("agents", "b"), "zzz", (), "tenant")
    assert [(one.fact, one.remedy) for one in findings.problems] == [
        ("there is no agent 'suport'", "did you mean 'support'?"),
        ("there is no agent 'zzz'", "known are: " + ", ".join(f"agent{number}" for number in range(8)) + ", …"),
        ("there is no tenant 'zzz'", "the file has no tenant at all"),
    ]
