"""An HTTP server on loopback that gives fixed answers and keeps what it was asked."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answer = tuple[int, bytes] | tuple[int, bytes, str]
"""Status, body, and the content type if it is not JSON."""


class Answering:
    """The server: its URL, and the requests so far as (method, path, headers, body)."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = dict(answers)
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.url = ""


@contextmanager
def answering(answers: Mapping[str, Answer]) -> Iterator[Answering]:
    """Answer by path; what is not listed is 404."""
    double = Answering(answers)

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            double.asked.append((self.command, self.path, headers, body))
            status, content, *kind = double.answers.get(self.path, (404, b"not found"))
            self.send_response(status)
            self.send_header("Content-Type", str(kind[0]) if kind else "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.send_header("X-Request-Id", "r-1")
            if status in (301, 302, 307, 308):
                self.send_header("Location", "/elsewhere")
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = _answer  # noqa: N815 - the names that http.server calls

        def log_message(self, *_args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    double.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield double
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
