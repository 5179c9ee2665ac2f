"""One backend that is a command: its processes, and how they are asked for calls and for the card."""

import os

from gateway.a2a.framing.lsp import LONGEST, Framing, can_be_header, header_lines
from gateway.a2a.tree import Tree
from gateway.cards.fetch import CardSource
from gateway.cards.fetch_stdio import StdioCards
from gateway.config.agent import Backend, Stdio
from gateway.config.command import program
from gateway.holdings import Holdings
from gateway.upstream.stdio.agent import Agent, CardQuery, Spec
from gateway.upstream.stdio.process import Command
from gateway.upstream.stdio.upstream import StdioUpstream
from gateway.upstream.upstream import Timeouts, Treatment


class OnStdio:
    """One backend that is a command.

    Args:
        key: The key of the backend.
        file: The file of the configuration that has it.
        holdings: Keep the processes, and with them their tasks, through changes of the file that are not about them.
        stub: The card that the operator has written at the agent, or None.
    """

    def __init__(
        self,
        key: str,
        backend: Backend,
        file: str,
        holdings: Holdings,
        *,
        timeouts: Timeouts,
        treatment: Treatment,
        stub: Tree | None,
    ) -> None:
        self._key = key
        self._backend = backend
        self._timeouts = timeouts
        self._treatment = treatment
        run = program(backend, file, os.environ)
        stdio = Stdio() if backend.stdio is None else backend.stdio
        limits = stdio.limits
        command = Command(
            run.words,
            str(run.folder),
            run.environment,
            uid=stdio.uid,
            memory=limits.memory or 0,
            cpu=0 if limits.cpu is None else max(int(limits.cpu), 1),
            files=limits.files or 0,
        )
        credentials = [pair for pair in treatment.credentials if can_be_header(*pair)]
        spec = Spec(
            command,
            stdio.card,
            framing=Framing(stdio.framing),
            processes=stdio.processes,
            start=stdio.start_timeout,
            stop=stdio.stop_timeout,
            restart=stdio.restart,
            ping=stdio.ping or 0.0,
            longest=stdio.frame,
            asked=stdio.frame if "frame" in stdio.model_fields_set else LONGEST,
            per_tenant=stdio.per_tenant,
            tenants=stdio.tenants,
        )
        query = CardQuery(backend.a2a_version, header_lines(credentials))
        self._goes_on = holdings.before(("stdio", key)) is not None
        agent = self._agent = holdings.hold(
            ("stdio", key),
            spec,
            lambda: Agent(key, spec, query),
            close=lambda made: made.aclose,
            retire=lambda made: made.retire,
        )

        def enter() -> None:
            agent.query = query

        holdings.on_entry(enter)
        self.cards = StdioCards(agent, run.card if stub is None else stub, query, start=spec.start)

    @property
    def asks(self) -> object:
        """The key of the card source: the processes, and the card that is shown until they answer."""
        return self._agent, self.cards.stub, self._backend.a2a_version

    def asker(self) -> StdioCards:
        """Return what asks them for the card."""
        return self.cards

    def begin(self, source: CardSource, before: object) -> None:
        """Have a card to show before the agent has told its own.

        Args:
            before: The source of its card until now, or None.
        """
        if self._goes_on and isinstance(before, CardSource) and before.spoken:
            source.follow(before)
        elif self.cards.stub is not None:
            source.begin_with(self.cards.stub)

    def upstream(self, source: CardSource) -> StdioUpstream:
        """Return the agent as the pipeline sees it."""
        return StdioUpstream(
            backend=self._key,
            url=self._backend.url,
            agent=self._agent,
            cards=source,
            timeouts=self._timeouts,
            treatment=self._treatment,
            version=self._backend.a2a_version,
        )
