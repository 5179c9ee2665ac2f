"""Checks the webhooks of a call, and with `push.mode: relay` registers them.

The agent then gets a callback of the gateway instead of the webhook, and the client sees its own webhook in the agent's
answers (`push/relay.py`). A configuration is part of a call, so such calls are translated even between two sides of one
dialect.
"""

from collections.abc import Iterable

from gateway.a2a import push_config
from gateway.a2a.bindings import binding
from gateway.a2a.call import Call, ReferencedIds, Webhook
from gateway.a2a.dialect import Dialect, Version
from gateway.a2a.fault import BadParams, PushDenied, TaskNotFound
from gateway.a2a.json import Tree
from gateway.a2a.naming import Alias
from gateway.a2a.operation import Kind, Operation
from gateway.a2a.translation import FORMS
from gateway.a2a.versions.version import Memo, Misfit
from gateway.push.relay import PushRelay
from gateway.push.ssrf import WebhookPolicy
from gateway.tasks.ownership import Ownership


class Webhooks:
    """The policy for webhooks, and their relay.

    Args:
        policy: None where no webhook may be named.
        relay: None where agents call webhooks themselves.
    """

    def __init__(self, policy: WebhookPolicy | None, relay: PushRelay | None = None) -> None:
        self._policy = policy
        self._relay = relay

    async def judge(self, webhooks: Iterable[Webhook]) -> None:
        """Refuse webhooks that may not be called.

        Raises:
            PushDenied: one may not.
        """
        for webhook in webhooks:
            if self._policy is None:
                raise PushDenied("no push notifications are sent here")
            await self._policy.refuse_address(self._policy.refuse_url(webhook.url))

    def of(self, call: Call, named: ReferencedIds, ownership: Ownership | None) -> "CallWebhooks | None":
        """Return the handling of a call's push configurations; None if it needs none.

        Args:
            named: The ids and webhooks that the call names.

        Raises:
            BadParams: a push configuration has a token and no URL, so that it would not be replaced.
        """
        if self._relay is None or ownership is None:
            return None
        if named.tokens:
            raise BadParams("a push configuration needs a url")
        if not (named.webhooks or call.operation.kind is Kind.PUSH):
            return None
        return CallWebhooks(self._relay, ownership, call, named.webhooks)


