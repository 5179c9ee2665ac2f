"""Renders the pages of the catalog, and has their static files and headers; independent of the server.

Every URL is relative and every page is in one folder, so the page works behind any path prefix. No file is loaded from
other origins, and pages have no inline scripts or styles (`CSP`).
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    # With no-referrer, browsers would name no origin in form posts, by which other sites' posts are refused.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
HTML = "text/html; charset=utf-8"

_WEB = Path(__file__).parent / "web"
_KINDS = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A static file."""

    body: bytes
    media_type: str
    etag: str


def _asset(path: Path) -> Asset:
    body = path.read_bytes()
    return Asset(body, _KINDS[path.suffix], f'"{hashlib.sha256(body).hexdigest()[:16]}"')


ASSETS: Mapping[str, Asset] = {path.name: _asset(path) for path in sorted(_WEB.iterdir()) if path.suffix in _KINDS}
"""Static files by name; they have no data of this gateway."""

_templates = Environment(
    loader=FileSystemLoader(_WEB), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
_templates.filters["clock"] = lambda seconds: datetime.fromtimestamp(seconds, UTC).strftime("%H:%M:%S")
_templates.filters["basename"] = lambda place: place.rpartition("/")[2]
_templates.filters["number"] = lambda value: f"{value:,.1f}".removesuffix(".0")


def page(template: str, values: Mapping[str, object]) -> bytes:
    """Return a page; every value is escaped."""
    text = _templates.get_template(template).render({"admin": False, "signs_out": False, "here": "", **values})
    # Half a surrogate pair, which JSON of an agent may hold, has no bytes.
    return text.encode("utf-8", "replace")
