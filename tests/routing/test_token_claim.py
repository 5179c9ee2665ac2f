"""Claims as the file names them: by name, and by a path whose reading one token settles."""

from gateway.routing.token_claim import claim_at, claim_values, roles, scopes, single
from tests.table import for_each

TOKEN = {
    "org_id": "acme",
    "https://example.com/roles": ["clerk"],
    "https://example.com/app": {"tenant": "acme"},
    "realm_access": {"roles": ["user", "admin"]},
    "resource_access": {"app": {"roles": ["reader"]}, "my.app": {"roles": ["writer"]}},
    "both": {"named": "below"},
    "both.named": "above",
    "empty": None,
}


@for_each(
    ("path", "value"),
    [
        ("org_id", "acme"),
        ("https://example.com/roles", ["clerk"]),
        ("https://example.com/app.tenant", "acme"),
        ("realm_access.roles", ["user", "admin"]),
        ("resource_access.app.roles", ["reader"]),
        ("resource_access.my.app.roles", ["writer"]),
        # The name with the dot goes before the path.
        ("both.named", "above"),
        ("empty", None),
        ("ORG_ID", "?"),
        ("realm_access", {"roles": ["user", "admin"]}),
        ("realm_access.", "?"),
        (".realm_access", "?"),
        ("realm_access..roles", "?"),
        ("realm_access.roles.admin", "?"),
        ("org_id.a", "?"),
        ("org", "?"),
        ("", "?"),
    ],
)
def test_a_path_finds_one_value_or_none(path: str, value: object) -> None:
    assert claim_at(TOKEN, path, "?") == value


def test_a_claim_path_has_one_reading() -> None:
    """A longer name that leads nowhere is not passed over for a shorter one: one path has one reading."""
    assert claim_at({"a.b": {"x": 1}, "a": {"b": {"c": 2}}}, "a.b.c", "?") == "?"


@for_each(
    ("value", "offered"),
    [
        ("a b", ("a b",)),
        (["a", "b", 1, None, {"c": 1}], ("a", "b", 1)),
        (True, (("bool", True),)),
        ({"acme": {"id": "1"}}, ("acme",)),
        (1.5, ()),
        (None, ()),
    ],
)
def test_a_claim_offers_its_values_to_a_comparison(value: object, offered: tuple[object, ...]) -> None:
    assert claim_values({"x": value}, "x") == offered


@for_each("name", ["scope", "scp"])
def test_scopes_are_words_or_a_list(name: str) -> None:
    assert claim_values({name: "a b"}, name) == ("a", "b")
    assert scopes({name: "a  b"}) == {"a", "b"}
    assert scopes({name: ["a b", "c"]}) == {"a b", "c"}
    assert scopes({"nested": {name: "a b"}}) == frozenset()


def test_roles_stand_where_providers_write_them() -> None:
    assert roles({"roles": ["a"], "realm_access": {"roles": ["b"]}}) == {"a", "b"}
    assert roles({"groups": ["a"], "resource_access": {"app": {"roles": ["b"]}}}) == frozenset()


@for_each("path", ["organization", "nested.organization", "https://example.com/organization"])
@for_each(
    ("value", "name"),
    [
        ("acme", "acme"),
        (["acme"], "acme"),
        ({"acme": {"id": "1"}}, "acme"),
        ({"acme": {}}, "acme"),
        (["acme", "globex"], None),
        (["acme", "acme"], None),
        ({"acme": {}, "globex": {}}, None),
        ({"acme": 1}, None),
        ([], None),
        ({}, None),
        ([["acme"]], None),
        ([7], None),
        (7, None),
        (True, None),
        (None, None),
    ],
)
def test_one_organization_is_never_guessed_from_several(path: str, value: object, name: str | None) -> None:
    assert single({path: value, "nested": {"organization": value}}, path) == name


@for_each("value", [["acme"], {"acme": {}}, 7, None])
def test_any_other_claim_names_one_by_a_text_alone(value: object) -> None:
    for path in ("org", "organizations", "my_organization"):
        assert single({path: value}, path) is None
        assert single({path: "acme"}, path) == "acme"
