"""The metrics as Prometheus's own linter reads them, and the scrape configuration as Prometheus does."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

PROMTOOL = shutil.which("promtool")
pytestmark = pytest.mark.skipif(
    PROMTOOL is None and not os.environ.get("CI"), reason="promtool is not installed (Debian: apt install prometheus)"
)


def promtool(*arguments: str, text: bytes = b"") -> None:
    assert PROMTOOL is not None, "promtool is not installed"
    ran = subprocess.run([PROMTOOL, *arguments], input=text, capture_output=True, timeout=30, check=False)
    assert ran.returncode == 0, (ran.stdout + ran.stderr).decode()


def test_prometheus_takes_the_scrape_configuration(tmp_path: Path) -> None:
    config = yaml.safe_load((Path(__file__).parents[2] / "deploy" / "prometheus.yml").read_text())
    # Debian builds its promtool without Kubernetes; tests/deploy compares this section with the pods.
    assert config["scrape_configs"][0].pop("kubernetes_sd_configs")
    path = tmp_path / "prometheus.yml"
    path.write_text(yaml.safe_dump(config))
    promtool("check", "config", "--syntax-only", str(path))
