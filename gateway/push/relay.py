"""The gateway between an agent and the webhooks of its clients: `push.mode: relay`.

A client sets a push configuration, or brings one in a send: the line *adopts* it, and the agent is given a callback of
the gateway's own instead, by which it learns nothing of the client's webhook. When the agent has agreed, the line
*restores* what it answers, or *binds* the hook to the task that a send has begun; where it has not, the hook is let go.
What the agent posts to the callback is *received*: checked, put into the words of the client's generation, and left to
the outbox.

| posted to a callback | status |
|---|---|
| at no hook's path, or without the hook's token: the two look alike | 404 |
| longer than a notification may be | 413 |
| no notification, or nothing that the client's generation could be told | 400 |
| of another task, or of one that is another's | 403 |
| for an owner that may not call the agent any more | 403 |
| while the store does not answer, or too many wait for the webhook | 503 |
| taken, or had before | 200 |
"""

import asyncio
import hmac
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from msgspec.structs import replace

from gateway.a2a import notification, push_config
from gateway.a2a.dialect import Dialect, Version
from gateway.a2a.fault import Fault, PushDenied, StateUnavailable, UpstreamProtocol
from gateway.a2a.progress import Progress
from gateway.a2a.push_config import PushConfig
from gateway.a2a.tree import Tree
from gateway.push.account import Account
from gateway.push.delivery import Result
from gateway.push.hook import MOST, OVER, PENDING, SETTLED, Hook, Hooks, digest, new_secrets
from gateway.push.outbox import NOT_ENTITLED, Outbox, Queued
from gateway.push.webhook import Target, WebhookPolicy
from gateway.tasks.store import LONGEST_ID, Owner, Store
from gateway.telemetry.audit import Event

PATH: Final = "/-/push/"
"""Where callbacks are, below the public URL; the hook's id is behind it."""
MOST_BODY: Final = 1024 * 1024
"""Bytes of a notification, by default."""

_ID: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9._~-]{1,256}")
# From here on a body is translated in a thread.
_ASIDE: Final = 64 * 1024

logger = logging.getLogger("gateway.push")


class Adopted(NamedTuple):
    """What stands for a client's configuration.

    Attributes:
        hook_id: What the line binds or lets go; it calls nobody's callback.
        config: What the agent is given, in the hub's words.
    """

    hook_id: str
    config: Tree


