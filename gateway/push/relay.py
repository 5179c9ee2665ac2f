"""`push.mode: relay`: registration of webhooks, and the callbacks that agents post notifications to.

A client sets a push configuration, or includes one in a send. The gateway registers a *subscription*, and the agent
gets a callback of the gateway instead of the webhook. When the agent has accepted it, the subscription is confirmed,
and bound to the task that a send has begun; otherwise it is released. Notifications that the agent posts to the
callback are checked, translated into the client's generation, and queued.

| posted to a callback | status |
|---|---|
| at no subscription's path, or without its token: the two look alike | 404 |
| longer than a notification may be | 413 |
| not a notification, or one that the client's version cannot express | 400 |
| of another task, or of a task of another owner | 403 |
| for an owner that may not call the agent any more | 403 |
| while the store does not answer, or too many wait for the webhook | 503 |
| accepted, or a duplicate | 200 |
"""

import asyncio
import hmac
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from msgspec.structs import replace

from gateway.a2a import notification, push_config
from gateway.a2a.dialect import Dialect, Version
from gateway.a2a.fault import Fault, PushDenied, StateUnavailable, UpstreamProtocol
from gateway.a2a.json import Tree
from gateway.a2a.progress import Progress
from gateway.a2a.push_config import PushConfig
from gateway.a2a.task_state import TERMINAL
from gateway.push.delivery import DeliveryResult
from gateway.push.queue import NOT_ENTITLED, DeliveryQueue, Enqueued, NotificationUsage
from gateway.push.ssrf import WebhookPolicy
from gateway.push.subscription import CONFIRMED, ENDED, PENDING, Subscription, Subscriptions, digest
from gateway.tasks.store import LONGEST_ID, Owner, Store
from gateway.telemetry.audit_log import AuditEvent

PATH: Final = "/-/push/"
"""The path of callbacks below the public URL; the callback's id follows."""
MOST_BODY: Final = 1024 * 1024
"""Bytes of a notification, by default."""

_ID: Final = re.compile(r"[A-Za-z0-9_-]{43}")
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9._~-]{1,256}")
# Bytes from which on a body is translated in a thread.
_LONG: Final = 64 * 1024

logger = logging.getLogger("gateway.push")


class Registered(NamedTuple):
    """The subscription for a client's configuration.

    Attributes:
        key: The key of the subscription; it does not reveal the callback.
        config: The configuration for the agent, in the hub's words.
    """

    key: str
    config: Tree


