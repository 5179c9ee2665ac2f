"""The compose file: its mounts exist, and the files that it mounts are good."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway import __version__
from gateway.config.check import examine

DEPLOY = Path(__file__).parents[2] / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKER = shutil.which("docker")
KEY = "c775e7b757ede630cd0aa1113bd102661ab38829ca52a6422ab782862f268646"


def test_mounted_files_exist_and_images_have_a_version() -> None:
    for name, service in SERVICES.items():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert (DEPLOY / source).exists() if source.startswith(".") else source in COMPOSE["volumes"], name
        assert service["image"].split(":")[1] != "latest"
    assert {SERVICES[name]["image"] for name in ("gateway", "agents-one", "agents-two")} == {
        f"a2a-gateway:{__version__}"
    }


def test_ports_are_published_on_loopback_and_the_admin_port_is_not() -> None:
    ports = [port.split(":") for service in SERVICES.values() for port in service.get("ports", ())]
    assert {host for host, _, _ in ports} == {"127.0.0.1"}
    assert [port.split(":")[2] for port in SERVICES["gateway"]["ports"]] == ["8080", "8081"]


def test_the_configuration_has_no_problems_and_names_the_services(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("x" * 32)
    text = (DEPLOY / "compose/gateway.yaml").read_text().replace("/run/secrets/admin-token", str(tmp_path / "token"))
    examined = examine(tmp_path / "gateway.yaml", {"ACME_KEY_SHA256": KEY}, text=text)
    assert examined.problems == ()
    assert {"agents-one", "agents-two", "redis"} <= {name for name in SERVICES if f"//{name}:" in text}
    [job] = yaml.safe_load((DEPLOY / "compose/prometheus.yml").read_text())["scrape_configs"]
    assert job["job_name"] == "a2a-gateway"
    assert job["static_configs"] == [{"targets": ["gateway:9090"]}]
    [source] = yaml.safe_load((DEPLOY / "compose/grafana/datasources/prometheus.yaml").read_text())["datasources"]
    assert source["url"] == "http://prometheus:9090"
    [provider] = yaml.safe_load((DEPLOY / "compose/grafana/dashboards/a2a-gateway.yaml").read_text())["providers"]
    assert any(volume.endswith(f":{provider['options']['path']}:ro") for volume in SERVICES["grafana"]["volumes"])


def test_docker_compose_takes_it() -> None:
    if DOCKER is None or subprocess.run([DOCKER, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker has no compose here")
    command = [DOCKER, "compose", "-f", str(DEPLOY / "compose.yaml"), "config", "--quiet"]
    environ = {"ACME_KEY_SHA256": KEY, "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
