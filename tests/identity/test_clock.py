import pytest

from gateway.identity.clock import ClockWatch


class Clocks:
    """A wall clock that can be set, and a monotonic one that cannot."""

    def __init__(self) -> None:
        self.passed = 0.0
        self.set = 1_800_000_000.0

    def monotonic(self) -> float:
        return self.passed

    def wall(self) -> float:
        return self.set + self.passed


@pytest.mark.parametrize("step", [60.0, -60.0, 7200.0, -7200.0])
def test_a_clock_that_was_set_is_told_once(step: float, caplog: pytest.LogCaptureFixture) -> None:
    clocks = Clocks()
    watch = ClockWatch(clocks.monotonic, clocks.wall)
    clocks.passed += 10
    assert watch.look() == 0.0
    clocks.set += step
    clocks.passed += 10
    assert watch.look() == step
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert f"the wall clock was set by {step:+.0f} s" in caplog.text
    clocks.passed += 10
    assert watch.look() == 0.0
