"""The dashboards and the alerts ask for series that a gateway exports, in the language of Prometheus."""

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import httpx
import pytest
import yaml

from tests.program import running, until, written

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy/grafana"
PROMTOOL, PROMETHEUS = shutil.which("promtool"), shutil.which("prometheus")
GATEWAY = """
version: 1
gateway: {{ listen: 127.0.0.1:0, admin: 127.0.0.1:0, state: memory }}
auth:
  issuers:
    corp: {{ issuer: https://login.example.test, audience: agents, jwks: https://127.0.0.1:9/keys, tenant: acme }}
  api_keys:
    batch: {{ sha256: c775e7b757ede630cd0aa1113bd102661ab38829ca52a6422ab782862f268646, tenant: acme }}
tenants: {{ acme: [notes] }}
push: {{ mode: relay }}
agents:
  notes:
    backend: {{ stdio: {{ command: [{python}, -m, gateway.demo.stdio_agent], env: {{ PYTHONPATH: {root} }} }} }}
"""


def dashboards() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dashboards", FOLDER / "dashboards.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def of_dashboards() -> dict[str, str]:
    """All expressions of the dashboards, with values for Grafana's variables."""
    module = dashboards()
    return {
        f"{name} {number}": expression.replace("$__rate_interval", "1m")
        .replace('"$agent"', '".*"')
        .replace('"$tenant"', '".*"')
        for name in module.DASHBOARDS
        for number, expression in enumerate(module.expressions(name))
    }


def of_alerts() -> dict[str, str]:
    (group,) = yaml.safe_load((ROOT / "deploy/prometheus/rules.yaml").read_text())["groups"]
    return {rule["alert"]: rule["expr"] for rule in group["rules"]}


@contextmanager
def gateway(folder: Path) -> Iterator[tuple[str, str]]:
    """A gateway with an agent on stdio; the addresses for clients and operators."""
    path = written(folder, GATEWAY.format(python=sys.executable, root=ROOT))
    with running("serve", "-c", str(path), cwd=folder) as process:
        public, admin = re.findall(r"http://(127\.0\.0\.1:\d+)", until(process.stderr, "admin on "))
        yield public, admin


def test_the_files_are_what_the_table_makes() -> None:
    module = dashboards()
    assert {path.stem for path in FOLDER.glob("*.json")} == set(module.DASHBOARDS)
    for name in module.DASHBOARDS:
        assert (FOLDER / f"{name}.json").read_text() == module.render(name), "run deploy/grafana/dashboards.py"


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: apt install prometheus)")
def test_every_expression_is_promql(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    rules = [{"record": f"a:{number}", "expr": text} for number, text in enumerate(of_dashboards().values())]
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboards", "rules": rules}]}))
    done = subprocess.run([PROMTOOL, "check", "rules", path], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_series_is_one_that_a_gateway_exports(tmp_path: Path) -> None:
    with gateway(tmp_path) as (_, admin):
        text = httpx.get(f"http://{admin}/metrics").text
    if PROMTOOL is not None:
        command = [PROMTOOL, "check", "metrics"]
        linted = subprocess.run(command, input=text, capture_output=True, text=True, timeout=30, check=False)
        assert linted.returncode == 0, linted.stdout + linted.stderr
    families = dict(re.findall(r"^# TYPE (\S+) (\w+)$", text, re.MULTILINE))
    known = {name for name, kind in families.items() if kind != "histogram"}
    known |= {
        f"{name}_{part}"
        for name, kind in families.items()
        if kind == "histogram"
        for part in ("bucket", "sum", "count")
    }
    known.add("up")
    for place, expression in {**of_dashboards(), **of_alerts()}.items():
        used = set(re.findall(r"\b((?:a2a_gateway|process)_\w+|up)\b", expression))
        assert used, place
        assert used <= known, (place, used - known)
