"""The interpreter that has the last a2a-sdk 0.3.

The two generations of the SDK cannot share an environment. `tests/check` makes the other one; A2A_LEGACY_PYTHON names
its interpreter, else it is looked for in `.venv-legacy`.
"""

import os
from pathlib import Path

from tests.e2e.process import ROOT


def interpreter() -> str:
    """The Python that has a2a-sdk 0.3.

    Raises:
        AssertionError: there is none; the tests cannot do without.
    """
    named = os.environ.get("A2A_LEGACY_PYTHON")
    python = Path(named) if named else ROOT / ".venv-legacy" / "bin" / "python"
    assert python.exists(), (
        f"{python} does not exist, and without a2a-sdk 0.3 nothing is known of 0.3 clients and agents.\n"
        "Run tests/check, or: deploy/venv .venv-legacy tests/legacy/requirements.lock"
    )
    return str(python)
