"""Patterns of `include:`, and every file whose change changes what is served."""

import errno
import os
import shutil
from pathlib import Path

import pytest
import trustme

from gateway.config.check import examine, files, stamped
from gateway.config.files import NOTHING, any_matches, matching, stamp, stamp_of
from gateway.config.yaml import LARGEST_FILE
from tests.support.assembly import CARD, certified

TEXT = """\
version: 1
include: [agents.d/*.yaml]
gateway:
  tls: { cert: tls/chain.pem, key: tls/key.pem }
defaults: { tls: { ca: ca.pem } }
auth:
  issuers: { corp: { issuer: https://idp.example, audience: a, tenant: acme, tls: { ca: idp.pem } } }
tenants: { acme: [one] }
push: { mode: relay, tls: { ca: hooks.pem } }
agents:
  two: { backend: "https://127.0.0.1:2", tls: { cert: tls/shown.pem, key: tls/shown.key } }
  one: { backend: "https://127.0.0.1", card: { file: card.json }, upstream_auth: { bearer: "${file:secret}" } }
"""


def filled(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("agents: { a: http://127.0.0.1:1 }\n")
    return folder


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.yaml", ["a.yaml", "b.yaml"]),
        ("./*.yaml", ["a.yaml", "b.yaml"]),
        ("[b-z].yaml", ["b.yaml"]),
        ("?.yaml", ["a.yaml", "b.yaml"]),
        (".*.yaml", [".hidden.yaml"]),
        ("*/c.yaml", ["one/c.yaml", "two/c.yaml"]),
        ("*/*.yaml", ["one/c.yaml", "one/d.yaml", "two/c.yaml"]),
        ("a.yaml/*.yaml", []),
        ("a.yaml", ["a.yaml"]),
        ("one", []),
        ("none/*.yaml", []),
        ("none.yaml", []),
    ],
)
def test_patterns_match_regular_files_by_name(tmp_path: Path, pattern: str, found: list[str]) -> None:
    folder = filled(tmp_path, "a.yaml", "b.yaml", ".hidden.yaml", "one/c.yaml", "one/d.yaml", "two/c.yaml")
    assert matching(pattern, folder) == [folder / each for each in found]
    assert matching(str(folder / pattern), Path("/nowhere")) == [folder / each for each in found]


@pytest.mark.parametrize("pattern", ["*.yaml", "b.yaml"])
def test_a_link_that_leads_nowhere_is_an_error_with_its_name(tmp_path: Path, pattern: str) -> None:
    folder = filled(tmp_path, "a.yaml", "mounted/b.yaml")
    (folder / "b.yaml").symlink_to("mounted/b.yaml")
    (folder / ".#b.yaml").symlink_to("somebody@somewhere")  # as editors lock files
    assert folder / "b.yaml" in matching(pattern, folder)
    (folder / "mounted/b.yaml").unlink()
    with pytest.raises(FileNotFoundError) as raised:
        matching(pattern, folder)
    assert raised.value.filename == str(folder / "b.yaml")
    (folder / "b.yaml").unlink()
    assert folder / "b.yaml" not in matching(pattern, folder)


@pytest.mark.parametrize("pattern", ["round/*.yaml", "*/*.yaml", "round/a.yaml", "*.yaml"])
def test_a_folder_that_cannot_be_read_is_an_error_with_its_name(tmp_path: Path, pattern: str) -> None:
    filled(tmp_path, "teams/a.yaml")
    for name in ("round", "round.yaml"):
        (tmp_path / name).symlink_to(name)
    with pytest.raises(OSError, match="symbolic links") as raised:
        matching(pattern, tmp_path)
    assert raised.value.errno == errno.ELOOP
    path = tmp_path / "gateway.yaml"
    path.write_text(f"version: 1\ninclude: ['teams/*.yaml', '{pattern}']\n")
    found = examine(path, {})
    assert found.config is None
    [error] = found.errors
    assert (error.place.line, error.place.column) == (2, 27)
    assert f"{tmp_path}/round" in error.fact
    assert os.strerror(errno.ELOOP) in error.fact


def test_patterns_that_match_nothing_are_remembered_until_they_do(tmp_path: Path) -> None:
    (tmp_path / "round").symlink_to("round")
    path = filled(tmp_path, "teams/a.yaml") / "gateway.yaml"
    path.write_text('version: 1\ninclude: ["teams/*.yaml", "round/*.yaml", "none/*.yaml", "\\0"]\n')
    unmatched = examine(path, {}).unmatched
    assert unmatched == ("round/*.yaml", "none/*.yaml", "\0")
    assert not any_matches(unmatched, tmp_path)
    filled(tmp_path, "none/b.yaml")
    assert any_matches(unmatched, tmp_path)
    path.write_text("version: 1\ninclude: teams/*.yaml\n")
    assert examine(path, {}).unmatched == ()


