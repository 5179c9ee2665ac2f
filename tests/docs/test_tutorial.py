"""The tutorial, run from its page in an empty folder: files are written, commands are run, outputs are compared."""

import re
import subprocess
from contextlib import ExitStack
from pathlib import Path

from tests.docs.pages import ROOT, blocks, commands, free_ports, on_ports, terminal

PAGE = ROOT / "docs/tutorial.md"
_FOREGROUND = "terminal 1"


def test_the_tutorial_works_as_written(tmp_path: Path) -> None:
    folder, tools = tmp_path / "empty", tmp_path / "tools"
    folder.mkdir()
    (folder / "said").touch()
    tools.mkdir()
    environ, ports, said = commands(tools), free_ports(PAGE.read_text()), ""

    def substituted(text: str) -> str:
        return on_ports(text, ports)

    with ExitStack() as running:
        for language, title, text in blocks(PAGE):
            if title == "output":
                assert [line for line in text.splitlines() if line not in said] == []
            elif language != "sh":
                addresses = "gateway: { listen: '127.0.0.1:8080', admin: '127.0.0.1:9090' }\n"
                (folder / title).write_text(substituted(text + addresses * (title == "gateway.yaml")))
            elif title == _FOREGROUND:
                done = subprocess.run(
                    ["bash", "-ec", substituted(text)],
                    cwd=folder,
                    env=environ,
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
                said = done.stdout
                assert done.returncode == 0, said + done.stderr + (folder / "said").read_text()
            else:
                listening = [number for number in ports if number in text] or ["8080", "9090"]
                waited = [ports[number] for number in listening]
                running.enter_context(terminal(substituted(text), folder, environ, waited))


def test_the_tutorial_has_ten_steps_and_is_extracted() -> None:
    assert re.findall(r"^## (\d+)\.", PAGE.read_text(), re.MULTILINE) == [str(step) for step in range(1, 11)]
    assert {"agent.py", "gateway.yaml", "terminal 2", "terminal 3"} <= {block.title for block in blocks(PAGE)}
