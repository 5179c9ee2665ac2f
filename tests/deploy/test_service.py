"""The unit for systemd is one for the systemd that is here."""

import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.config.check import examine

UNIT = Path(__file__).parents[2] / "deploy" / "a2a-gateway.service"
ANALYZE = shutil.which("systemd-analyze")


@pytest.mark.skipif(ANALYZE is None, reason="there is no systemd here that could say so")
def test_systemd_understands_all_of_it(tmp_path: Path) -> None:
    assert ANALYZE is not None
    text = UNIT.read_text()
    assert "ExecStart=/usr/local/bin/a2a-gateway " in text
    # The program is elsewhere, or nowhere, on the machine that runs the tests.
    unit = tmp_path / UNIT.name
    unit.write_text(text.replace("/usr/local/bin/a2a-gateway", shutil.which("true") or "/bin/true"))
    done = subprocess.run([ANALYZE, "verify", unit], capture_output=True, text=True, timeout=60, check=False)
    about = [line for line in done.stderr.splitlines() if UNIT.name in line]
    assert (about, done.returncode) == ([], 0)


def test_the_unit_waits_for_readiness_and_can_reload() -> None:
    lines = UNIT.read_text().splitlines()
    # `notify-reload` is a word of systemd 253; older ones pass over it, and know neither.
    assert "Type=notify" in lines
    assert "ExecReload=/bin/kill -HUP $MAINPID" in lines


def test_a_reload_checks_the_file_first_and_a_credential_is_where_the_unit_says(tmp_path: Path) -> None:
    text = UNIT.read_text()
    check = "ExecReload=/usr/local/bin/a2a-gateway check /etc/a2a-gateway/gateway.yaml"
    assert text.index(check) < text.index("ExecReload=/bin/kill")
    # systemd.exec(5): below /run/credentials, in a folder with the name of the unit.
    reference = f"${{file:/run/credentials/{UNIT.name}/admin-token}}"
    assert reference in text
    (tmp_path / "admin-token").write_text("x" * 32)
    admin = reference.replace(f"/run/credentials/{UNIT.name}", str(tmp_path))
    file = f'version: 1\ngateway: {{ admin: {{ token: "{admin}" }} }}\nagents: {{ a: http://127.0.0.1:1 }}\n'
    assert examine(tmp_path / "gateway.yaml", {}, text=file).errors == ()


@pytest.mark.skipif(ANALYZE is None, reason="there is no systemd here that could say so")
def test_the_unit_is_confined() -> None:
    assert ANALYZE is not None
    command = [ANALYZE, "security", "--offline=true", "--threshold=30", str(UNIT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout[-200:]
