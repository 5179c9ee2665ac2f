"""The image says which version it is, and gets the files that it is made of."""

import re
from pathlib import Path

from gateway import __version__

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_the_label_of_the_image_has_the_version() -> None:
    assert f"ARG VERSION={__version__} " in DOCKERFILE
    for label in ("title", "description", "licenses", "version", "revision"):
        assert f"org.opencontainers.image.{label}=" in DOCKERFILE


def test_copied_files_are_not_ignored_and_installs_check_hashes() -> None:
    allowed = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = set(" ".join(re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)).split())
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)
    # The only other installs are of the wheel that these build.
    assert DOCKERFILE.count("--require-hashes") == DOCKERFILE.count(" -r requirements") == 2
    assert {"hatchling", "cyclonedx-bom"} <= set(
        re.findall(r"^([\w-]+)==", (ROOT / "requirements-release.lock").read_text(), re.MULTILINE)
    )


def test_the_probe_of_the_image_reads_no_file() -> None:
    assert 'CMD ["a2a-gateway", "health"]' in DOCKERFILE
