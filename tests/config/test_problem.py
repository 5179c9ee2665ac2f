from gateway.config.problem import Problem, as_github, as_json, as_text, in_order, spell
from gateway.routing.route import Place
from gateway.telemetry.log_output import printable

PROBLEM = Problem(
    Place("config/gateway.yaml", 41, 9),
    ("agents", "billing", "match", 0, "path"),
    "'/A' is also what 'support' matches (line 52)",
    "give one of them another path",
    quote="        path: /A",
    caret=9,
)


def test_people_read_place_fact_line_caret_and_remedy() -> None:
    assert PROBLEM.as_text() == (
        "config/gateway.yaml:41:9  agents.billing.match[0].path: '/A' is also what 'support' matches (line 52)\n"
        "    path: /A\n"
        "    ^\n"
        "    → give one of them another path"
    )


def test_programs_read_the_same() -> None:
    assert as_json([PROBLEM]) == [
        {
            "file": "config/gateway.yaml",
            "line": 41,
            "column": 9,
            "path": "agents.billing.match[0].path",
            "severity": "error",
            "message": "'/A' is also what 'support' matches (line 52)",
            "remedy": "give one of them another path",
        }
    ]


def test_github_reads_workflow_commands_that_nothing_in_them_can_end() -> None:
    problem = Problem(Place("a,b:c.yaml", 1, 2), (), "100%\n::error::x", "r", "warning")
    assert as_github([problem]) == "::warning file=a%2Cb%3Ac.yaml,line=1,col=2::100%25%0A::error::x → r"


def test_a_warning_says_that_it_is_one() -> None:
    assert as_text([Problem(Place("f", 1, 1), (), "fact", "remedy", "warning")]) == "f:1:1  warning: fact\n    → remedy"


def test_a_long_line_is_shown_around_its_caret() -> None:
    quote = "x" * 300 + "HERE" + "y" * 300
    shown, caret = Problem(Place("f", 1, 301), (), "f", "r", quote=quote, caret=301).as_text().splitlines()[1:3]
    assert len(shown) < 130
    assert shown[caret.index("^") :].startswith("HERE")


def test_odd_keys_are_quoted_and_cannot_drive_the_terminal() -> None:
    assert spell(("tenants", "*", "a b", "\x1b[1m")) == 'tenants."*"."a b"."�[1m"'
    assert spell(("agents", "x" * 70)) == 'agents."…"'
    assert printable("a\nb" + "c" * 300) == "a�b" + "c" * 197 + "…"


def test_problems_come_by_file_and_place_and_each_once() -> None:
    late, early = Problem(Place("b", 1, 1), (), "f", ""), Problem(Place("a", 9, 1), (), "f", "")
    first = Problem(Place("b", 1, 0), (), "f", "")
    assert in_order([late, early, first, late], ["b", "a"]) == (first, late, early)
