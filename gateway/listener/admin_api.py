"""The operations of the admin listener: one table, from which its routes and its OpenAPI document are made."""

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import msgspec
from starlette.routing import Route

from gateway import __version__
from gateway.catalog.render import ASSETS
from gateway.config.routes import Inquiry
from gateway.listener.try_it import TryItMessage

Media = Literal["application/json", "text/plain", "text/html", "text/event-stream"]
_SCHEMA = "#/components/schemas/{name}"


class LogLevel(msgspec.Struct, forbid_unknown_fields=True):
    """The least severe level that the gateway's own log tells."""

    level: Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path.

    Attributes:
        answers: The meaning of each status; the first is that of success.
        media: The media type of a good answer.
        body: The type of the request body, which is JSON; None for no body.
        answer: The type of a good answer in JSON; None where it is not fixed.
        query: The query parameters, each with its meaning.
        is_open: Whether no admin token is needed.
    """

    method: Literal["GET", "POST", "PUT"]
    path: str
    name: str
    summary: str
    answers: dict[int, str]
    media: Media = "application/json"
    body: type[msgspec.Struct] | None = None
    answer: type[msgspec.Struct] | None = None
    query: dict[str, str] | None = None
    is_open: bool = False


_VERBOSE = {"verbose": "Answer in JSON, with each check."}
_NOT_READY = "Draining, starting, or the state cannot be used."
_SPREAD = {
    200: "Done, in all workers.",
    202: "Done here; as many workers as `unheard` says have not confirmed it in time.",
}

OPERATIONS: tuple[Operation, ...] = (
    Operation(
        "GET", "/-/live", "live", "Whether the process runs.", {200: "It does."}, "text/plain",
        query=_VERBOSE, is_open=True,
    ),
    Operation(
        "GET", "/-/ready", "ready", "Whether requests are to be sent here.", {200: "Ready.", 503: _NOT_READY},
        "text/plain", query=_VERBOSE, is_open=True,
    ),
    Operation(
        "GET", "/-/started", "is_started", "Whether the gateway has begun to take requests.",
        {200: "It has.", 503: "It has not."}, "text/plain", query=_VERBOSE, is_open=True,
    ),
    Operation(
        "GET", "/metrics", "show_metrics", "The metrics, for Prometheus.", {200: "The metrics."}, "text/plain"
    ),
    Operation(
        "GET", "/-/config", "config", "The configuration that runs, without secrets.",
        {200: "It, its hash, the last error, and what needs a restart."},
    ),
    Operation("GET", "/-/agents", "agents", "The agents: cards, health, replicas.", {200: "The agents."}),
    Operation(
        "POST", "/-/route", "route", "Where a request would go, and why.",
        {200: "The agent or the reason of the refusal.", 400: "This is no question.", 413: "It is too long."},
        body=Inquiry,
    ),
    Operation(
        "POST", "/-/reload", "reload", "Read the configuration again, in all workers.",
        {
            200: "Applied or unchanged.",
            202: "Some workers have not answered in time.",
            409: "The configuration comes from no file.",
            422: "Refused: the problems.",
        },
    ),
    Operation(
        "POST", "/-/drain", "drain",
        "Prepare for the end: `/-/ready` is 503 and connections end with their next answer, until SIGTERM.", _SPREAD,
    ),
    Operation("GET", "/-/log-level", "log_level", "The level of the own log.", {200: "It."}, answer=LogLevel),
    Operation(
        "PUT", "/-/log-level", "set_log_level", "Change the level of the own log until the next start.",
        {**_SPREAD, 400: "This is no level.", 413: "It is too long."}, body=LogLevel,
    ),
    Operation("GET", "/-/openapi.json", "openapi", "This document.", {200: "It."}),
    Operation(
        "GET", "/-/requests", "requests", "The last requests of this process.", {200: "Their log lines."},
        query={"agent": "Of this agent only.", "tenant": "Of this tenant only.", "status": "With this status only."},
    ),
    Operation(
        "GET", "/-/requests/tail", "tail", "The requests of this process as they end.",
        {200: "An event for each.", 503: "Too many follow."}, "text/event-stream",
        query={"agent": "Of this agent only.", "tenant": "Of this tenant only.", "status": "With this status only."},
    ),
    Operation(
        "POST", "/-/try/{agent}", "try_it", "Send a message to an agent, as the page does.",
        {
            200: "The agent's answer.",
            400: "This is no message.",
            403: "Not from the page, or the tenant may not be acted for.",
            404: "There is no such agent.",
            413: "It is too long.",
        },
        body=TryItMessage,
    ),
    Operation("GET", "/", "index", "The catalog page.", {200: "The page."}, "text/html"),
    Operation(
        "GET", "/agent", "agent", "The page of one agent.", {200: "The page.", 404: "There is no such agent."},
        "text/html", query={"name": "Its name."},
    ),
    Operation("GET", "/routes", "explorer", "The page that explains routes.", {200: "The page."}, "text/html"),
    Operation("GET", "/live", "live_page", "The page of the last requests.", {200: "The page."}, "text/html"),
    Operation(
        "POST", "/logout", "sign_out", "End the session of this browser.", {303: "To the catalog page."}, "text/html"
    ),
    *(
        Operation("GET", f"/{name}", "asset", "A file of the page.", {200: "The file."}, "text/plain", is_open=True)
        for name in ASSETS
    ),
)  # fmt: skip


def routes(handlers: dict[str, Any]) -> list[Route]:
    """Return the routes of all operations.

    Args:
        handlers: Serves an operation, by its name.
    """
    return [Route(each.path, handlers[each.name], methods=[each.method]) for each in OPERATIONS]


@cache
def document() -> bytes:
    """Return the OpenAPI 3.1 document."""
    types = {LogLevel, *(each.body for each in OPERATIONS if each.body is not None)}
    _, schemas = msgspec.json.schema_components(types, ref_template=_SCHEMA)
    paths: dict[str, dict[str, Any]] = {}
    for each in OPERATIONS:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    return msgspec.json.encode(
        {
            "openapi": "3.1.0",
            "info": {"title": "A2A gateway, admin listener", "version": __version__},
            "security": [{"token": []}, {"session": []}, {}],
            "paths": paths,
            "components": {
                "schemas": schemas,
                "securitySchemes": {
                    "token": {"type": "http", "scheme": "bearer", "description": "`gateway.admin.token`, if set."},
                    "session": {"type": "apiKey", "in": "cookie", "name": "a2a_gateway_admin"},
                },
            },
        }
    )


def _operation(each: Operation) -> dict[str, Any]:
    answers = {str(status): {"description": words} for status, words in each.answers.items()}
    schema = {"$ref": _SCHEMA.format(name=each.answer.__name__)} if each.answer is not None else {}
    first = answers[str(next(iter(each.answers)))]
    described: dict[str, Any] = {**first, "content": {each.media: {"schema": schema}}}
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "query", "description": words, "schema": {"type": "string"}}
        for name, words in (each.query or {}).items()
    ]
    if "{agent}" in each.path:
        parameters.append({"name": "agent", "in": "path", "required": True, "schema": {"type": "string"}})
    found: dict[str, Any] = {
        "operationId": each.name if each.name != "asset" else f"asset_{each.path[1:]}",
        "summary": each.summary,
        "responses": {**answers, str(next(iter(each.answers))): described},
    }
    if not each.is_open:
        found["responses"]["401"] = {"description": "Show the admin token, or a certificate where one is required."}
    else:
        found["security"] = []
    if parameters:
        found["parameters"] = parameters
    if each.body is not None:
        body = {"$ref": _SCHEMA.format(name=each.body.__name__)}
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": body}}}
    return found
