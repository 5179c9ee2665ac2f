"""What a running gateway goes on with until it is started anew, whatever its file says meanwhile.

Sockets, the store and the logs' places are opened once. A changed file is put to use in all else, and what waits for a
restart is named; the configuration that runs says what is true, not what is written.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gateway.config.model import Config
from gateway.config.part import Part
from gateway.config.problem import KeyPath, spell
from gateway.config.yaml import Marks
from gateway.routing.route import Place

UNTIL_RESTART: Mapping[KeyPath, str] = {
    ("gateway", "listen"): "the socket is bound",
    ("gateway", "listen_grpc"): "the socket is bound",
    ("gateway", "admin"): "the socket is bound, and guarded",
    ("gateway", "http"): "the bounds are those of the socket",
    ("gateway", "grpc"): "the bounds are those of the socket",
    ("gateway", "state"): "the store is open",
    ("gateway", "ledger"): "the store is open",
    ("observe", "log"): "the log is open",
    ("observe", "audit"): "the log is open",
}
"""What stays, and why; certificates do not: they are read again."""
_STORE: tuple[KeyPath, ...] = (("gateway", "state"), ("gateway", "ledger"))
_TLS: KeyPath = ("gateway", "tls")
_PUBLIC: KeyPath = ("gateway", "public_url")
_PUSH: tuple[KeyPath, ...] = (("push", "mode"), ("push", "sign"))


@dataclass(frozen=True, slots=True)
class Waiting:
    """A setting that is written and waits for a restart.

    Attributes:
        why: What cannot be changed.
    """

    place: Place
    path: KeyPath
    why: str

    def __str__(self) -> str:
        place = self.place
        told = f"{spell(self.path)} takes effect with the next start: {self.why}"
        return f"{place.file}:{place.line}:{place.column}  {told}"

    def as_json(self) -> dict[str, str | int]:
        """For programs."""
        place = self.place
        return {
            "file": place.file,
            "line": place.line,
            "column": place.column,
            "path": spell(self.path),
            "why": self.why,
        }


def until_restart(
    running: Config, written: Config, marks: Marks, *, has_store: bool = True
) -> tuple[Config, tuple[Waiting, ...]]:
    """What is written, but for what has to stay as it runs; and what that is.

    Args:
        marks: Of what is written.
        has_store: Whether a store is open; else it will be opened where the file says by then.
    """
    stay = {path: why for path, why in UNTIL_RESTART.items() if has_store or path not in _STORE}
    if (running.gateway.tls is None) != (written.gateway.tls is None):
        stay[_TLS] = "the socket is in use"
    if "relay" in (running.push.mode, written.push.mode):
        # Agents have the URLs of callbacks, and receivers the URL of the keys.
        stay |= dict.fromkeys(_PUSH, "notifications are on their way")
        stay[_PUBLIC] = "agents have been given URLs below it, for notifications"
    merged, waiting = written, []
    for path, why in stay.items():
        kept = _value(running, path)
        if kept != _value(written, path):
            merged = _with(merged, path, kept)
            waiting.append(Waiting(marks.place(path), path, why))
    return merged, tuple(waiting)


def _value(part: Part, path: KeyPath) -> object:
    value: object = part
    for step in path:
        value = getattr(value, str(step))
    return value


def _with(part: Any, path: KeyPath, value: object) -> Any:  # noqa: ANN401 - whichever part has the key
    name, *rest = path
    new = _with(getattr(part, str(name)), tuple(rest), value) if rest else value
    return part.model_copy(update={str(name): new})