class PushRelay:
    """Stands in for webhooks.

    Args:
        public_url: Where agents reach the gateway.
        max_per_task: Most webhooks of one task.
        account: How much tenants have.
        entitled: Whether the owner of a hook may still call its agent.
        meet: Told the hook and what a notification tells, before anything of it leaves: writes down whose the task is,
            and gives whether that is the hook's owner.
        count: As that of `Outbox`; told `refused` of notifications that are not taken.
        audit: Told of each notification that is not the owner's to get, or shows no token, and why it is refused.
        linger: Seconds for which a hook is kept when its task has ended: longer than a notification may be on its way.
        wall: Unix seconds.

    Attributes:
        max_body: Bytes of a notification; who reads it need not read more.
    """

    def __init__(
        self,
        store: Store,
        policy: WebhookPolicy,
        public_url: str,
        outbox: Outbox,
        *,
        max_per_task: int = 3,
        max_body: int = MOST_BODY,
        account: Account | None = None,
        entitled: Callable[[Hook], bool] = lambda _hook: True,
        meet: Callable[[Hook, Progress], Awaitable[bool]],
        count: Callable[[str, str], None] = lambda _agent, _result: None,
        audit: Callable[[Event, Hook, str], None] = lambda _event, _hook, _words: None,
        linger: int = OVER,
        wall: Callable[[], float] = time.time,  # noqa: TID251 - hooks outlive the process
    ) -> None:
        self.max_body = max_body
        self._account = account = Account(store) if account is None else account
        self._hooks = Hooks(store, lambda tenant: account.hooked(tenant, -1))
        self._policy = policy
        self._prefix = public_url.rstrip("/") + PATH
        self._outbox = outbox
        self._max_per_task = max_per_task
        self._entitled = entitled
        self._meet = meet
        self._count = count
        self._audit = audit
        self._linger = linger
        self._wall = wall

    def change(self, policy: WebhookPolicy, *, max_per_task: int, linger: int) -> None:
        """Go on with other terms."""
        self._policy = policy
        self._max_per_task = max_per_task
        self._linger = linger

    # ---- The line --------------------------------------------------------------------------------------------------

    async def adopt(
        self,
        config: Tree,
        owner: Owner,
        scope: str,
        task_id: str | None,
        dialect: Dialect,
        *,
        asked: Version | None = None,
        mark: str = "",
        name: str = "",
        session: str = "",
    ) -> Adopted:
        """Keep a client's configuration, and give one for the agent in its place.

        Args:
            config: In the hub's words.
            task_id: What the agent calls the task; None where it is still to begin.
            dialect: The client's.
            asked: The generation in which the agent is asked.
            mark: What stands in the agent's ids before those of the client.
            name: What a client of 0.1 calls the task, where the agent calls it otherwise.
            session: Likewise for the context.

        Raises:
            PushDenied: the webhook may not be called, or the task or the tenant has as many as it may have.
            BadParams: it is no configuration.
            StateUnavailable: it could not be kept.
        """
        told = push_config.read(config)
        # What an agent calls a configuration without an id would be its own taste; most call it as its task.
        wanted = replace(told, task_id=task_id or "", id=told.id or task_id or "")
        target = self._policy.refuse_url(wanted.url)
        if self._is_ours(target):
            raise PushDenied("a webhook must not be one of the gateway's own")
        if wanted.task_id:
            await self._refuse_many(scope, wanted)
        await self._policy.refuse_address(target)
        secret, now = new_secrets(), int(self._wall())
        hook = Hook(
            key=digest(secret.id),
            proof=digest(secret.token),
            scope=scope,
            owner=owner,
            config=wanted,
            version=dialect.version,
            asked=asked,
            mark=mark,
            name=name,
            session=session,
            made=now,
            until=now + PENDING,
        )
        await self._add(hook)
        # By the one or the other, whichever the agent sends: 1.0 demands the second, SDKs have the habit of the first.
        given = PushConfig(
            url=self._prefix + secret.id,
            id=wanted.id,
            task_id=wanted.task_id if told.task_id else "",
            token=secret.token,
            scheme="Bearer",
            credentials=secret.token,
        )
        return Adopted(hook.key, push_config.write(given))

    async def bind(self, hook_id: str, task_id: str) -> None:
        """The agent has taken the send that brought a configuration, and this is what it calls the task.

        Raises:
            StateUnavailable: it could not be kept.
        """
        hook = await self._hooks.find(hook_id)
        if hook is not None and not (hook.settled and hook.task == task_id):
            await self._hooks.settle(hook, int(self._wall()), task_id=task_id)

    async def release(self, hook_id: str) -> None:
        """The agent has refused the call that brought a configuration, or made no task of it.

        A hook that the agent has called meanwhile stays: it has agreed, even if its answer reached nobody.

        Raises:
            StateUnavailable: the hook could not be dropped.
        """
        hook = await self._hooks.find(hook_id)
        if hook is not None and not hook.settled:
            await self._hooks.drop(hook_id, hook.owner.tenant)

    async def restore(
        self, config: Tree, owner: Owner, scope: str, *, task: str = "", by_principal: bool = True
    ) -> Tree | None:
        """What a client sees of a configuration that an agent answers: its own; None for what is another's.

        Args:
            config: In the hub's words; ids with the owner's mark, or without.
            task: What the agent calls the task that it was asked about, where that is known.
            by_principal: Whether the callers of one tenant are told apart.

        Raises:
            StateUnavailable: nobody knows whose it is.
        """
        url, config_id, task_id = (_text(config, name) for name in ("url", "id", "taskId"))
        if not url.startswith(self._prefix) or _ID.fullmatch(url[len(self._prefix) :]) is None:
            return None
        hook = await self._hooks.find(digest(url[len(self._prefix) :]))
        if hook is None or hook.scope != scope:
            return None
        if task_id and hook.task and task_id not in (hook.task, hook.task.removeprefix(hook.mark)):
            return None
        if hook.owner.tenant != owner.tenant or (by_principal and hook.owner.principal != owner.principal):
            return None
        if config_id == hook.config.id.removeprefix(hook.mark):
            config_id = ""
        if config_id or not (hook.settled and hook.task):
            # In its answer to the first call the agent tells what it calls the configuration, and that it has it.
            found = hook.task or task or task_id
            hook = await self._hooks.settle(hook, int(self._wall()), id=config_id, task_id=found)
        return push_config.write(hook.config)

    async def forget(self, scope: str, task_id: str, config_id: str) -> None:
        """The agent has deleted a configuration; what was not delivered to it yet will not be.

        Raises:
            StateUnavailable: the hook could not be dropped.
        """
        for hook in await self._hooks.of(scope, task_id, MOST):
            if hook.is_called(config_id):
                await self._hooks.drop(hook.key, hook.owner.tenant)

    async def _add(self, hook: Hook) -> None:
        """Keep a new hook.

        Raises:
            PushDenied: there are as many as there may be.
        """
        tenant = hook.owner.tenant
        if not self._account.has_room(tenant):
            raise PushDenied(f"a tenant must not have more than {self._account.allowance.hooks} push configurations")
        await self._hooks.write(hook)
        self._account.hooked(tenant)
        if not hook.task:
            return
        try:
            # Once more, now that it is there: of several that come at a time, each was counted by those behind it.
            await self._refuse_many(hook.scope, hook.config)
        except Fault:
            await self._hooks.drop(hook.key, tenant)
            raise

    async def _refuse_many(self, scope: str, wanted: PushConfig) -> None:
        # One takes the place of another of the same id.
        there = await self._hooks.of(scope, wanted.task_id, MOST)
        if sum(not hook.is_called(wanted.id) for hook in there) >= self._max_per_task:
            raise PushDenied(f"a task must not have more than {self._max_per_task} push configurations")

    def _is_ours(self, target: Target) -> bool:
        ours = urlsplit(self._prefix)
        port = ours.port or (443 if ours.scheme == "https" else 80)
        return (target.host, target.port) == (ours.hostname, port) and target.path.startswith(ours.path)

    # ---- The callback ----------------------------------------------------------------------------------------------

    async def proven(self, hook_id: str, headers: Mapping[bytes, bytes]) -> Hook | None:
        """The hook of a callback, before anything of a body is read; None for 404.

        Args:
            hook_id: The last segment of the path, as it came.
            headers: By name, in lower case.

        Raises:
            StateUnavailable: nobody knows it.
        """
        hook = await self._hook_of(hook_id)
        if hook is None or _proves(hook, headers):
            return hook
        self._audit(Event.NOTIFICATION_REFUSED, hook, "it does not show the token of its callback")
        return None

    async def receive(self, hook: Hook, body: bytes) -> int:
        """The status for a notification of a hook that was `proven`; the answer has no body.

        Raises:
            StateUnavailable: it could not be kept.
        """
        if not self._entitled(hook):
            self._audit(Event.NOTIFICATION_REFUSED, hook, NOT_ENTITLED)
            return self._refuse(hook, 403, NOT_ENTITLED)
        if len(body) > self.max_body:
            return self._refuse(hook, 413, "it is too long")
        told = notification.read(body)
        task_id = "" if told is None else told.task_id or hook.task
        if told is None or not task_id or len(task_id) > LONGEST_ID:
            return self._refuse(hook, 400, "it is none")
        told = replace(told, task_id=task_id)
        if hook.task not in ("", task_id) or not await self._meet(hook, told):
            self._audit(Event.NOTIFICATION_REFUSED, hook, "it is of another task")
            return self._refuse(hook, 403, "it is of another task")
        if not hook.settled:
            # The agent was quicker than its own answer, which may have been lost, too.
            hook = await self._hooks.settle(hook, int(self._wall()), task_id=task_id)
        try:
            shown = await self._shown(hook, body)
        except UpstreamProtocol as fault:
            return self._refuse(hook, 400, fault.detail or fault.message)
        if shown is not None:
            content_type = notification.CONTENT_TYPES[hook.version]
            task = hook.name or task_id.removeprefix(hook.mark)
            if await self._outbox.enqueue(hook, shown, task=task, content_type=content_type) is Queued.FULL:
                return self._refuse(hook, 503, "too many wait for its webhook")
        await self._keep_on(hook, told)
        return 200

    async def challenge(self, hook_id: str, query: str) -> bytes | None:
        """What a callback answers to a GET that asks whether somebody is there; None for 404.

        Agents of 0.1 send a `validationToken` before they agree to a webhook, and want it back.

        Args:
            query: Raw, without the question mark.
        """
        asked = dict(parse_qsl(query, max_num_fields=8)) if len(query) <= 1024 else {}
        token = asked.get("validationToken", "")
        if _CHALLENGE.fullmatch(token) is None:
            return None
        try:
            hook = await self._hook_of(hook_id)
        except StateUnavailable:
            return None
        return None if hook is None or not self._entitled(hook) else token.encode("ascii")

    async def _hook_of(self, hook_id: str) -> Hook | None:
        return None if _ID.fullmatch(hook_id) is None else await self._hooks.find(digest(hook_id))

    async def _shown(self, hook: Hook, body: bytes) -> bytes | None:
        """The notification as the client reads it; None where its generation has none for it.

        Raises:
            UpstreamProtocol: it is not what its generation says.
        """
        mark = hook.mark.encode("ascii")
        if mark:
            body = body.replace(mark, b"")

        def translated() -> bytes | None:
            task_id = hook.task.removeprefix(hook.mark)
            return notification.translate(
                body, hook.version, asked=hook.asked, task_id=task_id, name=hook.name, session=hook.session
            )

        return translated() if len(body) < _ASIDE else await asyncio.to_thread(translated)

    async def _keep_on(self, hook: Hook, told: Progress) -> None:
        """Keep a hook for as long as its task may go on, and then for a while."""
        now = int(self._wall())
        if told.state in notification.TERMINAL and told.event in ("task", "status"):
            if not hook.over:
                await self._hooks.rewrite(replace(hook, over=True, until=now + self._linger))
        elif not hook.over and hook.until - now < SETTLED // 2:
            await self._hooks.rewrite(replace(hook, until=now + SETTLED))

    def _refuse(self, hook: Hook, status: int, words: str) -> int:
        self._count(hook.agent, Result.REFUSED.value)
        logger.warning(
            "a notification of agent %s, for a task of tenant %s, was refused: %s",
            hook.agent, hook.owner.tenant, words,
        )  # fmt: skip
        return status


def _proves(hook: Hook, headers: Mapping[bytes, bytes]) -> bool:
    """Whether a request has the token that the agent was given, in either place where it may stand."""
    token = headers.get(b"x-a2a-notification-token")
    scheme, _, credentials = headers.get(b"authorization", b"").partition(b" ")
    shown = [] if token is None else [token]
    if scheme.lower() == b"bearer" and credentials:
        shown.append(credentials.strip())
    # All of them are compared, and by what they hash to: how long it takes tells nothing of the token.
    proofs = [hmac.compare_digest(digest(each.decode("latin-1")), hook.proof) for each in shown]
    if any(proofs):
        return True
    # Agents of 0.1 sign with keys of their own, and show the token nowhere: the path is what they were given.
    return hook.asked is Version.V0_1 and token is None


def _text(tree: Tree, name: str) -> str:
    value = tree.get(name)
    return value if isinstance(value, str) else ""
