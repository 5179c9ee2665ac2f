"""Find an agent from a URL: its card, and the interface to call."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

import httpx

from gateway.a2a.card import MAX_CARD, CardInterface, CardInvalid, parse_card, spoken
from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.json import Tree
from gateway.a2a.paths import fits_path
from gateway.commands.output import CommandFailed
from gateway.network.address import is_grpc

SHOW_ONE = "Use --key or --token."
WELL_KNOWN = ("/.well-known/agent-card.json", "/.well-known/agent.json")

# Best first: the newest version, and of that the binding that comes first on the card.
_SPOKEN = (
    {Dialect(Binding.JSONRPC, Version.V1_0), Dialect(Binding.REST, Version.V1_0)},
    {Dialect(Binding.JSONRPC, Version.V0_3), Dialect(Binding.REST, Version.V0_3)},
    {Dialect(Binding.JSONRPC, Version.V0_1)},
)


# A URL without its scheme.
_ADDRESS = re.compile(r"(?:[A-Za-z0-9.-]+\.[A-Za-z0-9-]+|localhost|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?(?:/\S*)?\Z")
_ERRNO = re.compile(r"^\[Errno -?[0-9]+\] ")


@dataclass(frozen=True, slots=True)
class FoundAgent:
    """A card and its URL."""

    card: Tree
    url: str

    @property
    def interface(self) -> CardInterface:
        """The interface to call: JSON-RPC or HTTP+JSON, the newest version first.

        Raises:
            OnlyGrpc: the card offers gRPC, and none of them.
            CommandFailed: the card offers nothing that is known.
        """
        offered = spoken(self.card)
        for dialects in _SPOKEN:
            for interface in offered:
                if interface.dialect in dialects and urlsplit(interface.url).scheme in {"http", "https"}:
                    return interface
        if any(interface.dialect.binding is Binding.GRPC for interface in offered):
            raise OnlyGrpc(f"{self.url}: the card offers gRPC alone")
        raise CommandFailed(f"{self.url}: the card offers no interface over JSON-RPC or HTTP+JSON in A2A 0.1 to 1.0")


class CardDenied(CommandFailed):
    """The card needs a credential, or another one."""


class CardMissing(CommandFailed):
    """There is no card at a URL."""


class OnlyGrpc(CommandFailed):
    """The card offers only gRPC, which `send` does not speak."""


def open_client(headers: Mapping[str, str] | None = None) -> httpx.Client:
    """Return a client that follows no redirects and ignores the environment (proxies, .netrc)."""
    timeout = httpx.Timeout(10, read=900)
    return httpx.Client(trust_env=False, follow_redirects=False, timeout=timeout, headers=headers)


def find_card(client: httpx.Client, url: str, query: str = "") -> FoundAgent:
    """Fetch the card of the agent at `url`; a `url` that ends in `.json` is that of the card.

    Args:
        query: The query string of the card, with its question mark.

    Raises:
        CommandFailed: there is no card, or it cannot be used.
    """
    check_url(url, of_card=True)
    if urlsplit(url).path.endswith(".json"):
        return FoundAgent(_parse(_fetch(client, url), url), url)
    base = url.rstrip("/")
    for path in WELL_KNOWN:
        where = base + path + query
        answer = _fetch(client, where)
        # 0.2 agents have the old name only.
        if answer.status_code != httpx.codes.NOT_FOUND:
            return FoundAgent(_parse(answer, where), where)
    raise CardMissing(f"{base}{WELL_KNOWN[0]}: there is no agent card (404)\nIs this the URL of an agent?")


def credential(key: str | None, token: str | None) -> dict[str, str]:
    """Return the header of a credential, or none.

    Raises:
        CommandFailed: there are two, or a header cannot carry it.
    """
    if key is not None and token is not None:
        raise CommandFailed("show one credential: --key or --token", code=2)
    headers = {"X-API-Key": key} if key else {}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    if not all(value.isascii() and value.isprintable() for value in headers.values()):
        raise CommandFailed("the credential holds characters that no header can carry: copy it again", code=2)
    return headers


def find_agent(client: httpx.Client, url: str, *, shown: bool, tenant: str | None) -> FoundAgent:
    """Find a card as `find_card` does, with a hint in the error message.

    Args:
        shown: Whether the client shows a credential.
        tenant: The value for the `tenant` field.

    Raises:
        CommandFailed: as `find_card`.
    """
    try:
        return find_card(client, url)
    except CardDenied as denied:
        hint = "The credential is not accepted for it." if shown else SHOW_ONE
        raise CommandFailed(f"{denied.message}\n{hint}") from denied
    except CardMissing as missing:
        if tenant is None:
            raise
        if not fits_path(tenant):
            return find_card(client, url, f"?tenant={quote(tenant, safe='')}")
        there = f"{url.rstrip('/')}/{quote(tenant, safe='')}"
        hint = (
            f"An agent that is picked by its tenant usually has its card at {there} : use that URL, without --tenant."
        )
        raise CommandFailed(f"{missing.message}\n{hint}") from missing


def check_url(url: str, *, of_card: bool = False) -> None:
    """Refuse anything but a plain http or https URL.

    Args:
        of_card: Whether a card may be named by its own URL, with a query.

    Raises:
        CommandFailed: the URL has another scheme, no host, userinfo, a query or a fragment.
    """
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable:
        hint = f"; did you mean http://{url} ?" if _ADDRESS.match(url) else ""
        if is_grpc(url):
            # Such an address cannot have a card.
            hint = "; an agent behind gRPC is written into the file, this as its `backend`"
        raise CommandFailed(f"write the URL as https://agents.example.com/support{hint}", code=2)
    if "@" in parts.netloc:
        raise CommandFailed("the URL holds a user or a password: leave them out", code=2)
    if parts.fragment or (parts.query and not (of_card and parts.path.endswith(".json"))):
        raise CommandFailed("the URL has a query or a fragment: leave it out", code=2)


def explain(error: httpx.HTTPError | httpx.InvalidURL, url: str) -> CommandFailed:
    """Return the error for a failed request to `url`."""
    origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        # "[Errno 111] Connection refused"
        return CommandFailed(f"cannot connect to {origin}: {_ERRNO.sub('', str(error)) or 'no answer'}")
    if isinstance(error, httpx.TimeoutException):
        return CommandFailed(f"{origin} did not answer in time")
    return CommandFailed(f"{origin}: {str(error) or type(error).__name__}")


def _fetch(client: httpx.Client, url: str) -> httpx.Response:
    try:
        with client.stream("GET", url, headers={"A2A-Version": "1.0"}, timeout=10) as answer:
            body = b""
            for piece in answer.iter_bytes():
                body += piece
                if len(body) > MAX_CARD:
                    raise CommandFailed(f"{url}: the card is longer than {MAX_CARD // 1024} KiB")
            # The body is decoded and complete by now.
            headers = {name: answer.headers[name] for name in ("location",) if name in answer.headers}
            return httpx.Response(answer.status_code, headers=headers, content=body)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise explain(error, url) from error


def _parse(answer: httpx.Response, url: str) -> Tree:
    if answer.is_redirect:
        raise CommandFailed(f"{url} redirects to {answer.headers.get('location', 'nowhere')}\nUse the URL there.")
    if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        raise CardDenied(f"{url}: the card needs a credential ({answer.status_code})")
    if answer.status_code != httpx.codes.OK:
        raise CommandFailed(f"{url}: the card cannot be read ({answer.status_code})")
    try:
        return parse_card(answer.content)
    except CardInvalid as error:
        raise CommandFailed(f"{url}: this is no agent card: {error}") from error
