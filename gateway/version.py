"""Which version of this package runs: here, so that a clone and an image know it without being installed."""

VERSION = "0.1.0"


def package_version() -> str:
    """The version of this package, as pyproject.toml has it."""
    return VERSION
