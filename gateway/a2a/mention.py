"""Every task and context that a call names, wherever it names them, and the webhooks that it brings.

An agent hands any task to whoever names it, and agents differ in where they look. So all places count that any
generation has for an id, in both spellings of ProtoJSON, and those where a hand-written agent may look for one: beside
the message of a send, or in the query of a JSON-RPC request. What agents only keep is not looked into: parts, `data`,
and `metadata`, but for the references that the gateway itself keeps there where it speaks 0.1.

Where in the parameters, as JSON has them:

    taskId, task_id; id                     of all operations but where `id` is a push configuration's own
    contextId, context_id                   of all operations
    sessionId, session_id                   likewise, of 0.1
    name, parent                            of operations on a task: tasks/T, of 0.3
    message (request) .taskId, .contextId   of sends, and their twins
    message.referenceTaskIds                of sends, and its twin; in 0.1 what stands for it in its metadata
    referenceTaskIds                        likewise, beside the message
    pushNotificationConfig.taskId           and its twin, whatever the configuration is called and wherever it is

Over HTTP+JSON path and query are more such places; body and query name no other task than the path, or the call was
refused (`bindings.rest`). Over gRPC it is the same fields (`bindings.grpc_id`).
"""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from gateway.a2a import document, parameter
from gateway.a2a.bindings import jsonrpc
from gateway.a2a.call import Call
from gateway.a2a.dialect import Binding, Version
from gateway.a2a.document import Members
from gateway.a2a.fault import BadParams
from gateway.a2a.operation import Kind, Operation
from gateway.a2a.parameter import NOTHING, Parameters, Way
from gateway.a2a.query import named_in, query_value
from gateway.a2a.versions.v0_1 import KEPT_OF_MESSAGES

MOST_TASKS = 1000
"""Most tasks that one call may name."""


class Webhook(msgspec.Struct, frozen=True):
    """A push configuration that a call sets, or that a send brings along.

    Attributes:
        url: Empty where it has none; no such one is among `Mentions.webhooks`.
        token: Whether it has a token or credentials.
    """

    url: str
    token: bool = False


class Mentions(msgspec.Struct, frozen=True):
    """What a call names.

    Attributes:
        tasks: Each task once; the one that the call is about first, if there is one.
        references: Those of `tasks` that stand nowhere but among the references of a message, or in a push
            configuration that a send brings along.
        context: The one context, or None.
        webhooks: Those of all push configurations that have a URL.
        tokens: Whether a push configuration has a token or an authentication, and no URL.
    """

    tasks: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    context: str | None = None
    webhooks: tuple[Webhook, ...] = ()
    tokens: bool = False


NONE = Mentions()
"""Those of a call that names nothing."""


def mentions(call: Call) -> Mentions:
    """What a call names, be it a client's or one that the gateway has written for an agent.

    Raises:
        BadParams: an id or a URL is of a wrong type, two places name two contexts, two spellings of one member are
            there, or it names more than `MOST_TASKS` tasks.
        DuplicateKey: a member stands twice where one is looked for.
    """
    binding, operation = call.dialect.binding, call.operation
    if binding is Binding.GRPC:
        found: Mentions = _grpc().mentions(call)
        return found
    params = parameters(call)
    members, message, read = params.members, params.message, call.params is not NOTHING
    # Of HTTP+JSON it says what the path does, or is where a list has its context.
    quiet = not call.query or binding is Binding.REST
    # Nearly all calls end here: they name nothing, or only what they are about, which is known.
    if operation.sends:
        if quiet and not params.pushes and _IN_SEND.isdisjoint(members):
            if _IN_MESSAGE.isdisjoint(message):
                return NONE
            if read and _REFERENCES.isdisjoint(message) and call.dialect.version is not Version.V0_1:
                return Mentions((call.task_id,) if call.task_id else (), (), call.context_id)
    elif operation in _OF_TASK:
        if quiet and read and _ELSEWHERE.isdisjoint(members):
            return Mentions((call.task_id,)) if call.task_id else NONE
    elif operation.kind is Kind.CARD:
        return NONE
    return _all(call, params)


