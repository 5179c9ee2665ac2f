"""Members in `card.set` are served; other names are refused."""

from tests.config.reading import errors, examined, good
from tests.table import for_each


@for_each(
    ("written", "path", "fact"),
    [
        (
            "securitySchemes: {}",
            "securitySchemes",
            "the gateway's credentials replace `securitySchemes` in cards",
        ),
        ("security: []", "security", "the gateway's credentials replace `security` in cards"),
        (
            "securityRequirements: []",
            "securityRequirements",
            "the gateway's credentials replace `securityRequirements` in cards",
        ),
        (
            "authentication: { schemes: [] }",
            "authentication",
            "the gateway's credentials replace `authentication` in cards",
        ),
        (
            "skills: [{ id: a, security: [] }]",
            "skills[0].security",
            "the gateway's credentials replace `security` in cards",
        ),
        ("protocolVersion: '1.0'", "protocolVersion", "the gateway computes `protocolVersion` itself"),
        ("transportOptions: {}", "transportOptions", "the gateway computes `transportOptions` itself"),
        ("descripton: x", "descripton", "'descripton' cannot be set in a card"),
        ("x-own: x", "x-own", "'x-own' cannot be set in a card"),
        ("skills: x", "skills", "`skills` of a card is a list"),
        ("name: 7", "name", "`name` of a card is a text"),
        ("capabilities: [streaming]", "capabilities", "`capabilities` of a card is a mapping"),
        ("supportsAuthenticatedExtendedCard: 1", "supportsAuthenticatedExtendedCard", None),
    ],
)
def test_members_that_no_card_shows_cannot_be_set(written: str, path: str, fact: str | None) -> None:
    text = f"version: 1\nagents: {{ a: {{ backend: 'http://127.0.0.1:1', card: {{ set: {{ {written} }} }} }} }}\n"
    [problem] = examined(text).errors
    assert (problem.place.line, problem.remedy != "") == (2, True)
    [(found, told)] = errors(text)
    assert found == f"agents.a.card.set.{path}"
    assert fact is None or told == fact


def test_null_takes_away_what_the_agent_says() -> None:
    good("version: 1\nagents: { a: { backend: 'http://127.0.0.1:1', card: { set: { iconUrl: null } } } }\n")
