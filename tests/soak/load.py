"""The callers of a soak: what they ask, and what they make of the answers."""

import asyncio
import itertools
import math
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx

from gateway.commands.key import new_key

KEYS = {name: new_key(name, name) for name in ("acme", "globex")}
"""Tenants and their credentials."""
ABORTS = 0.01
"""The share of calls that are broken off."""
KINDS = 7
"""The number of kinds of calls: `Caller.send` and the methods behind it."""
MOST_TOLD = 5
"""Number of wrong replies that are kept, to be shown."""


@dataclass
class Findings:
    """The results of all calls.

    Attributes:
        done: Calls that went as they should, by what they were.
        mixed: Replies that were another's.
        failed: Calls that were not answered as they should be, in any other way.
        told: The first of either.
    """

    done: Counter[str] = field(default_factory=Counter)
    mixed: int = 0
    failed: int = 0
    told: list[str] = field(default_factory=list)

    def mix(self, text: str) -> None:
        self.mixed += 1
        self._tell(f"mixed up: {text}")

    def fail(self, text: str) -> None:
        self.failed += 1
        self._tell(text)

    def _tell(self, text: str) -> None:
        if len(self.told) < MOST_TOLD:
            self.told.append(text[:500])


class Caller:
    """One client of one tenant, which does one thing after the other."""

    def __init__(self, http: httpx.AsyncClient, tenant: str, number: int, findings: Findings) -> None:
        self._http = http
        self._chance = random.Random(number)
        self._headers = {"X-API-Key": KEYS[tenant].text, "A2A-Version": "1.0"}
        self._words = (f"word-of-{tenant}-{number}-{each}-" for each in itertools.count())
        self._own = f"word-of-{tenant}-{number}-"
        self._findings = findings
        self._task = ""
        # Each once, however slow the machine is.
        self._first = [self.leave_stream, self.leave_call, self.get, self.by_tenant, self.stream, self.send_rest]
        self._first.append(self.send)

    async def until(self, end: float, every: float) -> None:
        """Call until then, once in so many seconds; 0 is as often as it goes. Who is late does not catch up."""
        due = time.monotonic() + self._chance.uniform(0, every)
        while (now := time.monotonic()) < end:
            if due > now:
                await asyncio.sleep(min(due, end) - now)
                continue
            due = max(due + every, now)
            await self._call()

    async def _call(self) -> None:
        if self._first:
            act = self._first.pop()
        elif self._chance.random() < ABORTS:
            act = self._chance.choice((self.leave_stream, self.leave_call))
        else:
            # Half of the calls are as short as can be.
            act = self._chance.choice((self.send, self.send, self.send_rest, self.by_tenant, self.stream, self.get))
        try:
            if await act():
                self._findings.done[act.__name__] += 1
        except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
            self._findings.fail(f"{act.__name__}: {error!r}")

    async def send(self) -> bool:
        return await self._echoed("/echo", rpc=True)

    async def send_rest(self) -> bool:
        return await self._echoed("/echo/message:send", rpc=False)

    async def by_tenant(self) -> bool:
        return await self._echoed("/crm", rpc=True)

    async def stream(self) -> bool:
        """A stream, to its end; its task is asked for later."""
        word, body = self._asked("SendStreamingMessage")
        answer = await self._http.post("/travel", json=body, headers=self._headers)
        found = self._checked(answer, word, "TASK_STATE_INPUT_REQUIRED")
        if found:
            self._task = answer.text.partition('"taskId":"')[2].partition('"')[0]
        return found

    async def get(self) -> bool:
        """The task of the last stream."""
        if not self._task:
            return await self.stream()
        body = {"jsonrpc": "2.0", "id": "get", "method": "GetTask", "params": {"id": self._task}}
        answer = await self._http.post("/travel", json=body, headers=self._headers)
        return self._checked(answer, self._own, self._task)

    async def leave_stream(self) -> bool:
        """A stream that is left at its first event."""
        word, body = self._asked("SendStreamingMessage")
        async with self._http.stream("POST", "/clock", json=body, headers=self._headers) as answer:
            async for piece in answer.aiter_raw():
                return answer.status_code == 200 and word in piece.decode()
        return False

    async def leave_call(self) -> bool:
        """A call that is left before it is answered: the clock takes longer."""
        _, body = self._asked("SendMessage")
        call = asyncio.ensure_future(self._http.post("/clock", json=body, headers=self._headers))
        await asyncio.wait((call,), timeout=0.02)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        return True

    async def _echoed(self, path: str, *, rpc: bool) -> bool:
        word, body = self._asked("SendMessage")
        answer = await self._http.post(path, json=body if rpc else body["params"], headers=self._headers)
        return self._checked(answer, word, f'"id":"{word}"' if rpc else word)

    def _asked(self, method: str) -> tuple[str, dict[str, Any]]:
        word = next(self._words)
        message = {"messageId": word, "role": "ROLE_USER", "parts": [{"text": word}]}
        return word, {"jsonrpc": "2.0", "id": word, "method": method, "params": {"message": message}}

    def _checked(self, answer: httpx.Response, *sought: str) -> bool:
        """Whether the answer has all that it should have, and no word of another caller's or call's."""
        text = answer.text
        if not self._is_own(text, sought[0]):
            self._findings.mix(f"{self._own}: {text}")
            return False
        if answer.status_code != 200 or not all(each in text for each in sought):
            self._findings.fail(f"{answer.status_code} without one of {sought}: {text}")
            return False
        return True

    def _is_own(self, text: str, word: str) -> bool:
        return text.count("word-of-") == text.count(word)


class Crowd:
    """All callers."""

    def __init__(self, http: httpx.AsyncClient, callers: int) -> None:
        self.findings = Findings()
        tenants = itertools.cycle(KEYS)
        self._callers = [Caller(http, next(tenants), number, self.findings) for number in range(callers)]

    async def calls(self, seconds: float, rate: float = math.inf) -> float:
        """Call for so many seconds, at a rate at most; the rate that came of it, in calls per second."""
        before, began = self.findings.done.total(), time.monotonic()
        async with asyncio.TaskGroup() as group:
            for caller in self._callers:
                group.create_task(caller.until(began + seconds, len(self._callers) / rate))
        return (self.findings.done.total() - before) / (time.monotonic() - began)