def parameters(call: Call) -> Parameters:
    """What a JSON body says: as it was read, or read again where the gateway has written it."""
    if call.params is not NOTHING or not call.body:
        return call.params
    return parameter.reread(call.operation, call.body, envelope=call.dialect.binding is Binding.JSONRPC)


def gather(
    tasks: Iterable[str | None], references: Iterable[str], context: str | None, webhooks: Iterable[Webhook | None]
) -> Mentions:
    """What these are together; what is None or empty counts as absent.

    Raises:
        BadParams: there are more than `MOST_TASKS` tasks.
    """
    named = dict.fromkeys(task for task in tasks if task)
    referred = dict.fromkeys(task for task in references if task and task not in named)
    if len(named) + len(referred) > MOST_TASKS:
        raise BadParams(f"the request names more than {MOST_TASKS} tasks")
    hooks = [hook for hook in webhooks if hook is not None]
    called = tuple(hook for hook in hooks if hook.url)
    return Mentions((*named, *referred), tuple(referred), context or None, called, len(called) < len(hooks))


def context_places(params: Parameters) -> list[tuple[Way, str]]:
    """Where parameters have their context; where they name one, its empty twin is such a place too."""
    places: list[tuple[Way, str]] = [((), name) for name in _CONTEXTS if name in params.members]
    if params.message:
        way = parameter.way_to_message(params)
        places += [(way, name) for name in _CONTEXT if name in params.message]
    said = any(document.text(way[-1][1] if way else params.members, name) is not None for way, name in places)
    return places if said else []


def task_places(params: Parameters, task: str) -> list[tuple[Way, str]]:
    """Where parameters name this task, but for references and resource names."""
    places: list[tuple[Way, str]] = [((), name) for name in ("id", *_TASK) if _says(params.members, name, task)]
    if params.message:
        way = parameter.way_to_message(params)
        places += [(way, name) for name in _TASK if _says(params.message, name, task)]
    return places


# ---- All of it -------------------------------------------------------------------------------------------------------


def _all(call: Call, params: Parameters) -> Mentions:
    operation, members, message = call.operation, params.members, params.message
    rest = call.dialect.binding is Binding.REST
    about, context = (call.task_id, call.context_id) if call.params is not NOTHING else _about(call, params)
    asked, queried = (None, None) if rest or not call.query else named_in(call.query)
    tasks = [about, *_texts(message, _TASK), *_texts(members, _TASK), asked]
    if call.query and not rest:
        tasks += _of_names(query_value(call.query, name) for name in ("name", "parent"))
    if not _names_config(operation, call.dialect.version, params):
        tasks += _texts(members, ("id",))
    references: list[str] = []
    if operation.sends:
        references = [*_list(message, *_LISTS), *_list(members, *_LISTS)]
        if call.dialect.version is Version.V0_1 and "metadata" in message:
            references += _kept_references(message["metadata"])
    else:
        tasks += _named(members)
    hooks = [_webhook(members)] if operation is Operation.CREATE_PUSH_CONFIG else []
    for way in params.pushes:
        push = way[-1][1]
        hooks.append(_webhook(push))
        inside = [*_texts(push, _TASK), *_named(push)]
        if operation.sends:
            references += inside
        else:
            tasks += inside
    context = parameter.agreed(
        "contextId",
        context,
        *_texts(message, _CONTEXT),
        *_texts(members, _CONTEXTS),
        queried,
    )
    return gather(tasks, references, context, hooks)


def _about(call: Call, params: Parameters) -> tuple[str | None, str | None]:
    """The task and the context that a call of the gateway's is about."""
    if call.dialect.binding is Binding.JSONRPC:
        return jsonrpc.ids(call.operation, call.dialect.version, params)
    if call.operation.sends:
        return parameter.ids(params.message)
    if call.operation is Operation.LIST_TASKS:
        return None, query_value(call.query, "contextId") or query_value(call.query, "context_id")
    return call.path.task_id, None


