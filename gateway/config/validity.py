"""Whether the certificates that the gateway shows are good today: each is served, but nobody believes these."""

from datetime import UTC, datetime
from pathlib import Path

from cryptography import x509

from gateway.config.finding import Findings
from gateway.config.model import Config
from gateway.config.problem import KeyPath, printable

_RENEW = "renew it; the gateway reads the new one without a restart"


def check_validity(config: Config, findings: Findings, now: datetime | None = None) -> None:
    """Warn of certificates that are over, or that begin some day: those of the listeners, and those that agents see.

    Args:
        now: In UTC; the clock's where it is left out. Days would not do: many certificates last for hours.
    """
    now = datetime.now(UTC) if now is None else now
    tls = config.gateway.tls
    shown: list[tuple[KeyPath, str | None]] = [(("gateway", "tls"), None if tls is None else tls.cert)]
    parts = [
        (("defaults",), config.defaults.tls),
        *((("agents", name), one.tls) for name, one in config.agents.items()),
    ]
    shown += [((*at, "tls"), None if own is None else own.cert) for at, own in parts]
    known: dict[Path, str] = {}
    for at, file in shown:
        if file is None:
            continue
        path = Path(findings.marks.place(at).file).parent / file
        if path not in known:
            known[path] = _why(path, now)
        if why := known[path]:
            findings.warning((*at, "cert"), f"{printable(file)!r} {why}", _RENEW)


def _why(file: Path, now: datetime) -> str:
    """What is wrong with the dates of the first certificate of a file; empty for nothing, or if it cannot be read."""
    try:
        if not file.is_file():
            return ""
        found = x509.load_pem_x509_certificate(file.read_bytes())
    except (OSError, ValueError, TypeError, x509.InvalidVersion, UserWarning):
        # Who loads it for TLS says what is wrong with it.
        return ""
    if found.not_valid_after_utc < now:
        return f"has expired: it was good until {found.not_valid_after_utc:%Y-%m-%d %H:%M} UTC"
    if found.not_valid_before_utc > now:
        return f"is not good yet: it begins at {found.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
    return ""
