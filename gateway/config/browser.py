"""Browsers' pages that may call (`gateway.cors`)."""

import re

from gateway.config.address import read_url
from gateway.config.finding import Findings
from gateway.config.limit import Cors
from gateway.config.model import Config
from gateway.config.problem import KeyPath, printable

_AT: KeyPath = ("gateway", "cors")
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_DEFAULT_PORT = {"http": 80, "https": 443}
# What browsers never let a page set, and what no header that passes here is called.
_NEVER = re.compile(
    r"(?i)(?:proxy-.*|sec-.*|access-control-.*|host|origin|cookie|connection|te|upgrade|content-length)"
)


def check_browsers(config: Config, findings: Findings) -> None:
    """Find what is wrong with the permissions of pages."""
    cors = config.gateway.cors
    if cors is None:
        return
    if not cors.origins:
        findings.error((*_AT, "origins"), "no origin may call", "name some, or remove `cors`")
    for number, origin in enumerate(cors.origins):
        _origin(origin, (*_AT, "origins", number), findings)
    _anyone(cors, findings)
    for number, name in enumerate(cors.headers):
        if _TOKEN.fullmatch(name) is None or name == "*" or "_" in name or _NEVER.fullmatch(name) is not None:
            fact = f"{printable(name)!r} is no header that a page can send to an agent"
            findings.error((*_AT, "headers", number), fact, "write a header name such as X-Region")


def _origin(origin: str, at: KeyPath, findings: Findings) -> None:
    if origin == "*":
        return
    if origin == "null":
        fact = "'null' is the origin of every sandboxed page and local file"
        findings.error(at, fact, "serve the page from an origin of its own, and name that")
        return
    try:
        parts = read_url(origin)
    except ValueError as error:
        findings.error(at, f"the origin {error.args[0]}", "write it as https://host[:port], as browsers send it")
        return
    # Browsers write an origin so, and it is compared byte by byte.
    named = parts.netloc if parts.port is None else parts.netloc.rpartition(":")[0]
    port = "" if parts.port in (None, _DEFAULT_PORT[parts.scheme]) else f":{parts.port}"
    written = f"{parts.scheme}://{named.lower()}{port}"
    if origin != written:
        findings.error(at, f"no browser writes the origin {printable(origin)!r} so", f"write {written}")


def _anyone(cors: Cors, findings: Findings) -> None:
    if "*" not in cors.origins:
        return
    if cors.credentials:
        fact = "every page in the world could call with the credentials of whoever looks at it"
        findings.error((*_AT, "credentials"), fact, "name the origins instead of `*`, or remove `credentials`")
    elif len(cors.origins) > 1:
        findings.error((*_AT, "origins"), "`*` is every origin already", "keep `*` alone, or remove it")
