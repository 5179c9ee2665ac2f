"""Agents with skills behind one gateway: which tenant may call which of them decides what each caller finds."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.gateway import Answer, Running, agent, bearer, card_of, keys, running
from tests.support.scripted import ScriptedBackend
from tests.support.trusting import Trusting

MESSAGE = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]}

SKILLS: dict[str, dict[str, list[str]]] = {
    # Names in an order that is not that of their ranks.
    "delta": {"translate": ["language"], "proofread": ["language"]},
    "beta": {"translate": ["language"], "summarize": []},
    "alpha": {"words": ["translate"]},
    "secret": {"translate": [], "launch": ["rockets"]},
    "quiet": {"whisper": []},
}
"""Skill ids with their tags, by agent."""

TENANTS = {
    "acme": ["alpha", "beta", "delta", "quiet"],
    "globex": ["beta", "secret"],
    "initech": [],
}


def card(name: str, skills: Mapping[str, list[str]]) -> bytes:
    listed = [
        {"id": one, "name": one.title(), "description": f"Can {one}.", "tags": tags} for one, tags in skills.items()
    ]
    return card_of("http://127.0.0.1/", "JSONRPC 1.0", skills=listed, name=name.title(), description=f"{name} at work")


class Skilled(Trusting):
    """An agent whose tasks have ids that no other agent's have."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name

    def _sent(self, message: dict[str, Any]) -> dict[str, Any]:
        task = super()._sent(message)
        self.tasks.pop(task["id"])
        task["id"] = f"{self._name}-{task['id'].removeprefix(self._name + '-')}"
        self.tasks[task["id"]] = task
        return task


class Fleet:
    """The gateway, and its agents by name."""

    def __init__(
        self,
        gateway: Running,
        agents: Mapping[str, Skilled],
        backends: Mapping[str, ScriptedBackend],
        path: Path | None = None,
    ) -> None:
        self.gateway = gateway
        self.agents = agents
        self.backends = backends
        self._path = path

    async def rewrite(self, old: str, new: str) -> None:
        """Replace a text of the file, and have it read again."""
        assert self._path is not None
        text = self._path.read_text()
        assert old in text
        self._path.write_text(text.replace(old, new))
        answer = await self.gateway.ask("POST", "/-/reload", b"", admin=True)
        # The change may have been noticed before.
        assert answer.json["result"] in ("applied", "unchanged"), answer.json

    async def call(self, who: str | None, skill: str, method: str = "SendMessage", **params: Any) -> Answer:
        """Call by JSON-RPC at the path of a skill."""
        whole = {"message": {**MESSAGE, **params}} if method.startswith("Send") else params
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": whole}).encode()
        shown = [] if who is None else [bearer(who)]
        return await self.gateway.post(f"/skills/{skill}", body, [*shown, (b"A2A-Version", b"1.0")])

    async def task(self, who: str, skill: str, **params: Any) -> dict[str, Any]:
        """Send a message and return the task, with the agent that made it as `by`."""
        answer = await self.call(who, skill, **params)
        assert answer.status == 200, answer.body
        task: dict[str, Any] = answer.json["result"]["task"]
        [by] = [name for name, agent in self.agents.items() if task["id"] in agent.tasks]
        return {**task, "by": by}

    async def fail(self, name: str) -> None:
        """Have an agent take no connections, and close those that it has."""
        backend = self.backends[name]
        backend.deafen()
        for wire in backend.wires:
            wire.close()
        await backend.all_gone()

    async def route(self, who: str | None, path: str, **more: Any) -> Any:
        """Return the explanation of a request that an operator gets."""
        question = {"path": path, **({} if who is None else {"as": who}), **more}
        answer = await self.gateway.ask("POST", "/-/route", json.dumps(question).encode(), admin=True)
        assert answer.status == 200, answer.body
        return answer.json


def _usual(name: str) -> str:
    return f'[{{ path: /{name} }}, {{ path: "/skills/{{skill}}" }}]'


@asynccontextmanager
async def fleet(
    more: Mapping[str, str] | None = None,
    gateway: str = "",
    limits: str = "",
    path: Path | None = None,
    matches: Mapping[str, str] | None = None,
) -> AsyncIterator[Fleet]:
    """A fleet that serves skills.

    Args:
        more: Further settings of an agent, in flow style.
        gateway: Other sections of the file.
        limits: Those of acme, in flow style.
        matches: Those of agents that have others than their path and every skill, in flow style.
        path: Where the file is written, so that it can be read again.
    """
    agents = {name: Skilled(name) for name in SKILLS}
    written = {"delta": "trust: 4", "secret": "trust: 5, visibility: private", "quiet": "visibility: unlisted"}
    written |= more or {}
    async with AsyncExitStack() as stack:
        backends = {
            name: await stack.enter_async_context(ScriptedBackend(agent(made.script, card(name, SKILLS[name]))))
            for name, made in agents.items()
        }
        listed = "\n".join(
            f'  {name}: {{ backend: "{backend.url}", match: {(matches or {}).get(name) or _usual(name)},'
            f" health: {{ eject: {{ after: 1, time: 1m }} }}, retry: {{ max: 0 }}"
            f"{', ' + written[name] if name in written else ''} }}"
            for name, backend in backends.items()
        )
        callers = keys(**{name: name for name in TENANTS})
        tenants = "\n".join(f"  {name}: {json.dumps(may)}" for name, may in TENANTS.items())
        if limits:
            may = json.dumps(TENANTS["acme"])
            tenants = tenants.replace(f"acme: {may}", f"acme: {{ agents: {may}, limits: {{ {limits} }} }}")
        text = f"{gateway}\n{callers}\ntenants:\n{tenants}\nagents:\n{listed}\n"
        settings: Any = {} if path is None else {"path": path, "written": True}
        yield Fleet(await stack.enter_async_context(running(text, **settings)), agents, backends, path)
