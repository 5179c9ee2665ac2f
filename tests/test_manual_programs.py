"""The programs that the pages show do what they are there for, word for word but for addresses and keys."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import anyio
import httpx
import pytest
from a2a.types.a2a_pb2 import SendMessageRequest
from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]  # protobuf ships no stubs

from gateway.push.signing import Signer
from gateway.tasks.sqlite import SqliteStore
from tests.program import running, until
from tests.table import for_each

ROOT = Path(__file__).parent.parent


def program(page: str, language: str = "python", holding: str = "") -> str:
    """The one block of a page in that language, with those words in it."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", (ROOT / page).read_text(), re.DOTALL | re.MULTILINE)
    [block] = [block for block in blocks if holding in block]
    return str(block)


def test_clients_of_grpc_are_answered_by_the_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running("demo", cwd=tmp_path) as demo:
        welcome = until(demo.stdout, "Ctrl-C ends the demo")
        found = re.search(r"http://(\S+) +\(gRPC: (\S+),", welcome)
        key = re.search(r"A2A_KEY_ACME=(\S+)", welcome)
        assert found is not None
        assert key is not None

        for page in ("docs/overview.md", "docs/grpc.md"):
            text = program(page).replace("KEY", key[1]).replace("127.0.0.1:8080", found[1])
            exec(compile(text.replace("127.0.0.1:8081", found[2]), page, "exec"), {})
            assert 'text: "Hello"' in capsys.readouterr().out


@for_each("page", ["docs/overview.md", "docs/grpc.md"])
def test_grpcurl_is_told_to_send_a_message_of_the_schema(page: str) -> None:
    [message] = re.findall(r"-d '(.*?)'", program(page, "sh", "grpcurl"))
    read = ParseDict(json.loads(message), SendMessageRequest())
    assert (read.tenant, read.message.parts[0].text) == ("echo", "Hello")


def test_the_stdio_agent_answers_the_shown_calls() -> None:
    text = program("docs/stdio-bridge.md", "sh", "stdio_agent.py").replace("python ", f"{sys.executable} ")
    done = subprocess.run(["sh", "-c", text], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout)["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


@contextmanager
def serving(body: bytes) -> Iterator[str]:
    """A server that gives these bytes to whoever asks."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


async def _signed(body: bytes, gateway: str, wall: float) -> tuple[bytes, str]:
    """The key set, and a signature of a body for the receiver of the page."""
    store = SqliteStore(None)
    await store.open()
    signer = Signer(store, gateway, wall=lambda: wall)
    signature = await signer.sign(body, audience="https://hooks.acme.example", task_id="task-7", id="1.1")
    keys = json.dumps(await signer.jwks()).encode()
    await store.aclose()
    return keys, signature


def test_the_receiver_of_notifications_takes_what_the_gateway_signs_and_nothing_else() -> None:
    body = b'{"statusUpdate": {}}'
    gateway = "https://agents.example.com"
    keys, signature = anyio.run(_signed, body, gateway, time.time())
    text = program("docs/push.md")
    assert f'GATEWAY = "{gateway}"' in text
    start = 'HTTPServer(("127.0.0.1", 9000), Receiver).serve_forever()'
    assert start in text
    free = 'server = HTTPServer(("127.0.0.1", 0), Receiver); print(server.server_port); server.serve_forever()'
    with serving(keys) as issuer:
        text = text.replace(start, free).replace('f"{GATEWAY}/', f'f"{issuer}/')
        receiver = subprocess.Popen(
            [sys.executable, "-u", "-c", text], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        with receiver:
            try:
                assert receiver.stdout is not None
                url = f"http://127.0.0.1:{receiver.stdout.readline().strip()}/"
                bearer, beside = {"Authorization": f"Bearer {signature}"}, {"X-A2A-Signature": signature}
                assert httpx.post(url, content=body, headers=bearer).status_code == 204
                assert receiver.stdout.readline() == f"task-7 {body.decode()}\n"
                # Again, with the client's own credentials in front: taken, and not told twice.
                assert httpx.post(url, content=body, headers={**beside, "Authorization": "Basic x"}).status_code == 204
                assert httpx.post(url, content=body + b" ", headers=bearer).status_code == 401
                assert httpx.post(url, content=body, headers={"X-A2A-Signature": f"{signature}x"}).status_code == 401
                assert httpx.post(url, content=body).status_code == 401
            finally:
                receiver.kill()
            assert receiver.stdout.read() == ""
