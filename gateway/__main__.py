"""`python -m gateway` is `a2a-gateway`."""

import sys

from gateway.commands.liveness import main as probe
from gateway.service_manager import leave_at_once, serves


def main() -> None:
    """Run the command line; signals end the process while modules are loaded."""
    if sys.argv[1:] == ["health"]:
        probe()
        return
    if serves(sys.argv[1:]):
        leave_at_once()
    from gateway.cli import main as run  # noqa: PLC0415 - it takes a second, in which signals must work

    run()


if __name__ == "__main__":
    main()
