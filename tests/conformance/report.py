"""`docs/compatibility.md`: what the matrix came to, in tables."""

from tests.conformance.comparing import Direct, Verdict


def report(verdicts: dict[tuple[str, str], list[Verdict]], direct: Direct) -> str:
    """The page."""
    return ""
