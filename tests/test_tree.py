"""The tree keeps its shape: package files, lock files, and the manifests of a deployment."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from gateway.config.check import examine

ROOT = Path(__file__).parent.parent
_FREE_RELATIVE = re.compile(r"\s*(?:Who|Whose|Whom|What|Whoever|Whatever|That|How)\b")
"""A first word that makes a docstring a clause instead of a noun or a sentence."""


def test_package_files_hold_a_docstring_only() -> None:
    for path in (ROOT / "gateway").rglob("__init__.py"):
        text = path.read_text()
        if path.parent.name == "gateway":
            # The version of the package is the one other thing.
            text = text.partition("\n__version__")[0]
        assert text.startswith('"""'), path
        assert text.rstrip().endswith('"""'), path
        assert text.count('"""') == 2, path


def test_no_docstring_begins_with_a_free_relative() -> None:
    """Docstrings name a thing or say what is done: "Return the owner of a task.", not "Whose a task is."."""
    found = [
        f"{path.relative_to(ROOT).as_posix()}:{line}: {text.strip().splitlines()[0]}"
        for path in sorted((ROOT / "gateway").rglob("*.py"))
        for line, text in docstrings(path)
        if _FREE_RELATIVE.match(text) is not None
    ]
    assert found == []


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield each string that stands as a statement: docstrings of modules, classes, functions and attributes."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value


def test_lock_files_pin_hashes_and_name_no_index() -> None:
    for name in ("requirements.lock", "requirements-dev.lock", "tests/legacy/requirements.lock"):
        text = (ROOT / name).read_text()
        pins = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
        assert pins, name
        assert all("==" in pin and pin.endswith("\\") for pin in pins), name
        assert "://" not in text, name
        assert "--index" not in text, name
        assert "--extra-index" not in text, name
        assert "--find-links" not in text, name


def test_the_lock_file_of_javascript_pins_hashes_and_names_no_registry() -> None:
    text = (ROOT / "tests/javascript/package-lock.json").read_text()
    packages = {name: each for name, each in yaml.safe_load(text)["packages"].items() if name}
    assert packages
    assert all(each["integrity"].startswith("sha512-") and "resolved" not in each for each in packages.values())
    assert "://" not in text


def test_the_development_lock_runs_what_is_deployed() -> None:
    deployed = _pins("requirements.lock")
    assert deployed.items() <= _pins("requirements-dev.lock").items()


def test_kubernetes_probes_and_ports_agree() -> None:
    documents = [document for document in yaml.safe_load_all((ROOT / "deploy/kubernetes.yaml").read_text()) if document]
    [deployment] = [document for document in documents if document["kind"] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    ports = {port["name"] for port in container["ports"]}
    probes = [container[kind]["httpGet"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert {probe["port"] for probe in probes} <= ports
    assert {probe["path"] for probe in probes} == {"/-/live", "/-/ready"}
    assert (deployment["spec"]["replicas"], deployment["spec"]["strategy"]) == (1, {"type": "Recreate"})
    services = [document for document in documents if document["kind"] == "Service"]
    assert {port["targetPort"] for service in services for port in service["spec"]["ports"]} == ports


def test_the_configuration_of_the_kubernetes_manifest_has_no_problems(tmp_path: Path) -> None:
    documents = yaml.safe_load_all((ROOT / "deploy/kubernetes.yaml").read_text())
    [written] = [document["data"]["gateway.yaml"] for document in documents if document["kind"] == "ConfigMap"]
    token = tmp_path / "token"
    token.write_text("a-token-of-some-length-0123456789\n")
    text = written.replace("/run/secrets/a2a-gateway-admin/token", str(token))
    examined = examine(tmp_path / "gateway.yaml", {}, text=text)
    assert examined.problems == ()


def test_prometheus_scrapes_the_admin_port_of_every_pod() -> None:
    [job] = yaml.safe_load((ROOT / "deploy/prometheus.yml").read_text())["scrape_configs"]
    documents = [document for document in yaml.safe_load_all((ROOT / "deploy/kubernetes.yaml").read_text()) if document]
    [deployment] = [document for document in documents if document["kind"] == "Deployment"]
    [admin] = [
        document
        for document in documents
        if document["metadata"]["name"] == "a2a-gateway-admin" and document["kind"] == "Service"
    ]
    assert job["metrics_path"] == "/metrics"
    # A target by name would be one replica at random.
    assert "static_configs" not in job
    [discovery] = job["dns_sd_configs"]
    assert discovery["names"] == [f"{admin['metadata']['name']}.{admin['metadata']['namespace']}.svc"]
    # Headless: its name has the addresses of all pods, and their own port is dialled.
    assert (discovery["type"], admin["spec"]["clusterIP"]) == ("A", "None")
    pod = deployment["spec"]["template"]
    assert admin["spec"]["selector"] == pod["metadata"]["labels"]
    ports = {port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
    assert discovery["port"] == ports["admin"]


def _pins(lock: str) -> dict[str, str]:
    lines = [line for line in (ROOT / lock).read_text().splitlines() if "==" in line]
    return {name: version.split()[0] for name, version in (line.split("==", 1) for line in lines)}
