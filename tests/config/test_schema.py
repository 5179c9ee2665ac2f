import os
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import msgspec
import pytest

from gateway.config.check import examine
from gateway.config.json_schema import schema
from gateway.config.values import every_part
from gateway.config.yaml import read
from tests.config.examples import AS_ROOT, FILES, AsWritten
from tests.config.reading import HASH, OTHER_HASH, TODAY
from tests.table import for_each

FOLDER = Path(__file__).parents[2] / "config"
ENVIRON = {
    "ADMIN_TOKEN": "a-long-random-text",
    "ACME_BATCH_KEY_SHA256": HASH,
    "REPORTS_BOT_SHA256": OTHER_HASH,
    "BILLING_TOKEN": "billing",
    "RESEARCH_SECRET": "research",
    "CRM_GLOBEX_TOKEN": "crm",
}
VALIDATOR = jsonschema.Draft202012Validator(schema())


def accepts(text: str) -> bool:
    found = read(Path("gateway.yaml"), AsWritten({}), text)
    assert found.problems == ()
    return bool(VALIDATOR.is_valid(found.tree))


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


def test_the_file_that_is_shipped_is_this_schema() -> None:
    written = msgspec.json.decode((FOLDER / "gateway.schema.json").read_bytes())
    assert written == schema(), (
        "write it again: python -m gateway.config.json_schema > gateway/config/gateway.schema.json"
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_file_of_the_folder_is_accepted_by_the_schema_and_by_the_gateway(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTES_TOKEN", "handed on by env_from")
    tree = read(path, AsWritten({})).tree
    VALIDATOR.validate(tree)
    found = examine(path, ENVIRON, today=TODAY)
    assert found.problems == ()
    assert found.failed == ()


def test_the_example_of_a_key_that_root_alone_may_write_is_accepted_of_root() -> None:
    refused = [problem.fact for problem in examine(Path("gateway.yaml"), {}, text=AS_ROOT).errors]
    assert refused == ([] if os.geteuid() == 0 else ["only root can run a command as another user"])


def test_the_reference_shows_every_key() -> None:
    text = (FOLDER / "gateway.reference.yaml").read_text()
    parts = [part for part in every_part() if part.__module__.startswith("gateway.")]
    keys = {name for part in parts for name in part.model_fields}
    assert [key for key in sorted(keys) if f"{key}:" not in text] == []


def test_every_key_has_a_description() -> None:
    missing = []

    def look(name: str, node: dict[str, Any]) -> None:
        for key, below in node.get("properties", {}).items():
            told = below.get("description") or schema()["$defs"].get(below.get("$ref", "")[8:], {}).get("description")
            if not told:
                missing.append(f"{name}.{key}")
        for below in node.get("anyOf", ()):
            look(name, below)

    look("", schema())
    for name, node in schema()["$defs"].items():
        look(name, node)
    assert missing == []


@for_each(
    "text",
    [
        "version: 1\nagents: { a: http://x }\n",
        "version: 1\nagents: { a: { backend: { url: http://x, a2a_version: '0.3.0' } } }\n",
        "version: 1\nagents: { a: { backend: http://x, match: { path: / } } }\n",
        "version: 1\nagents: { a: { backend: http://x, match: [{ path: / }] } }\n",
        "version: 1\nagents: { a: { by_tenant: { t: http://x } } }\n",
        "version: 1\ntenants: { a: , b: [x], c: x, d: { agents: [x], act_for: a } }\n",
        "version: 1\ngateway: { anonymous: '${X}', body_limit: '${Y}', drain: '${Z:-3s}', admin: 127.0.0.1:1 }\n",
        "version: 1\nobserve: { log: { level: '${L}' }, metrics: { max_tenants: '${M}' } }\n",
        "version: 1\ntests: [{ name: t1, request: /x, expect: a }]\n",
        "version: 1\ngateway: { state: '${STATE}', replicas: '${R}', ledger: { ended: 1d, tasks: '${N}' } }\n",
        "version: 1\ntenants: { '*': { limits: { requests: 1/s, bandwidth: 10MiB/s, open_tasks: '${N}' } } }\n",
        "version: 1\ndefaults: { identity_headers: { tenant: null, subject: '', session: false } }\n",
        "version: 1\npush: { allow: 'https://*.example.com', sign: '${S}', deliver: { keep: 1d } }\n",
        "version: 1\nobserve: { audit: '-' }\n",
        "version: 1\nobserve: { audit: { file: audit.jsonl } }\n",
        "version: 1\nauth: { api_keys: { k: { sha256: x, tenant: t, expires: 2027-01-01 } } }\n",
    ],
)
def test_short_forms_and_references_are_accepted(text: str) -> None:
    assert accepts(text)


@for_each(
    "text",
    [
        "agents: {}\n",
        "version: 2\n",
        "version: 1\nagent: {}\n",
        "version: 1\nagents: { a: { bakend: http://x } }\n",
        "version: 1\nagents: { a: { backend: http://x, visibility: hidden } }\n",
        "version: 1\nagents: { a: { backend: http://x, timeouts: { send: 10 } } }\n",
        "version: 1\nagents: { a: { backend: http://x, timeouts: { send: 10 minutes } } }\n",
        "version: 1\nagents: { a: { backend: http://x, trust: {} } }\n",
        "version: 1\nagents: { a: { backend: http://x, limits: { open_tasks: 1 } } }\n",
        "version: 1\nagents: { a: { backend: http://x, identity_headers: { tenant: true } } }\n",
        "version: 1\ntenants: { a: { limits: { requests: 600 } } }\n",
        "version: 1\ntenants: { a: { limits: { bandwidth: 1MiB/h } } }\n",
        "version: 1\ngateway: { anonymous: 'maybe' }\n",
        "version: 1\npush: { mode: both }\n",
        "version: 1\ngateway: { replicas: many }\n",
        "version: 1\nobserve: { audit: {} }\n",
    ],
)
def test_files_that_an_editor_should_mark_are_refused(text: str) -> None:
    assert not accepts(text)
