"""The version that runs: the same for an installed package, a clone, and the image, which is a copy of the folder."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from gateway import __version__

ROOT = Path(__file__).parents[2]


def test_the_package_takes_the_version_of_the_folder() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"] == {"path": "gateway/__init__.py"}


def test_a_copy_of_the_folder_knows_its_version(tmp_path: Path) -> None:
    (tmp_path / "gateway").mkdir()
    shutil.copy(ROOT / "gateway/__init__.py", tmp_path / "gateway")
    code = "from gateway import __version__; print(__version__)"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == __version__
