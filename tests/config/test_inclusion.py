"""What `include:` matches, and what is said where nobody can know."""

import errno
import os
from pathlib import Path

import pytest

from gateway.config.check import examine
from gateway.config.inclusion import any_matches, matching


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


def test_a_name_that_no_file_has_is_none() -> None:
    with pytest.raises(ValueError, match="null"):
        matching("a\0b", Path())


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


def test_a_folder_that_cannot_be_opened_now_is_an_error_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = filled(tmp_path, "teams/a.yaml") / "gateway.yaml"
    path.write_text("version: 1\ninclude: teams/*.yaml\nagents: { b: http://127.0.0.1:2 }\n")
    assert examine(path, {}).config is not None

    def short(folder: Path) -> object:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), str(folder))

    monkeypatch.setattr(Path, "iterdir", short)
    [error] = examine(path, {}).errors
    assert str(tmp_path / "teams") in error.fact
