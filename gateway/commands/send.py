"""`a2a-gateway send`: send a message to an agent and print the answer, each event of a task as text."""

import mimetypes
import uuid
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from urllib.parse import quote, urlsplit

import httpx
import msgspec

from gateway.a2a.bindings.jsonrpc import NAMES
from gateway.a2a.card import CardInterface
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.fault import UpstreamProtocol
from gateway.a2a.framing.sse import SseDecoder
from gateway.a2a.json import Tree
from gateway.a2a.operation import Operation
from gateway.a2a.paths import PathCall, fits_path, rest_path
from gateway.a2a.translation import FORMS
from gateway.a2a.versions.version import Memo
from gateway.commands.find_agent import SHOW_ONE, FoundAgent, OnlyGrpc, credential, explain, find_agent, open_client
from gateway.commands.output import CommandFailed, read_input

_LONGEST_EVENT = 64 * 1024 * 1024
_LONGEST_ANSWER = 64 * 1024 * 1024

_MEMBERS = ("task", "message", "msg", "statusUpdate", "artifactUpdate")
_KINDS = {"status-update": "statusUpdate", "artifact-update": "artifactUpdate", "task": "task", "message": "message"}


@dataclass(frozen=True, slots=True)
class Shown:
    """One event as text.

    Attributes:
        text: The lines to print; may be empty.
        state: The task's state in lower case, such as `input-required`; empty without a task.
        task: The task's id, or empty.
        context: The context's id, or empty.
    """

    text: str
    state: str = ""
    task: str = ""
    context: str = ""

    def after(self, before: "Shown | None") -> "Shown":
        """Return this event with state and ids from the previous one where it has none."""
        if before is None:
            return self
        return replace(
            self,
            state=self.state or before.state,
            task=self.task or before.task,
            context=self.context or before.context,
        )


def render(result: Tree) -> Shown:
    """Read one result or event: 1.0 and 0.3 HTTP+JSON wrap it in a member, 0.3 JSON-RPC names its `kind`."""
    kind = next((member for member in _MEMBERS if isinstance(result.get(member), dict)), "")
    if kind:
        event = result[kind]
    else:
        event, kind = result, _KINDS.get(str(result.get("kind"))) or _bare(result)
    context = _word(event.get("contextId") or event.get("sessionId"))
    of_task = _word(event.get("taskId") or (event.get("id") if kind in ("statusUpdate", "artifactUpdate") else ""))
    if kind in ("message", "msg"):
        return Shown(_lines(event), "", of_task, context)
    if kind == "artifactUpdate":
        return Shown(_lines(event.get("artifact")), "", of_task, context)
    status: Tree = event["status"] if isinstance(event.get("status"), dict) else {}
    state = _state(status.get("state"))
    message = _lines(status.get("message") or status.get("update"))
    if kind == "statusUpdate":
        return Shown(f"[{state}] {message}" if message else f"[{state}]\n", state, of_task, context)
    if kind != "task":
        return Shown("(an event of an unknown kind)\n")
    artifacts = event.get("artifacts")
    text = f"task {_word(event.get('id'))}\n" + (f"[{state}] {message}" if message else f"[{state}]\n")
    text += "".join(_lines(artifact) for artifact in (artifacts if isinstance(artifacts, list) else ()))
    return Shown(text, state, _word(event.get("id")), context)


def _bare(result: Tree) -> str:
    """Return the kind of an answer of 0.1, whose events and tasks differ by their members alone."""
    if "artifact" in result:
        return "artifactUpdate"
    return "statusUpdate" if "final" in result else "task" if "status" in result else ""


def safe(text: str) -> str:
    """Return the text without control characters, except line ends and tabs: agents are not trusted."""
    return "".join(char if char.isprintable() or char in "\n\t" else "�" for char in text)


def _lines(holder: object) -> str:
    """Return the parts of a message or an artifact as lines."""
    if not isinstance(holder, dict):
        return ""
    parts = holder.get("parts") or holder.get("content")
    lines = [_part(part) for part in (parts if isinstance(parts, list) else ()) if isinstance(part, dict)]
    return "".join(line if line.endswith("\n") else line + "\n" for line in lines)


def _part(part: Tree) -> str:
    if isinstance(part.get("text"), str):
        return safe(part["text"])
    if "data" in part:
        return safe(msgspec.json.encode(part["data"]).decode())
    file: Tree = part["file"] if isinstance(part.get("file"), dict) else part
    name = file.get("filename") or file.get("name") or file.get("url") or file.get("uri") or ""
    return safe(f"(a file {name})")


def _state(value: object) -> str:
    state = safe(str(value)).removeprefix("TASK_STATE_").lower().replace("_", "-")
    return "canceled" if state == "cancelled" else state


def _word(value: object) -> str:
    return safe(value) if isinstance(value, str) else ""


