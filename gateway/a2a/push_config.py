"""Find, read and replace the push configurations of calls and answers, in the hub's words.

In the hub it is flat (1.0 §4.3.1): `{"id"?, "taskId"?, "url", "token"?, "authentication"?}`, the last of which is
`{"scheme", "credentials"?}`. It is all there is to the parameters that create one, and stands in a send under
`configuration.taskPushNotificationConfig`, where the task is the message's.
"""

import re

import msgspec

from gateway.a2a.fault import BadParams
from gateway.a2a.json import Tree
from gateway.a2a.operation import Kind, Operation

LONGEST_ID = 512
"""Characters of the id of a configuration."""
LONGEST_TOKEN = 4096
"""Characters of a token, and of the credentials of an authentication."""

# Text that may go into a header as it is: RFC 9110 §5.5 without the bytes that are no ASCII, and §5.6.2.
_VALUE = re.compile(r"[!-~]+(?:[ \t]+[!-~]+)*")
_SCHEME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")


class PushConfig(msgspec.Struct, frozen=True):
    """A client's subscription to a task's notifications; members that it left out are empty.

    Attributes:
        task_id: Empty in a send that begins a task.
        token: Proves to the client that a notification is one.
        scheme: The authentication scheme of calls to the webhook, as `Bearer`; before 1.0 credentials may come alone.
        credentials: The credentials of calls to the webhook.
    """

    url: str
    id: str = ""
    task_id: str = ""
    token: str = ""
    scheme: str = ""
    credentials: str = ""

    def __repr__(self) -> str:
        """Return the ids alone: the URL and the rest may be somebody's key."""
        return f"PushConfig(id={self.id!r}, task_id={self.task_id!r})"


def read(tree: Tree) -> PushConfig:
    """Read a configuration whose values can be sent in headers.

    Raises:
        BadParams: a member is of a wrong type, too long, or cannot be sent.
    """
    authentication = tree.get("authentication")
    if authentication is None:
        authentication = {}
    if not isinstance(authentication, dict):
        raise BadParams("the authentication of a push configuration must be an object")
    config = PushConfig(
        url=_text(tree, "url"),
        id=_text(tree, "id", LONGEST_ID),
        task_id=_text(tree, "taskId"),
        token=_text(tree, "token", LONGEST_TOKEN),
        scheme=_text(authentication, "scheme"),
        credentials=_text(authentication, "credentials", LONGEST_TOKEN),
    )
    if not config.url:
        raise BadParams("a push configuration needs a url")
    for name, value in (("token", config.token), ("credentials", config.credentials)):
        if value and _VALUE.fullmatch(value) is None:
            raise BadParams(f"the {name} of a push configuration must be visible ASCII, as it is sent in a header")
    if config.scheme and _SCHEME.fullmatch(config.scheme) is None:
        raise BadParams("the scheme of a push configuration must be the name of an HTTP authentication scheme")
    return config


def write(config: PushConfig) -> Tree:
    """Return the tree of a configuration, without empty members."""
    members = {"id": config.id, "taskId": config.task_id, "url": config.url, "token": config.token}
    tree: Tree = {name: value for name, value in members.items() if value}
    shown = {"scheme": config.scheme, "credentials": config.credentials}
    authentication = {name: value for name, value in shown.items() if value}
    return {**tree, "authentication": authentication} if authentication else tree


# ---- In a call -------------------------------------------------------------------------------------------------------


def asked(operation: Operation, params: Tree) -> Tree | None:
    """Return the configuration in a call, in place; None where there is none."""
    if operation is Operation.CREATE_PUSH_CONFIG:
        return params
    if not operation.sends:
        return None
    configuration = params.get("configuration")
    config = configuration.get("taskPushNotificationConfig") if isinstance(configuration, dict) else None
    return config if isinstance(config, dict) else None


def replace_asked(operation: Operation, params: Tree, config: Tree) -> None:
    """Replace the configuration in a call."""
    if operation is Operation.CREATE_PUSH_CONFIG:
        params.clear()
        params.update(config)
    else:
        params["configuration"]["taskPushNotificationConfig"] = config


# ---- In an answer ----------------------------------------------------------------------------------------------------


def answered(operation: Operation, result: Tree) -> list[Tree]:
    """Return the configurations in an answer, in order."""
    if operation is Operation.LIST_PUSH_CONFIGS:
        configs = result.get("configs")
        return [config for config in configs if isinstance(config, dict)] if isinstance(configs, list) else []
    shows_one = operation.kind is Kind.PUSH and operation is not Operation.DELETE_PUSH_CONFIG
    return [result] if shows_one and result.get("url") else []


def replace_answered(operation: Operation, result: Tree, configs: list[Tree]) -> None:
    """Replace the configurations in an answer; an answer with one gets the first."""
    if operation is Operation.LIST_PUSH_CONFIGS:
        result["configs"] = configs
    else:
        result.clear()
        result.update(configs[0] if configs else {})


def _text(tree: Tree, name: str, longest: int | None = None) -> str:
    value = tree.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadParams(f"the {name} of a push configuration must be a string")
    if longest is not None and len(value) > longest:
        raise BadParams(f"the {name} of a push configuration must not be longer than {longest} characters")
    return value
