"""A gateway whose file is read again when a test says so."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from gateway.reload import ReloadReport, ReloadResult, Trigger
from tests.support.assembly import CARD
from tests.support.gateway import RESULT, Running, agent, running, whole_file
from tests.support.scripted import Script, ScriptedBackend, answers, whole

ECHO = answers(whole(RESULT))


class Site:
    """A gateway that serves a file."""

    def __init__(self, running: Running, file: Path) -> None:
        self.running = running
        self.file = file

    async def rewrite(self, text: str, trigger: Trigger = Trigger.ADMIN) -> ReloadReport:
        """Have it read another text."""
        self.file.write_text(whole_file(text))
        reloader = self.running.gateway.reloader
        assert reloader is not None
        return await reloader.reload(trigger)

    def reloads(self, result: ReloadResult) -> float:
        return self.running.metric("config_reloads_total", result=result.value)


IDLE = "agents: { idle: 'http://127.0.0.1:1' }"
"""An agent for files about something else: a file without agents is wrong."""


@asynccontextmanager
async def serving(folder: Path, text: str) -> AsyncIterator[Site]:
    """A gateway that reads its file again when it is told to, and not when it sees that it has changed."""
    file = folder / "gateway.yaml"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gateway.reload.Reloader.watch", lambda _self, _written: asyncio.sleep(0))
        async with running(text, path=file, written=True) as gateway:
            yield Site(gateway, file)


@asynccontextmanager
async def backends(*scripts: Script) -> AsyncIterator[list[ScriptedBackend]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(ScriptedBackend(agent(script, CARD))) for script in scripts]
