"""The sample agent of A2A 0.1 by the letter of its schema: the double of this project, with the words of `serving`.

python ancient.py
"""

import base64
from collections.abc import Iterator

from serving import (
    ABOUT,
    BYTES,
    CHUNKS,
    DATA,
    FILE,
    FREED,
    GREETING,
    LINK,
    LINKED,
    LOGIN,
    QUESTION,
    REFUSED,
    RELEASED,
    TEXT,
    WORKING,
    WRONG,
    serve,
)

from tests.support.ancient import Tree
from tests.support.ancient_agent import AncientAgent

ENDS = {
    "hello": ("completed", GREETING),
    "free": ("completed", FREED),
    "ask": ("input-required", QUESTION),
    "auth": ("input-required", LOGIN),
    "fail": ("failed", WRONG),
    "reject": ("failed", REFUSED),
}
"""The state and last words of a task without an artifact; 0.1 has no `rejected` and no `auth-required`."""


class Sample(AncientAgent):
    """The agent."""

    def __init__(self, url: str) -> None:
        super().__init__(url + "/", untidy=False, pushes=True)
        self._waiting: dict[str, Tree] = {}

    def card(self) -> Tree:
        skill = {"id": "echo", "name": "echo", "description": "A skill.", "tags": ["sample"]}
        return {**super().card(), "name": "sample", "description": "The sample agent.", "version": "1.0.0"} | {
            "skills": [skill]
        }

    def _work(self, task: Tree, message: Tree) -> Iterator[Tree]:
        asked = task["status"]["state"] == "input-required"
        word, _, rest = message["parts"][0]["text"].partition(" ")
        if asked:
            yield from self._completed("answer", [_text(f"told {word}")])
        elif word == "wait":
            self._waiting[rest] = task
            yield self._status("working")
        elif word in ENDS:
            if word == "free":
                for event in self._completed("released", [_text(RELEASED)]):
                    self._tell(self._waiting[rest], event)
            yield self._status(*ENDS[word])
        elif word == "stream":
            yield self._status("working", WORKING)
            for number, chunk in enumerate(CHUNKS):
                last = number + 1 == len(CHUNKS)
                yield self._made("chunks", [_text(chunk)], append=number > 0, lastChunk=last)
            yield self._status("completed")
        elif word == "task":
            file = {"bytes": base64.b64encode(BYTES).decode(), "name": FILE[0], "mimeType": FILE[1]}
            link = {"uri": LINK, "name": LINKED[0], "mimeType": LINKED[1]}
            files = [{"type": "file", "file": each} for each in (file, link)]
            yield from self._completed("result", [_text(TEXT), {"type": "data", "data": DATA}, *files], ABOUT)
        else:
            yield from self._completed("echo", message["parts"], message.get("metadata"))

    def _completed(self, name: str, parts: list[Tree], metadata: Tree | None = None) -> Iterator[Tree]:
        yield self._made(name, parts, metadata, append=False, lastChunk=False)
        yield self._status("completed")

    def _made(self, name: str, parts: list[Tree], metadata: Tree | None = None, **flags: bool) -> Tree:
        made = {"name": name, "parts": parts, "index": 0, **flags}
        return {"artifact": made if metadata is None else {**made, "metadata": metadata}}


def _text(text: str) -> Tree:
    return {"type": "text", "text": text}


if __name__ == "__main__":
    serve(lambda url: Sample(url).app)
