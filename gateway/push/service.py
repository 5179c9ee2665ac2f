"""The parts of push notifications, put together: policy, queue, deliveries and callbacks."""

import asyncio
import ssl
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from gateway.a2a.json import Tree
from gateway.a2a.progress import Progress
from gateway.push.delivery import Deliverer, DeliveryRetryPolicy
from gateway.push.queue import DeliveryQueue, NotificationQuota, NotificationUsage
from gateway.push.relay import PushRelay
from gateway.push.signing import Signer
from gateway.push.ssrf import Resolver, WebhookPolicy
from gateway.push.subscription import ENDED, Subscription
from gateway.push.webhook_pattern import WebhookPattern
from gateway.tasks.store import Store
from gateway.telemetry.access_log import short
from gateway.telemetry.audit_log import AuditEvent
from gateway.telemetry.metrics import NO_AGENT, Sample
from gateway.upstream.connection_pool import client_tls


@dataclass(frozen=True, slots=True)
class PushSettings:
    """The settings of push notifications.

    Attributes:
        mode: `relay`: the gateway calls webhooks; `passthrough`: agents call them; `none`: they are refused.
        allow: Webhooks that may be named; empty for any public one.
        block_private: Whether those in `allow` must be https at a public address all the same.
        max_per_task: Most webhooks of one task, with `relay`; 1 to 100.
        sign: Whether deliveries are signed.
        quota: Bounds of each tenant.
        retries: Bounds of each delivery.
    """

    mode: Literal["relay", "passthrough", "none"]
    allow: tuple[WebhookPattern, ...]
    block_private: bool
    max_per_task: int
    sign: bool
    quota: NotificationQuota
    retries: DeliveryRetryPolicy


class PushService:
    """The policy for webhooks, and with `mode: relay` the callbacks, the queue and the keys.

    Args:
        public_url: The URL of the gateway for agents and receivers.
        store: Keeps subscriptions, notifications and keys; None where agents call webhooks themselves.
        observe: As that of `PushRelay`.
        count: Called with the agent and the result of each attempt.
        entitled: Returns whether the owner of a subscription may still call its agent.
        audit: Called with events of the audit log and their fields.
        resolver: Looks up the hosts of webhooks.

    Attributes:
        relay: None where agents call them.
    """

    def __init__(
        self,
        settings: PushSettings,
        public_url: str,
        store: Store | None,
        *,
        observe: Callable[[Subscription, Progress], Awaitable[bool]],
        count: Callable[[str, str], None],
        entitled: Callable[[Subscription], bool] = lambda _subscription: True,
        audit: Callable[[AuditEvent, Mapping[str, object]], None] = lambda _event, _fields: None,
        resolver: Resolver | None = None,
    ) -> None:
        self._resolver = Resolver() if resolver is None else resolver
        self.relay: PushRelay | None = None
        self._audit = audit
        self._signer: Signer | None = None
        if settings.mode != "relay" or store is None:
            return
        if settings.sign:
            self._signer = Signer(store, public_url, wall=time.time)  # noqa: TID251 - signatures are dated
        policy = self._policy(settings)
        self._deliverer = Deliverer(policy, self._signer, tls=client_tls(None))
        self._usage = NotificationUsage(store)
        self._queue = DeliveryQueue(
            store,
            self._deliverer.deliver,
            usage=self._usage,
            entitled=entitled,
            count=count,
            audit=lambda subscription, why: self._audited(AuditEvent.WEBHOOK_REFUSED, subscription, why),
        )
        self.relay = PushRelay(
            store,
            policy,
            public_url,
            self._queue,
            usage=self._usage,
            entitled=entitled,
            observe=observe,
            count=count,
            audit=self._audited,
        )
        self.change(settings)

    def change(self, settings: PushSettings) -> None:
        """Apply a reloaded configuration, also to notifications that wait; the mode stays."""
        if self.relay is None:
            return
        policy, retries = self._policy(settings), settings.retries
        self._deliverer.policy, self._deliverer.timeout = policy, retries.timeout
        self._queue.policy, self._usage.quota = retries, settings.quota
        # A subscription outlives the notifications that wait for it.
        linger = max(ENDED, int(retries.keep + retries.longest_pause))
        self.relay.policy, self.relay.max_per_task, self.relay.linger = policy, settings.max_per_task, linger

    def trust(self, tls: ssl.SSLContext) -> None:
        """Verify webhooks by another context from now on."""
        if self.relay is not None:
            self._deliverer.tls = tls

    def policy_of(self, settings: PushSettings) -> WebhookPolicy | None:
        """Return the policy of a configuration; None where no webhook may be named."""
        return None if settings.mode == "none" else self._policy(settings)

    def _policy(self, settings: PushSettings) -> WebhookPolicy:
        return WebhookPolicy(settings.allow, block_private=settings.block_private, resolve=self._resolver)

    async def run(self) -> None:
        """Deliver until cancelled; return at once where there is nothing to deliver."""
        if self.relay is None:
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self._usage.run(), name="push usage")
            group.create_task(self._queue.run(), name="push queue")

    @property
    def key_expires(self) -> float | None:
        """Return when the last key for notifications stops signing, in Unix seconds; None if no key has signed."""
        return None if self._signer is None else self._signer.ring.expires

    def samples(self, agents: Collection[str]) -> Iterable[Sample]:
        """Yield the metrics of the queue; none if agents call webhooks themselves.

        Args:
            agents: Those of the configuration. Notifications of others count as those of `-`.
        """
        if self.relay is None:
            return
        waiting = Counter[str]()
        for agent, count in self._usage.waiting.items():
            waiting[agent if agent in agents else NO_AGENT] += count
        yield Sample(
            "push_queue",
            "Push notifications that wait for delivery, of all gateways that share the store. Series: agents.",
            ("agent",),
            tuple(((agent,), float(count)) for agent, count in waiting.items()),
        )
        oldest = self._usage.oldest
        now = time.time()  # noqa: TID251 - notifications outlive the process
        age = 0.0 if oldest is None else max(now - oldest, 0.0)
        yield Sample(
            "push_oldest_seconds", "Age of the oldest push notification in the queue, in seconds.", (), (((), age),)
        )

    async def jwks(self) -> Tree | None:
        """Return the key set by which receivers verify notifications; None if they are not signed.

        Raises:
            StateUnavailable: the store does not answer.
        """
        return None if self._signer is None else await self._signer.jwks()

    def close(self) -> None:
        """Release the resolver's threads; `run` has ended before."""
        self._resolver.close()

    def _audited(self, event: AuditEvent, subscription: Subscription, why: str) -> None:
        fields = {
            "tenant": subscription.owner.tenant,
            "principal": subscription.owner.subject or None,
            "agent": subscription.agent,
            "task_id": short(subscription.client_task) or None,
            "detail": why,
        }
        self._audit(event, fields)
