"""All that `push:` of the configuration asks for, made and kept together."""

import time
from collections.abc import Callable

from gateway.a2a.progress import Progress
from gateway.a2a.tree import Tree
from gateway.config.push import Push
from gateway.push.delivery import Deliverer
from gateway.push.hook import OVER, Hook
from gateway.push.outbox import Outbox, Terms
from gateway.push.relay import PushRelay
from gateway.push.resolver import Resolver
from gateway.push.signing import Signer
from gateway.push.webhook import WebhookPolicy
from gateway.tasks.store import Soon, Store
from gateway.upstream.connections import client_tls


class PushService:
    """Which webhooks may be called, and where the gateway calls them itself, what does.

    Args:
        public_url: Where agents and receivers find the gateway.
        store: Where hooks and notifications are kept; None where agents call webhooks themselves.
        meet: As that of `PushRelay`.
        count: Told the agent and what came of each attempt.
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
        meet: Callable[[Hook, Progress], Soon[bool]],
        count: Callable[[str, str], None],
        resolver: Resolver | None = None,
    ) -> None:
        self._resolver = Resolver() if resolver is None else resolver
        policy = self._judge(written)
        self.policy = self.policy_of(written)
        self.relay: PushRelay | None = None
        self._outbox: Outbox | None = None
        self._deliverer: Deliverer | None = None
        self._signer: Signer | None = None
        if written.mode != "relay" or store is None:
            return
        told = written.deliver
        if written.sign:
            self._signer = Signer(store, public_url, wall=time.time)  # noqa: TID251 - signatures are dated
        self._deliverer = deliverer = Deliverer(policy, self._signer, tls=client_tls(None), timeout=told.timeout)
        self._outbox = Outbox(store, deliverer.deliver, terms=_terms(written), count=count)
        self.relay = PushRelay(
            store,
            policy,
            public_url,
            self._outbox,
            max_per_task=written.max_per_task,
            meet=meet,
            count=count,
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
        self.relay.change(policy, max_per_task=written.max_per_task, linger=_linger(written))

    def policy_of(self, written: Push) -> WebhookPolicy | None:
        """What would judge webhooks by these words; None where none may be named."""
        return None if written.mode == "none" else self._judge(written)

    def _judge(self, written: Push) -> WebhookPolicy:
        return WebhookPolicy(written.allow, block_private=written.block_private_networks, resolve=self._resolver)

    async def run(self) -> None:
        """Deliver, for ever; returns at once where there is nothing to deliver."""
        if self._outbox is not None:
            await self._outbox.run()

    async def jwks(self) -> Tree | None:
        """The key set by which receivers verify notifications; None where nothing is signed.

        Raises:
            StateUnavailable: the store does not answer.
        """
        return None if self._signer is None else await self._signer.jwks()

    def close(self) -> None:
        """Let go of its threads; what runs was ended before."""
        self._resolver.close()


def _terms(written: Push) -> Terms:
    return Terms(**{name: getattr(written.deliver, name) for name in Terms.__struct_fields__})


def _linger(written: Push) -> int:
    # A hook outlives what is on its way to it.
    return max(OVER, int(written.deliver.keep + written.deliver.longest_pause))
