"""All that `push:` of the configuration asks for, made and kept together."""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping

from gateway.a2a.progress import Progress
from gateway.a2a.tree import Tree
from gateway.config.push import Push
from gateway.push.account import Account, Allowance
from gateway.push.delivery import Deliverer
from gateway.push.hook import OVER, Hook
from gateway.push.outbox import Outbox, Terms
from gateway.push.relay import PushRelay
from gateway.push.resolver import Resolver
from gateway.push.signing import Signer
from gateway.push.webhook import WebhookPolicy
from gateway.tasks.store import Store
from gateway.telemetry.access import short
from gateway.telemetry.audit import Event
from gateway.upstream.connections import client_tls


class PushService:
    """Which webhooks may be called, and where the gateway calls them itself, what does.

    Args:
        public_url: Where agents and receivers find the gateway.
        store: Where hooks and notifications are kept; None where agents call webhooks themselves.
        meet: As that of `PushRelay`.
        count: Told the agent and what came of each attempt.
        entitled: Whether the owner of a hook may still call its agent.
        audit: Told what is an event of the audit log, and its fields.
        resolver: Looks up the hosts of webhooks.

    Attributes:
        policy: None where no webhook may be called.
        relay: None where agents call them.
    """

    def __init__(
        self,
        written: Push,
        public_url: str,
        store: Store | None,
        *,
        meet: Callable[[Hook, Progress], Awaitable[bool]],
        count: Callable[[str, str], None],
        entitled: Callable[[Hook], bool] = lambda _hook: True,
        audit: Callable[[Event, Mapping[str, object]], None] = lambda _event, _fields: None,
        resolver: Resolver | None = None,
    ) -> None:
        self._resolver = Resolver() if resolver is None else resolver
        policy = self._judge(written)
        self.policy = self.policy_of(written)
        self.relay: PushRelay | None = None
        self._outbox: Outbox | None = None
        self._account: Account | None = None
        self._audit = audit
        self._deliverer: Deliverer | None = None
        self._signer: Signer | None = None
        if written.mode != "relay" or store is None:
            return
        told = written.deliver
        if written.sign:
            self._signer = Signer(store, public_url, wall=time.time)  # noqa: TID251 - signatures are dated
        self._deliverer = deliverer = Deliverer(policy, self._signer, tls=client_tls(None), timeout=told.timeout)
        self._account = Account(store, _allowance(written))
        self._outbox = Outbox(
            store,
            deliverer.deliver,
            terms=_terms(written),
            account=self._account,
            entitled=entitled,
            count=count,
            audit=lambda hook, words: self._audited(Event.WEBHOOK_REFUSED, hook, words),
        )
        self.relay = PushRelay(
            store,
            policy,
            public_url,
            self._outbox,
            max_per_task=written.max_per_task,
            account=self._account,
            entitled=entitled,
            meet=meet,
            count=count,
            audit=self._audited,
            linger=_linger(written),
        )

    def change(self, written: Push) -> None:
        """Go on with other words of the file; whether the gateway calls webhooks itself stays as it is.

        What is on its way is judged and delivered by the new words.
        """
        policy = self._judge(written)
        self.policy = self.policy_of(written)
        if self._deliverer is None or self._outbox is None or self.relay is None:
            return
        self._deliverer.policy = policy
        self._deliverer.timeout = written.deliver.timeout
        self._outbox.terms = _terms(written)
        if self._account is not None:
            self._account.allowance = _allowance(written)
        self.relay.change(policy, max_per_task=written.max_per_task, linger=_linger(written))

    def trust(self, tls: ssl.SSLContext) -> None:
        """Verify webhooks so from now on, instead of by the system's authorities."""
        if self._deliverer is not None:
            self._deliverer.tls = tls

    def policy_of(self, written: Push) -> WebhookPolicy | None:
        """What would judge webhooks by these words; None where none may be named."""
        return None if written.mode == "none" else self._judge(written)

    def _judge(self, written: Push) -> WebhookPolicy:
        return WebhookPolicy(written.allow, block_private=written.block_private_networks, resolve=self._resolver)

    async def run(self) -> None:
        """Deliver, for ever; returns at once where there is nothing to deliver."""
        if self._outbox is None or self._account is None:
            return
        async with asyncio.TaskGroup() as group:
            group.create_task(self._account.run(), name="what tenants have for webhooks")
            group.create_task(self._outbox.run(), name="webhooks")

    async def jwks(self) -> Tree | None:
        """The key set by which receivers verify notifications; None where nothing is signed.

        Raises:
            StateUnavailable: the store does not answer.
        """
        return None if self._signer is None else await self._signer.jwks()

    def close(self) -> None:
        """Let go of its threads; what runs was ended before."""
        self._resolver.close()

    def _audited(self, event: Event, hook: Hook, words: str) -> None:
        owner = hook.owner
        fields = {
            "tenant": owner.tenant,
            "principal": owner.subject or None,
            "agent": hook.agent,
            "task_id": short(hook.name or hook.task.removeprefix(hook.mark)) or None,
            "detail": words,
        }
        self._audit(event, fields)


def _terms(written: Push) -> Terms:
    return Terms(**{name: getattr(written.deliver, name) for name in Terms.__struct_fields__})


def _linger(written: Push) -> int:
    # A hook outlives what is on its way to it.
    return max(OVER, int(written.deliver.keep + written.deliver.longest_pause))


def _allowance(written: Push) -> Allowance:
    told = written.deliver
    return Allowance(written.max_per_tenant, told.max_waiting, told.max_waiting_bytes)
