"""A line to an agent that breaks without a word, neither refused nor reset: safety R22."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.faults import figure
from tests.e2e.process import ROOT

NEEDS = ("unshare", "nsenter", "ip")


def may_part() -> bool:
    """Whether processes of ours may have networks of their own."""
    if not all(map(shutil.which, NEEDS)):
        return False
    probe = "ip link add name here type veth peer name there"
    return subprocess.run(["unshare", "-rn", "sh", "-c", probe], capture_output=True, check=False).returncode == 0


@pytest.mark.long
@pytest.mark.timeout(150)
@pytest.mark.skipif(not may_part(), reason="the system lets nobody have a network of its own")
def test_r22_a_line_that_breaks_without_a_word_is_noticed(tmp_path: Path) -> None:
    command = ["unshare", "-rn", sys.executable, "-m", "tests.e2e.partitioned", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    took = json.loads(done.stdout.splitlines()[-1])
    figure(
        "R22",
        f"an open stream is told after {took['stream']:.0f} s, a call that waits after {took['waiting']:.0f} s, one "
        f"sent into the break after {took['next']:.1f} s, one that has to connect, thrice, after {took['new']:.1f} s",
        holds=max(took["stream"], took["waiting"]) <= 31 and took["next"] <= 16.5 and took["new"] <= 10,
    )
    assert max(took.values()) < 60
