"""Which version of this package runs."""

from importlib.metadata import PackageNotFoundError, version


def package_version() -> str:
    """The version of this package; `0+source` where it runs from a checkout."""
    try:
        return version("a2a-gateway")
    except PackageNotFoundError:
        return "0+source"