def test_includes_secrets_certificates_authorities_and_cards_are_named(tmp_path: Path) -> None:
    certified(tmp_path)
    shutil.copy(tmp_path / "tls/chain.pem", tmp_path / "tls/shown.pem")
    shutil.copy(tmp_path / "tls/key.pem", tmp_path / "tls/shown.key")
    (tmp_path / "agents.d").mkdir()
    (tmp_path / "agents.d/a.yaml").write_text("agents: { three: 'http://127.0.0.1:2' }\n")
    (tmp_path / "ca.pem").write_bytes(trustme.CA().cert_pem.bytes())
    for name in ("idp.pem", "hooks.pem"):
        shutil.copy(tmp_path / "ca.pem", tmp_path / name)
    (tmp_path / "card.json").write_bytes(CARD)
    (tmp_path / "secret").write_text("a-long-secret")
    file = tmp_path / "gateway.yaml"
    file.write_text(TEXT)
    examined = examine(file, {})
    assert examined.config is not None, examined.errors
    # One that came meanwhile is not read yet, and counts.
    (tmp_path / "agents.d/b.yaml").write_text("agents: {}\n")
    named = {
        "gateway.yaml", "agents.d/a.yaml", "agents.d/b.yaml", "secret", "tls/chain.pem", "tls/key.pem", "ca.pem",
        "card.json", "tls/shown.pem", "tls/shown.key", "idp.pem", "hooks.pem",
    }  # fmt: skip
    assert {str(path.relative_to(tmp_path)) for path in files(examined)} == named
    seen = {stamped(examine(file, {})).text_hash}
    for path in sorted(named):
        (tmp_path / path).write_bytes((tmp_path / path).read_bytes() + b"\n")
        seen.add(stamped(examine(file, {})).text_hash)
    assert len(seen) == 1 + len(named)


def test_the_files_of_a_broken_configuration_are_those_that_were_read(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("version: 2\n")
    assert files(examine(file, {})) == (file,)


def test_cards_that_name_commands_are_named_and_hashed(tmp_path: Path) -> None:
    stub = '{"name": "x", "url": "%s", "preferredTransport": "stdio", "protocolVersion": "0.3.0"}'
    for name in ("one.json", "two.json"):
        (tmp_path / name).write_text(stub % "sh -c true")
    file = tmp_path / "gateway.yaml"
    file.write_text(
        "version: 1\n"
        "auth: { api_keys: { k: { sha256: %s, tenant: acme } } }\n"
        "tenants: { acme: [one, two] }\n"
        "agents:\n"
        "  one: { backend: { card: one.json } }\n"
        "  two: { by_tenant: { acme: { backend: { card: two.json } } } }\n" % ("ab" * 32)
    )
    first = stamped(examine(file, {}))
    assert first.config is not None, first.errors
    assert set(files(first)) == {file, tmp_path / "one.json", tmp_path / "two.json"}
    assert first.stamps == {path: stamp_of(path) for path in files(first)}
    (tmp_path / "two.json").write_text(stub % "sh -c false")
    assert stamped(examine(file, {})).text_hash != first.text_hash


def test_each_file_has_the_stamp_of_its_read_content(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    text = 'agents: { one: { backend: "https://127.0.0.1", upstream_auth: { bearer: "${file:%s}" } } }\nversion: 1\n'
    (tmp_path / "secret").write_text("a-long-secret")
    file.write_text(text % "secret")
    examined = examine(file, {})
    assert examined.stamps == {path: stamp_of(path) for path in (file, tmp_path / "secret")}
    (tmp_path / "secret").unlink()
    assert examine(file, {}).stamps == {file: stamp_of(file), tmp_path / "secret": NOTHING}
    file.write_bytes(b"\xff")
    assert examine(file, {}).stamps == {file: stamp(b"\xff")}
    file.unlink()
    assert examine(file, {}).stamps == {file: NOTHING}
    # It is not known what the rest of it says.
    file.write_bytes(b"#" * (LARGEST_FILE + 1))
    assert examine(file, {}).stamps == {}
    assert stamp_of(tmp_path) == NOTHING