class PushRelay:
    """Registers webhooks, and receives notifications for them.

    Args:
        public_url: The URL at which agents reach the gateway.
        entitled: Returns whether the owner of a subscription may still call its agent.
        observe: Called with the subscription and the content of a notification before it is forwarded: records the
            owner of the task, and returns whether it is the subscription's owner.
        count: As that of `DeliveryQueue`; told `refused` of notifications that are not taken.
        audit: Called for each refused notification (of another owner, or without a token), with the reason.
        wall: Unix seconds.

    Attributes:
        policy: Webhooks that may be called; replaced when the configuration is reloaded, as the two that follow.
        max_per_task: Most webhooks of one task.
        linger: Seconds for which a subscription is kept after its task has ended: longer than a notification may wait.
        max_body: Most bytes of a notification.
    """

    def __init__(
        self,
        store: Store,
        policy: WebhookPolicy,
        public_url: str,
        queue: DeliveryQueue,
        *,
        max_per_task: int = 3,
        max_body: int = MOST_BODY,
        usage: NotificationUsage | None = None,
        entitled: Callable[[Subscription], bool] = lambda _subscription: True,
        observe: Callable[[Subscription, Progress], Awaitable[bool]],
        count: Callable[[str, str], None] = lambda _agent, _result: None,
        audit: Callable[[AuditEvent, Subscription, str], None] = lambda _event, _subscription, _why: None,
        linger: int = ENDED,
        wall: Callable[[], float] = time.time,  # noqa: TID251 - subscriptions outlive the process
    ) -> None:
        self.max_body = max_body
        self._usage = usage = NotificationUsage(store) if usage is None else usage
        self._subscriptions = Subscriptions(store, lambda tenant: usage.subscribed(tenant, -1))
        self.policy = policy
        self._prefix = public_url.rstrip("/") + PATH
        self._queue = queue
        self.max_per_task = max_per_task
        self._entitled = entitled
        self._observe = observe
        self._count = count
        self._audit = audit
        self.linger = linger
        self._wall = wall

    # ---- Registration ----------------------------------------------------------------------------------------------

    async def register(
        self,
        config: Tree,
        owner: Owner,
        scope: str,
        task_id: str | None,
        dialect: Dialect,
        *,
        asked: Version | None = None,
        context_prefix: str = "",
        task_name: str = "",
        session: str = "",
    ) -> Registered:
        """Register a client's configuration, and return the one for the agent.

        Args:
            config: In the hub's words.
            task_id: The agent's id of the task; None where it is still to begin.
            dialect: The client's.
            asked: The generation in which the agent is asked.
            context_prefix, task_name, session: As those of `Subscription`.

        Raises:
            PushDenied: the webhook may not be called, or the task or the tenant has as many as it may have.
            BadParams: it is not a configuration.
            StateUnavailable: it could not be kept.
        """
        read_config = push_config.read(config)
        # Agents choose the id of a configuration without one; most use the id of its task.
        client_config = replace(read_config, task_id=task_id or "", id=read_config.id or task_id or "")
        target = self.policy.refuse_url(client_config.url)
        ours = urlsplit(self._prefix)
        port = ours.port or (443 if ours.scheme == "https" else 80)
        if (target.host, target.port) == (ours.hostname, port) and target.path.startswith(ours.path):
            raise PushDenied("a webhook must not be one of the gateway's own")
        if client_config.task_id:
            await self._refuse_many(scope, client_config)
        await self.policy.refuse_address(target)
        # The two secrets of the callback, 256 bits each.
        callback_id, token = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        now = int(self._wall())
        subscription = Subscription(
            key=digest(callback_id),
            proof=digest(token),
            scope=scope,
            owner=owner,
            config=client_config,
            version=dialect.version,
            asked=asked,
            context_prefix=context_prefix,
            task_name=task_name,
            session=session,
            made=now,
            until=now + PENDING,
        )
        await self._add(subscription)
        # Agents send the token in one of two ways: 1.0 demands the credentials, SDKs send the token header.
        agent_config = PushConfig(
            url=self._prefix + callback_id,
            id=client_config.id,
            task_id=client_config.task_id if read_config.task_id else "",
            token=token,
            scheme="Bearer",
            credentials=token,
        )
        return Registered(subscription.key, push_config.write(agent_config))

    async def bind(self, key: str, task_id: str) -> None:
        """Confirm a subscription: the agent has accepted the send with it, and given the task this id.

        Raises:
            StateUnavailable: it could not be kept.
        """
        subscription = await self._subscriptions.find(key)
        if subscription is not None and not (subscription.confirmed and subscription.task == task_id):
            await self._subscriptions.confirm(subscription, int(self._wall()), task_id=task_id)

    async def release(self, key: str) -> None:
        """Drop a subscription: the agent has refused its call, or answered it without a task.

        A subscription with a notification of the agent stays: the agent has accepted it, even if its answer was lost.

        Raises:
            StateUnavailable: it could not be dropped.
        """
        subscription = await self._subscriptions.find(key)
        if subscription is not None and not subscription.confirmed:
            await self._subscriptions.drop(key, subscription.owner.tenant)

    async def restore(
        self, config: Tree, owner: Owner, scope: str, *, task: str = "", by_principal: bool = True
    ) -> Tree | None:
        """Return the client's own configuration for one in an agent's answer; None if it belongs to another owner.

        Args:
            config: In the hub's words; ids with the owner's context prefix, or without.
            task: The agent's id of the task that it was asked about, where that is known.
            by_principal: Whether the callers of one tenant are told apart.

        Raises:
            StateUnavailable: the owner cannot be looked up.
        """
        values = (config.get(name) for name in ("url", "id", "taskId"))
        url, config_id, task_id = (each if isinstance(each, str) else "" for each in values)
        found = await self._find(url.removeprefix(self._prefix)) if url.startswith(self._prefix) else None
        if found is None or found.scope != scope:
            return None
        if task_id and found.task and task_id not in (found.task, found.task.removeprefix(found.context_prefix)):
            return None
        if found.owner.tenant != owner.tenant or (by_principal and found.owner.principal != owner.principal):
            return None
        if config_id == found.config.id.removeprefix(found.context_prefix):
            config_id = ""
        if config_id or not (found.confirmed and found.task):
            # With its first answer the agent accepts and names the configuration.
            named = found.task or task or task_id
            found = await self._subscriptions.confirm(found, int(self._wall()), id=config_id, task_id=named)
        return push_config.write(found.config)

    async def forget(self, scope: str, task_id: str, config_id: str) -> None:
        """Drop a configuration that the agent has deleted, with all its waiting notifications.

        Raises:
            StateUnavailable: it could not be dropped.
        """
        for each in await self._subscriptions.of(scope, task_id):
            if each.is_called(config_id):
                await self._subscriptions.drop(each.key, each.owner.tenant)

    async def _add(self, subscription: Subscription) -> None:
        """Write a new subscription.

        Raises:
            PushDenied: the quota is used up.
        """
        tenant = subscription.owner.tenant
        if not self._usage.has_room(tenant):
            raise PushDenied(f"a tenant must not have more than {self._usage.quota.subscriptions} push configurations")
        await self._subscriptions.write(subscription)
        self._usage.subscribed(tenant)
        if not subscription.task:
            return
        try:
            # Checked again after the write, which counts subscriptions that were written at the same time.
            await self._refuse_many(subscription.scope, subscription.config)
        except Fault:
            await self._subscriptions.drop(subscription.key, tenant)
            raise

    async def _refuse_many(self, scope: str, config: PushConfig) -> None:
        # A new configuration replaces one with the same id.
        there = await self._subscriptions.of(scope, config.task_id)
        if sum(not each.is_called(config.id) for each in there) >= self.max_per_task:
            raise PushDenied(f"a task must not have more than {self.max_per_task} push configurations")

    # ---- The callback ----------------------------------------------------------------------------------------------

    async def authenticate(self, callback_id: str, headers: Mapping[bytes, bytes]) -> Subscription | None:
        """Return the subscription of a callback, before its body is read; None for 404.

        Args:
            callback_id: The last segment of the path, as it came.
            headers: By name, in lower case.

        Raises:
            StateUnavailable: the store cannot be read.
        """
        subscription = await self._find(callback_id)
        if subscription is None or _is_authentic(subscription, headers):
            return subscription
        self._audit(AuditEvent.NOTIFICATION_REFUSED, subscription, "it does not show the token of its callback")
        return None

    async def receive(self, subscription: Subscription, body: bytes) -> int:
        """Return the status for a notification whose sender is authenticated; the answer has no body.

        Raises:
            StateUnavailable: it could not be kept.
        """
        if not self._entitled(subscription):
            self._audit(AuditEvent.NOTIFICATION_REFUSED, subscription, NOT_ENTITLED)
            return self._refuse(subscription, 403, NOT_ENTITLED)
        if len(body) > self.max_body:
            return self._refuse(subscription, 413, "it is too long")
        progress = notification.read(body)
        task_id = "" if progress is None else progress.task_id or subscription.task
        if progress is None or not task_id or len(task_id) > LONGEST_ID:
            return self._refuse(subscription, 400, "it is none")
        progress = replace(progress, task_id=task_id)
        if subscription.task not in ("", task_id) or not await self._observe(subscription, progress):
            self._audit(AuditEvent.NOTIFICATION_REFUSED, subscription, "it is of another task")
            return self._refuse(subscription, 403, "it is of another task")
        if not subscription.confirmed:
            # It came before the agent's answer, which may also be lost.
            subscription = await self._subscriptions.confirm(subscription, int(self._wall()), task_id=task_id)
        try:
            shown = await self._translated(subscription, body)
        except UpstreamProtocol as fault:
            return self._refuse(subscription, 400, fault.detail or fault.message)
        if shown is not None:
            content_type = notification.CONTENT_TYPES[subscription.version]
            task = subscription.task_name or task_id.removeprefix(subscription.context_prefix)
            result = await self._queue.enqueue(subscription, shown, task=task, content_type=content_type)
            if result is Enqueued.FULL:
                return self._refuse(subscription, 503, "too many wait for its webhook")
        await self._prolong(subscription, progress)
        return 200

    async def challenge(self, callback_id: str, query: str) -> bytes | None:
        """Return the answer to a GET that asks whether a callback exists; None for 404.

        Agents of 0.1 send a `validationToken` before they accept a webhook, and expect it in the answer.

        Args:
            query: Raw, without the question mark.
        """
        parameters = dict(parse_qsl(query, max_num_fields=8)) if len(query) <= 1024 else {}
        token = parameters.get("validationToken", "")
        if _CHALLENGE.fullmatch(token) is None:
            return None
        try:
            subscription = await self._find(callback_id)
        except StateUnavailable:
            return None
        return None if subscription is None or not self._entitled(subscription) else token.encode("ascii")

    async def _find(self, callback_id: str) -> Subscription | None:
        return None if _ID.fullmatch(callback_id) is None else await self._subscriptions.find(digest(callback_id))

    async def _translated(self, subscription: Subscription, body: bytes) -> bytes | None:
        """Return the notification in the client's version; None if that version cannot express it.

        Raises:
            UpstreamProtocol: it breaks the rules of its version.
        """
        prefix = subscription.context_prefix
        if prefix:
            body = body.replace(prefix.encode("ascii"), b"")
        translate = partial(
            notification.translate,
            body,
            subscription.version,
            asked=subscription.asked,
            task_id=subscription.task.removeprefix(prefix),
            name=subscription.task_name,
            session=subscription.session,
        )
        return translate() if len(body) < _LONG else await asyncio.to_thread(translate)

    async def _prolong(self, subscription: Subscription, progress: Progress) -> None:
        """Keep a subscription for as long as its task may go on, and then for a while."""
        now = int(self._wall())
        if progress.state in TERMINAL and progress.event in ("task", "status"):
            if not subscription.ended:
                await self._subscriptions.rewrite(replace(subscription, ended=True, until=now + self.linger))
        elif not subscription.ended and subscription.until - now < CONFIRMED // 2:
            await self._subscriptions.rewrite(replace(subscription, until=now + CONFIRMED))

    def _refuse(self, subscription: Subscription, status: int, reason: str) -> int:
        self._count(subscription.agent, DeliveryResult.REFUSED.value)
        logger.warning(
            "a notification of agent %s, for a task of tenant %s, was refused: %s",
            subscription.agent, subscription.owner.tenant, reason,
        )  # fmt: skip
        return status


def _is_authentic(subscription: Subscription, headers: Mapping[bytes, bytes]) -> bool:
    """Return whether a request has the token of the agent, in either of its places."""
    token = headers.get(b"x-a2a-notification-token")
    scheme, _, credentials = headers.get(b"authorization", b"").partition(b" ")
    shown = [] if token is None else [token]
    if scheme.lower() == b"bearer" and credentials:
        shown.append(credentials.strip())
    # All of them are compared, by their hashes, so that the time does not reveal the token.
    matches = [hmac.compare_digest(digest(each.decode("latin-1")), subscription.proof) for each in shown]
    if any(matches):
        return True
    # Agents of 0.1 sign with keys of their own, and do not send the token: only the path authenticates them.
    return subscription.asked is Version.V0_1 and token is None
