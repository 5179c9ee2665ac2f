"""The naive stack, as one writes it in an afternoon: a starlette route, PyJWT, one shared httpx client, uvicorn.

python -m benchmarks.edge.naive PORT AGENT_URL KEY_SET_FILE
"""

import json
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import jwt
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from benchmarks.edge.process import Process, started
from benchmarks.edge.workload import AUDIENCE, ISSUER, Workload


@contextmanager
def running(folder: Path, root: Path, port: int, agent: int, workload: Workload) -> Iterator[Process]:
    """Start it.

    Args:
        root: The project's folder, where `benchmarks` is found.
    """
    keys = folder / "keys.json"
    keys.write_text(workload.key_set)
    command = [sys.executable, "-m", "benchmarks.edge.naive", str(port), f"http://127.0.0.1:{agent}/", keys]
    with started("naive", command, folder=folder, ports=[port], environ={"PYTHONPATH": str(root)}) as process:
        yield process


def app(agent: str, key: jwt.PyJWK) -> Starlette:
    client = httpx.AsyncClient(timeout=30.0)

    async def relay(request: Request) -> Response:
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        try:
            claims = jwt.decode(token, key, ["RS256"], audience=AUDIENCE, issuer=ISSUER)
        except jwt.InvalidTokenError:
            return JSONResponse({"error": "unauthorized"}, 401)
        call = await request.json()
        if scheme.lower() != "bearer" or "org" not in claims or call.get("jsonrpc") != "2.0":
            return JSONResponse({"error": "bad request"}, 400)
        answered = await client.post(agent, json=call, headers={"A2A-Version": request.headers["a2a-version"]})
        return Response(answered.content, answered.status_code, media_type=answered.headers["content-type"])

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with client:
            yield

    return Starlette(routes=[Route("/{path:path}", relay, methods=["POST"])], lifespan=lifespan)


def main() -> None:
    port, agent, keys = sys.argv[1:]
    key = jwt.PyJWK(json.loads(Path(keys).read_text())["keys"][0])
    uvicorn.run(
        app(agent, key),
        host="127.0.0.1",
        port=int(port),
        loop="uvloop",
        http="httptools",
        log_level="warning",
        access_log=False,
        timeout_keep_alive=600,
    )


if __name__ == "__main__":
    main()
