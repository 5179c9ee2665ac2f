"""An API key is strong, is shown once, and the file keeps its hash only."""

import hashlib

import pytest
import yaml

from gateway.commands.key import new_key
from gateway.commands.output import CommandFailed
from tests.table import for_each


def test_the_configuration_holds_the_hash_and_not_the_key() -> None:
    made = new_key("bot", "acme", lambda size: "x" * size)
    assert made.text == "a2a_" + "x" * 24
    assert made.sha256 == hashlib.sha256(made.text.encode()).hexdigest()
    assert made.text not in made.yaml
    assert yaml.safe_load(made.yaml) == {"auth": {"api_keys": {"bot": {"sha256": made.sha256, "tenant": "acme"}}}}


@for_each("name", ["no", "010", "12e3", "on", "Null", "1.5", "-x"])
def test_names_that_yaml_takes_for_something_else_are_quoted(name: str) -> None:
    made = new_key(name, name)
    assert yaml.safe_load(made.yaml)["auth"]["api_keys"] == {name: {"sha256": made.sha256, "tenant": name}}


def test_the_tenant_of_callers_without_a_key_gets_none() -> None:
    with pytest.raises(CommandFailed, match="--tenant") as failed:
        new_key("bot", "anonymous")
    assert failed.value.code == 2


def test_the_next_step_is_printed_beside_the_lines() -> None:
    assert new_key("bot", "no").yaml.endswith(
        '# and below `tenants:`, the agents that it may call:   "no": [AGENT, ...]\n'
    )


@for_each("name", ["", "a b", "x" * 65, "tasks", "ä", "a/b"])
def test_an_invalid_name_is_refused(name: str) -> None:
    for both in ((name, "acme"), ("bot", name)):
        with pytest.raises(CommandFailed) as failed:
            new_key(*both)
        assert failed.value.code == 2


def test_a_key_has_192_random_bits_and_a_prefix() -> None:
    keys = {new_key("bot", "acme").text for _ in range(100)}
    assert len(keys) == 100
    assert all(key.startswith("a2a_") and len(key) == 4 + 32 for key in keys)
