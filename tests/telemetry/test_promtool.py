"""The metrics as Prometheus's own linter reads them, and the scrape configuration as Prometheus does."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from gateway.a2a.operation import CALLABLE, Kind
from gateway.telemetry.metrics import AgentMeter, Metrics, Sample

PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.skipif(
    PROMTOOL is None and not os.environ.get("CI"), reason="promtool is not installed (Debian: apt install prometheus)"
)


def promtool(*arguments: str, text: bytes = b"") -> None:
    assert PROMTOOL is not None, "promtool is not installed"
    ran = subprocess.run([PROMTOOL, *arguments], input=text, capture_output=True, timeout=30, check=False)
    assert ran.returncode == 0, (ran.stdout + ran.stderr).decode()


def test_promtool_finds_nothing_wrong_with_the_metrics() -> None:
    sample = Sample("card_age_seconds", "Age.", ("agent", "backend"), ((("echo", "echo"), 1.5),))
    metrics = Metrics("1.0", lambda: [sample, Sample("log_dropped_total", "Lines.", (), (((), 3.0),))])
    meter = AgentMeter(metrics, "echo", frozenset({"acme"}))
    for operation in CALLABLE:
        meter.request(operation.value, "jsonrpc", "ok", "acme")
    for kind in Kind:
        meter.timed(kind, 1.0, 0.5, 0.001)
    meter.rejected("no_route")
    meter.event("task")
    meter.task("completed")
    meter.stream_closed("agent", 1.0)
    meter.sized(10, 10)
    meter.task_ended(1.0)
    meter.answered("echo", 200)
    metrics.auth.add(("jwt", "corp", "ok"))
    metrics.loop_lag.observe(0.001)
    promtool("check", "metrics", text=metrics.render())


def test_prometheus_takes_the_scrape_configuration(tmp_path: Path) -> None:
    config = yaml.safe_load((Path(__file__).parents[2] / "deploy" / "prometheus.yml").read_text())
    # Debian builds its promtool without Kubernetes; tests/deploy compares this section with the pods.
    assert config["scrape_configs"][0].pop("kubernetes_sd_configs")
    path = tmp_path / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    promtool("check", "config", "--syntax-only", str(path))
