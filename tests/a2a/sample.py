"""The request vectors, as requests: what a client of each dialect sends."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from gateway.a2a.dialect import Version

VECTORS = Path(__file__).parent.parent / "vectors"
TASK, CONTEXT, TENANT = "task-7", "ctx-42", "acme"


@dataclass(frozen=True, slots=True)
class Sample:
    """One request of the vectors, and the operation that it asks for."""

    operation: str
    version: Version
    method: str
    path: bytes
    query: bytes
    header: str | None
    body: bytes
    tree: Any


def vector(name: str) -> Any:
    return json.loads((VECTORS / f"{name}.json").read_bytes())


def samples(binding: str) -> list[Any]:
    """The requests of one binding (`jsonrpc`, `rest`) as parameters of a test."""
    return [
        pytest.param(_sample(tree["operation"], dialect, request["http"]), id=f"{path.stem}-{dialect}")
        for path in sorted(VECTORS.glob("*.json"))
        if "request" in (tree := json.loads(path.read_bytes()))
        for dialect, request in tree["request"].items()
        if binding in dialect
    ]


def _sample(operation: str, dialect: str, http: dict[str, Any]) -> Sample:
    tree = http.get("body")
    return Sample(
        operation=operation.partition("_")[0],
        version=Version(dialect.partition("-")[0].removeprefix("v")),
        method=http["method"],
        path=http["path"].encode(),
        query=urlencode(http.get("query", {})).encode(),
        header=http["headers"].get("A2A-Version"),
        body=b"" if tree is None else json.dumps(tree, indent=2).encode(),
        tree=tree,
    )
