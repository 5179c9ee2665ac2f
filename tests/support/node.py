"""Node's JSON.parse, in one process that is asked line by line."""

import base64
import json
import shutil
import subprocess
from types import TracebackType
from typing import Any, Self

# It answers what JSON.parse reads as JSON, numbers as it holds them; a text that it refuses, as null.
_SCRIPT = r"""
const lines = require("node:readline").createInterface({ input: process.stdin, crlfDelay: Infinity });
const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
lines.on("line", (line) => {
  let answer;
  try {
    answer = { read: JSON.parse(utf8.decode(Buffer.from(line, "base64"))) };
  } catch (error) {
    answer = null;
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
});
"""


class Node:
    """A Node process; `with Node() as node: node.parse(b'{}')`."""

    @staticmethod
    def is_here() -> bool:
        return shutil.which("node") is not None

    def __enter__(self) -> Self:
        node = shutil.which("node")
        assert node is not None
        self._process = subprocess.Popen([node, "-e", _SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._process.communicate(timeout=10)

    def parse(self, text: bytes) -> Any:
        """Return the result of JSON.parse for a text.

        Raises:
            ValueError: it is no JSON to Node.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(base64.b64encode(text) + b"\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if answer is None:
            raise ValueError("no JSON to Node")
        return answer["read"]
