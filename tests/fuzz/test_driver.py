"""The fuzz loop finds what is planted, and every target still runs."""

import importlib
import runpy
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from tests.fuzz import driver
from tests.fuzz.driver import Mutator, Slow, fuzz, run

FOLDER = Path(__file__).parent
TARGETS = sorted(file.stem for file in FOLDER.glob("*.py") if file.stem != "driver" and file.stem[:5] != "test_")


def planted(data: bytes) -> object:
    if b"%2f" in data:
        raise ValueError("planted")
    return len(data) // 8


def test_a_planted_fault_is_found_and_made_small() -> None:
    tried, finding = fuzz(planted, [b"/agents/billing%20x"], words=[b"2f", b"%2"], seconds=30)
    assert finding is not None
    assert tried > 1
    assert finding.data == b"%2f"
    assert isinstance(finding.error, ValueError)


def test_the_same_seed_draws_the_same_inputs() -> None:
    def drawn(seed: int) -> list[bytes]:
        mutator = Mutator([b"one", b"another"], [b"word"], seed, 100)
        return [mutator.draw() for _ in range(200)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert max(map(len, drawn(3))) <= 100


def test_an_input_that_takes_too_long_is_a_finding() -> None:
    def lazy(data: bytes) -> None:
        end = time.process_time() + 0.05
        while data and time.process_time() < end:
            pass

    _, finding = fuzz(lazy, [b"x"], slow=0.01, seconds=30)
    assert finding is not None
    assert isinstance(finding.error, Slow)


def test_a_finding_is_kept_and_can_be_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(driver, "FOUND", tmp_path / "found")
    monkeypatch.setitem(sys.modules, "planting", ModuleType("planting"))
    monkeypatch.setattr(planted, "__module__", "planting")
    monkeypatch.setattr(sys.modules["planting"], "__file__", "planting.py", raising=False)
    with pytest.raises(SystemExit) as ended:
        run(planted, [b"%2f and more"], argv=["--seconds", "5", "--seed", "1"])
    assert ended.value.code == 1
    [kept] = (tmp_path / "found").iterdir()
    assert kept.read_bytes() == b"%2f"
    assert f"--input {kept}" in capsys.readouterr().out
    with pytest.raises(ValueError, match="planted"):
        run(planted, [], argv=["--input", str(kept)])


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_runs_and_its_seeds_hold(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(f"tests.fuzz.{name}")
    monkeypatch.setattr(driver, "FOUND", tmp_path)
    monkeypatch.setattr(sys, "argv", [name, "--seconds", "0.5", "--seed", "1"])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(module.__file__), run_name="__main__")
    assert ended.value.code == 0
