"""The gateway itself, as operators run it, on a configuration of the run's own."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.edge.process import Process, started


@contextmanager
def serving(
    configuration: Mapping[str, object],
    *,
    folder: Path,
    ports: Sequence[int],
    tree: Path,
    name: str = "gateway",
) -> Iterator[Process]:
    """Start a gateway, wait until it serves, and stop it in the end.

    Args:
        folder: Where its files go: NAME.yaml, what it writes, and its state.
        ports: Those that it is to listen on.
        tree: The checkout whose gateway it is.

    Raises:
        NotStarted: as `started`.
    """
    # The file lies by itself: the gateway watches the folder that it is in.
    file, state = folder / f"{name}-configuration" / f"{name}.yaml", folder / f"{name}-state"
    for place in (file.parent, state):
        place.mkdir(exist_ok=True)
    # JSON is YAML.
    file.write_text(json.dumps(configuration))
    command = [sys.executable, "-m", "gateway", "serve", "-c", file]
    environ = {"PYTHONPATH": str(tree), "STATE_DIRECTORY": str(state)}
    with started(name, command, folder=folder, ports=ports, environ=environ, told="serving") as process:
        yield process
