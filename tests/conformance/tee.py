"""Passes connections on and writes down every byte of both directions, for those who look into a difference."""

import socket
import threading
from pathlib import Path
from typing import Self

CHUNK = 65536


class Tee:
    """A listener on loopback, at `address`, in front of another address; both are host and port."""

    def __init__(self, target: str, file: Path) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._file = file.open("wb")
        self._writing = threading.Lock()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        with self._writing:
            self._file.close()

    def _accept(self) -> None:
        while True:
            try:
                client, (_, number) = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            for source, sink, mark in ((client, server, ">"), (server, client, "<")):
                client_named = f"\n{mark} {number}\n".encode()
                threading.Thread(target=self._pass_on, args=(source, sink, client_named), daemon=True).start()

    def _pass_on(self, source: socket.socket, sink: socket.socket, mark: bytes) -> None:
        try:
            while data := source.recv(CHUNK):
                with self._writing:
                    if not self._file.closed:
                        self._file.write(mark + data)
                        self._file.flush()
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            source.close()
            sink.close()