def _names_config(operation: Operation, version: Version, params: Parameters) -> bool:
    """Whether `id` is a push configuration's own: where that is flat, as in 1.0, or named beside its task."""
    if operation is Operation.CREATE_PUSH_CONFIG:
        return version is not Version.V0_1 and not params.pushes
    flat = operation in (Operation.GET_PUSH_CONFIG, Operation.DELETE_PUSH_CONFIG) and version is Version.V1_0
    return flat and "pushNotificationConfigId" not in params.members


def _texts(members: Members, names: tuple[str, ...]) -> list[str]:
    """What stands under some names, as far as it says anything."""
    return [said for name in names if name in members and (said := document.text(members, name)) is not None]


def _list(members: Members, *names: str) -> list[str]:
    """A list of ids that may stand under one of several names."""
    there = [name for name in names if name in members]
    if not there:
        return []
    if len(there) > 1:
        raise BadParams(f"{there[0]} and {there[1]} are two names of one thing", field=there[1])
    try:
        return _ids.decode(members[there[0]]) or []
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadParams(f"{there[0]} must be a list of strings", field=there[0]) from error


def _kept_references(metadata: msgspec.Raw) -> list[str]:
    """The references of a message that has no other place for them; anything else under their name is nobody's."""
    try:
        return _ids.decode(_any_object.decode(metadata)[_KEPT_REFERENCES]) or []
    except (KeyError, msgspec.DecodeError, UnicodeDecodeError):
        return []


def _named(members: Members) -> list[str]:
    """The tasks that resource names of 0.3 name, where there are such names."""
    return _of_names(_texts(members, ("name", "parent")))


def _of_names(names: Iterable[str | None]) -> list[str]:
    found = [_RESOURCE.match(name) for name in names if name]
    return [each[1] for each in found if each is not None]


def _webhook(push: Members) -> Webhook | None:
    if _IN_WEBHOOK.isdisjoint(push):
        return None
    url, token, shown = document.text(push, "url"), document.text(push, "token"), {}
    if push.get("authentication", _NULL) != _NULL:
        shown = document.open_object(push["authentication"], "authentication")
    if token is None:
        token = document.text(shown, "credentials")
    return Webhook(url or "", token is not None) if url or token or shown else None


def _says(members: Members, name: str, text: str) -> bool:
    return name in members and document.text(members, name) == text


_TASK = ("taskId", "task_id")
_CONTEXT = ("contextId", "context_id")
_CONTEXTS = ("contextId", "context_id", "sessionId", "session_id")
_LISTS = ("referenceTaskIds", "reference_task_ids")
_REFERENCES = frozenset(_LISTS)
_IN_MESSAGE = _REFERENCES.union(_TASK, _CONTEXT)
_IN_SEND = frozenset({"id", *_TASK, *_CONTEXTS, *_LISTS})
_ELSEWHERE = frozenset({*_TASK, *_CONTEXTS, "name", "parent"})
_OF_TASK = frozenset({Operation.GET_TASK, Operation.CANCEL_TASK, Operation.SUBSCRIBE_TO_TASK})
_RESOURCE = re.compile("tasks/([^/]+)")
_NULL = msgspec.Raw(b"null")
_IN_WEBHOOK = frozenset({"url", "token", "authentication"})
_KEPT_REFERENCES = next(kept for kept, name in KEPT_OF_MESSAGES if name == "referenceTaskIds")
_ids = msgspec.json.Decoder(list[str] | None)
_any_object = msgspec.json.Decoder(Members)


def _grpc() -> Any:  # noqa: ANN401 - a module
    from gateway.a2a.bindings import grpc_id  # noqa: PLC0415 - its schema classes cost a tenth of a second

    return grpc_id
