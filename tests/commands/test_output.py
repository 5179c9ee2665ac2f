"""A standard stream that is closed becomes one that leads nowhere, under its own number."""

import subprocess
import sys

from tests.table import for_each

SCRIPT = """\
import socket, sys
from gateway.commands.output import open_closed
closed = open_closed()
listener = socket.create_server(("127.0.0.1", 0))
assert listener.fileno() > 2, listener.fileno()
listener.close()
print("anything")
sys.stdout.buffer.write(b"anything")
sys.stdout.flush()
sys.stderr.write("")
assert sys.stdin.read() == ""
sys.exit(",".join(closed) + "|" if "stderr" not in closed else 7)
"""


@for_each(
    ("shell", "closed", "code"),
    [
        ("</dev/null", "", 1),
        ("</dev/null >&-", "stdout", 1),
        ("<&-", "stdin", 1),
        ("<&- >&-", "stdin,stdout", 1),
        ("<&- >&- 2>&-", "", 7),
    ],
)
def test_a_closed_stream_is_opened_on_nothing(shell: str, closed: str, code: int) -> None:
    command = f'"$0" -W error -c "$1" {shell}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, SCRIPT], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr
    assert done.stderr == (f"{closed}|\n" if code == 1 else "")
