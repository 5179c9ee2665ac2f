"""Which version runs: that of the package, or none where there is no package."""

from importlib.metadata import PackageNotFoundError

import pytest

from gateway import version


def test_the_version_is_that_of_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    assert version.package_version()
    monkeypatch.setattr(version, "version", _raise_not_found)
    assert version.package_version() == "0+source"


def _raise_not_found(name: str) -> str:
    raise PackageNotFoundError(name)