class CallWebhooks:
    """The push configurations of one call.

    Attributes:
        config: The configuration for the agent that replaces the client's, in the form of the hub, or None.
    """

    def __init__(self, relay: PushRelay, ownership: Ownership, call: Call, webhooks: tuple[Webhook, ...]) -> None:
        self.config: Tree | None = None
        self._webhooks = webhooks
        self._relay = relay
        self._ownership = ownership
        self._operation = call.operation
        self._subscription: str | None = None
        self._bound = False
        self._task = ""
        self._config_id = ""

    async def register(self, call: Call, theirs: Dialect, alias: Alias | None) -> None:
        """Register the configuration of a call.

        Args:
            theirs: The dialect in which the agent is asked.
            alias: The agent's id of the task, where a client of 0.1 has named it.

        Raises:
            TaskNotFound: it is for a task that is not the caller's.
            PushDenied: the call has a second push configuration.
            PushDenied, BadParams, StateUnavailable: as `PushRelay.register`.
        """
        try:
            params = FORMS[call.dialect].lift_params(call.operation, binding.of(call.dialect).read_params(call), Memo())
        except Misfit as misfit:
            raise BadParams(str(misfit), field=misfit.field) from misfit
        config = push_config.in_call(call.operation, params)
        # It would reach the agent unchanged, because only one is replaced.
        urls = tuple(hook.url for hook in self._webhooks)
        if urls and (config is None or urls != (config.get("url") or "",)):
            raise PushDenied("a push configuration must stand once, in the place that this version of A2A has for it")
        ownership = self._ownership
        self._config_id = str(params.get("id") or "")
        if alias is None and call.operation.sends and call.dialect.version is Version.V0_1:
            task = await self._continued_task(call.task_id or "", theirs)
        else:
            task_id = call.task_id if call.operation.kind is Kind.PUSH or alias is None else alias.task_id
            if alias is not None and not alias.newer:
                task_id = alias.task_id
            task = await ownership.authorize_task(task_id, theirs.version) if task_id else None
        self._task = task or ""
        if config is None:
            return
        name, session = _names(call, theirs, alias, params)
        registered = await self._relay.register(
            config,
            ownership.owner,
            ownership.isolation.scope,
            task,
            call.dialect,
            asked=theirs.version,
            context_prefix=await ownership.load_prefix(),
            task_name=name,
            session=session,
        )
        self._subscription, self.config = registered.key, registered.config

    async def _continued_task(self, name: str, theirs: Dialect) -> str | None:
        """Return the agent's id of the task that a send of a 0.1 client continues; None where it begins one.

        Raises:
            StateUnavailable: the ledger does not answer.
        """
        if theirs.version is not Version.V0_1:
            # Agents of later versions name the tasks that they begin, which then have an alias.
            return None
        names = [name, await self._ownership.load_prefix() + name]
        owned = await self._ownership.check_list([(each, "", "") for each in names])
        return next((each for each, is_own in zip(names, owned, strict=True) if is_own), None)

    async def bind(self, task: str) -> None:
        """Bind the configuration to the task that the agent has begun.

        Raises:
            StateUnavailable: it could not be kept.
        """
        if self._subscription is not None and not self._bound and self._operation.sends:
            self._bound = True
            await self._relay.bind(self._subscription, task)

    @property
    def waits(self) -> bool:
        """Return whether the task of the configuration is not known yet."""
        return self._subscription is not None and not self._bound and self._operation.sends

    async def restore(self, result: Tree) -> None:
        """Replace the configurations in an agent's answer by the client's own; those of others are left out.

        Args:
            result: Without context prefixes.

        Raises:
            TaskNotFound: the client asked for one configuration, which belongs to another owner.
            StateUnavailable: the ledger does not answer.
        """
        operation, ownership = self._operation, self._ownership
        if operation is Operation.DELETE_PUSH_CONFIG:
            await self._relay.forget(ownership.isolation.scope, self._task, self._config_id)
            return
        restored = []
        for config in push_config.in_answer(operation, result):
            restorable = await self._relay.restore(
                config,
                ownership.owner,
                ownership.isolation.scope,
                task=self._task,
                by_principal=ownership.isolation.by_principal,
            )
            if restorable is not None:
                restored.append(ownership.prefix.remove_from_tree(restorable))
        if operation is Operation.GET_PUSH_CONFIG and not restored:
            raise TaskNotFound("the task has no push configuration")
        push_config.replace_in_answer(operation, result, restored)
        self._bound = True

    async def answered(self) -> None:
        """Bind the webhook to the task that a send continues, whose answer names none.

        Raises:
            StateUnavailable: it could not be kept, or expires later.
        """
        if self._task:
            await self.bind(self._task)
        else:
            await self.end()

    async def end(self) -> None:
        """Drop the subscription, because the agent has not accepted it.

        Raises:
            StateUnavailable: it expires later.
        """
        if self._subscription is not None and not self._bound:
            await self._relay.release(self._subscription)


def _names(call: Call, theirs: Dialect, alias: Alias | None, params: Tree) -> tuple[str, str]:
    """Return a 0.1 client's ids of its task and its context, where the agent has other ones; else empty.

    Args:
        params: Those of the call, in the hub's words.
    """
    if alias is not None:
        return ("", "") if alias.newer else (call.task_id or "", alias.session_id or "")
    if call.dialect.version is not Version.V0_1 or theirs.version is Version.V0_1 or not call.operation.sends:
        return "", ""
    return call.task_id or "", params["message"].get("contextId") or ""