Write = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Message:
    """A message to an agent, with its credential.

    Attributes:
        url: An agent's URL, or its card's.
        tenant: The A2A `tenant` field, instead of that of the card.
        task: The task that the message belongs to; None for a new one.
        raw: Whether to write the answer as JSON, one event a line.
        files: Files that are sent as parts behind the text.
        data: A JSON value that is sent as a part; None for none.
        stream: Whether to stream the answer; None for what the card promises.
    """

    url: str
    text: str
    key: str | None = None
    token: str | None = None
    tenant: str | None = None
    task: str | None = None
    context: str | None = None
    raw: bool = False
    files: tuple[Path, ...] = ()
    data: str | None = None
    stream: bool | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """The end of an answer.

    Attributes:
        agent: The name on the agent's card.
        seconds: From the request to the last byte.
        request_id: The `X-Request-Id` of the answer, or empty.
        last: The last event, with the ids of the task.
    """

    agent: str
    seconds: float
    request_id: str
    last: Shown

    @property
    def asks(self) -> bool:
        """Whether the task waits for an answer of the caller."""
        return self.last.state == "input-required"

    def as_text(self) -> str:
        """Return one line for people."""
        request = f", request {self.request_id}" if self.request_id else ""
        return f"({safe(self.agent)}, {self.seconds * 1000:.0f} ms{request})\n"


def send(outgoing: Message, write: Write) -> Sent:
    """Find the agent, send the message, and write the answer.

    Raises:
        CommandFailed: The agent cannot be found, refused the message, failed the task, or broke off.
    """
    parts = _parts(outgoing)
    headers = credential(outgoing.key, outgoing.token)
    with open_client(headers) as client:
        found = find_agent(client, outgoing.url, shown=bool(headers), tenant=outgoing.tenant)
        interface = _interface(found)
        if headers and _origin(interface.url) != _origin(found.url):
            raise CommandFailed(
                f"the card at {found.url} directs callers to {_origin(interface.url)}\n"
                "A credential goes only to the origin that was typed: use the agent's URL there."
            )
        streaming = outgoing.stream
        if streaming is None:
            streaming = (found.card.get("capabilities") or {}).get("streaming") is True
        request = _request(client, outgoing, parts, interface, streaming=streaming)
        began = monotonic()
        last: Shown | None = None
        request_id = ""
        for answer, event in _events(client, request, shown=bool(headers)):
            request_id = safe(answer.headers.get("x-request-id", ""))
            last = render(_result(event, interface.dialect.binding)).after(last)
            write(msgspec.json.encode(event).decode() + "\n" if outgoing.raw else last.text)
    if last is None:
        raise CommandFailed("the agent answered with an empty stream")
    if last.state in ("failed", "rejected", "canceled"):
        raise CommandFailed(f"the task is {last.state}")
    # A send may be answered before the task ends; a stream has to reach the end.
    if streaming and last.state in ("submitted", "working"):
        raise CommandFailed("the stream ended before the task did")
    sent = Sent(str(found.card.get("name", "")), monotonic() - began, request_id, last)
    if sent.asks and not outgoing.raw:
        write(f"(answer with --task {last.task})\n")
    return sent


def _parts(outgoing: Message) -> list[Tree]:
    """Return the parts of the message in the words of 1.0.

    Raises:
        CommandFailed: There are none, a file cannot be read, or the data is not JSON.
    """
    parts: list[Tree] = [{"text": outgoing.text}] if outgoing.text.strip() else []
    for path in outgoing.files:
        kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        parts.append({"raw": b64encode(read_input(path)).decode(), "filename": path.name, "mediaType": kind})
    if outgoing.data is not None:
        try:
            parts.append({"data": msgspec.json.decode(outgoing.data)})
        except ValueError as error:
            raise CommandFailed(f"--data is no JSON, write a value such as '{{\"a\": 1}}': {error}", code=2) from error
    if not parts:
        raise CommandFailed("the text of the message is empty: give a text, --file or --data", code=2)
    return parts


def _interface(found: FoundAgent) -> CardInterface:
    try:
        return found.interface
    except OnlyGrpc as error:
        remedy = "`send` speaks HTTP: put a gateway in front of the agent, and send there."
        raise CommandFailed(f"{error.message}\n{remedy}") from error


def _request(
    client: httpx.Client, outgoing: Message, parts: list[Tree], interface: CardInterface, *, streaming: bool
) -> httpx.Request:
    dialect = interface.dialect
    tenant = interface.tenant if outgoing.tenant is None else outgoing.tenant
    if tenant and dialect.version is not Version.V1_0:
        raise CommandFailed(f"this agent speaks A2A {dialect.version}, which has no tenant field: leave --tenant out")
    ids = {"taskId": outgoing.task, "contextId": outgoing.context}
    message = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": parts}
    message |= {name: value for name, value in ids.items() if value}
    operation = Operation.SEND_STREAMING_MESSAGE if streaming else Operation.SEND_MESSAGE
    # 1.0 waits for the end of a task, unless it is told not to; agents of 0.3 do not.
    configuration = {"configuration": {"returnImmediately": False}} if dialect.version is Version.V0_3 else {}
    memo = Memo(task_id=outgoing.task, context_id=outgoing.context, new_id=str(uuid.uuid4()))
    params = FORMS[dialect].lower_params(operation, {"message": message, **configuration}, memo)
    # 1.0 §8.3.2: exactly the tenant of the interface, in every request.
    if tenant:
        params["tenant"] = tenant
    headers = {
        "A2A-Version": dialect.version.value,
        "Accept": "text/event-stream" if streaming else "application/json",
        "Content-Type": "application/json",
    }
    if dialect.binding is Binding.JSONRPC:
        method = NAMES[operation, dialect.version]
        frame = {"jsonrpc": "2.0", "id": str(uuid.uuid4()), "method": method, "params": params}
        return client.build_request("POST", interface.url, content=msgspec.json.encode(frame), headers=headers)
    url = interface.url.rstrip("/")
    if tenant and tenant != interface.tenant and not fits_path(tenant):
        raise CommandFailed(f"this agent speaks HTTP+JSON, whose path cannot carry {tenant!r}: name another --tenant")
    if tenant:
        url += "/" + quote(tenant, safe="")
    url += rest_path(PathCall(operation), dialect.version)
    return client.build_request("POST", url, content=msgspec.json.encode(params), headers=headers)


def _events(client: httpx.Client, request: httpx.Request, *, shown: bool) -> Iterator[tuple[httpx.Response, Tree]]:
    url = str(request.url)
    try:
        answer = client.send(request, stream=True)
        try:
            if answer.is_success and answer.headers.get("content-type", "").startswith("text/event-stream"):
                for event in _streamed(answer):
                    yield answer, event
                return
            body = b""
            for piece in answer.iter_bytes():
                body += piece
                if len(body) > _LONGEST_ANSWER:
                    raise CommandFailed("the answer is too long")
            yield answer, _single(answer, body, shown=shown)
        finally:
            answer.close()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise explain(error, url) from error


def _streamed(answer: httpx.Response) -> Iterator[Tree]:
    decoder = SseDecoder(_LONGEST_EVENT)
    try:
        for piece in answer.iter_bytes():
            for event in decoder.feed(piece):
                content = event.read()
                if content is not None:
                    yield _event(content[1], answer)
    except UpstreamProtocol as fault:
        raise CommandFailed(fault.message) from fault


def _single(answer: httpx.Response, body: bytes, *, shown: bool) -> Tree:
    if answer.is_redirect:
        raise CommandFailed(f"the agent redirects to {answer.headers.get('location', 'nowhere')}")
    if answer.is_success:
        return _event(body, answer)
    hint = f"\n{SHOW_ONE}" if answer.status_code == httpx.codes.UNAUTHORIZED and not shown else ""
    try:
        tree = msgspec.json.decode(body)
    except ValueError:
        tree = None
    # 0.3 HTTP+JSON agents put code and message at the top.
    error = tree.get("error", tree) if isinstance(tree, dict) else None
    text = f"HTTP {answer.status_code} {answer.reason_phrase}" if error is None else _error_text(error)
    raise CommandFailed(f"{text}{_request_id(answer)}{hint}")


def _event(data: bytes, answer: httpx.Response) -> Tree:
    try:
        tree = msgspec.json.decode(data)
    except ValueError as error:
        raise CommandFailed(f"the answer is not JSON{_request_id(answer)}") from error
    if not isinstance(tree, dict):
        raise CommandFailed(f"the answer is not a JSON object{_request_id(answer)}")
    # JSON-RPC errors come with HTTP 200, and those of a stream as its last event.
    if "error" in tree:
        raise CommandFailed(f"{_error_text(tree['error'])}{_request_id(answer)}")
    return tree


def _result(event: Tree, binding: Binding) -> Tree:
    result = event.get("result") if binding is Binding.JSONRPC else event
    if not isinstance(result, dict):
        raise CommandFailed("the answer is not an A2A answer")
    return result


def _error_text(error: object) -> str:
    if not isinstance(error, dict):
        return "the agent answered with an error"
    details = error.get("data") or error.get("details")
    reasons = [
        str(detail["reason"])
        for detail in (details if isinstance(details, list) else [])
        if isinstance(detail, dict) and isinstance(detail.get("reason"), str)
    ]
    text = " ".join([f"error {error.get('code', '')}".strip(), *reasons[:1]]) + f": {error.get('message', '')}"
    return safe(text)


def _request_id(answer: httpx.Response) -> str:
    value = answer.headers.get("x-request-id")
    return f" (request {safe(value)})" if value else ""


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()
