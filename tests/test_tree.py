"""The tree keeps its shape: tests mirror the sources, and what is deployed can be read."""

from pathlib import Path

import yaml

from gateway.config.check import examine

ROOT = Path(__file__).parent.parent

TESTED_ELSEWHERE = {
    "command/answer.py": "what every command prints by; tests/test_cli.py and test_cli_state.py read it",
    "command/file.py": "where every command looks; tests/test_cli.py is in folders with and without a file",
    "command/failure.py": "an exception without behaviour",
    "catalog/asking.py": "a value and an interface; test_grpc_cards.py and test_stdio_cards.py are who asks",
    "kept.py": "a count and a thread; tests/test_long_answers.py fills and shares it",
    "config/peer_tls.py": "a mapping of the file; tests/test_private_authorities.py writes it",
    "answer_head.py": "what the relay reads of a head; tests/test_relay.py shows it",
    "listeners.py": "opened and closed together; tests/test_app.py opens them, tests/test_app_stopping.py closes them",
    "opening.py": "what starting is made of; tests/test_app.py starts with all of it, and with what cannot be used",
    "telemetry/lag.py": "one loop; tests/telemetry/test_promtool.py reads its figure",
    "entry.py": "values without behaviour; tests/test_intake.py is about what they say",
    "wire.py": "an interface; tests/listener/test_wire.py is about the one that clients are behind",
    "principal.py": "a value without behaviour",
    "certificate.py": "a value without behaviour; tests/identity/test_mtls.py reads all of it",
    "tasks/store.py": "an interface; tests/tasks/contract.py is what every store must show",
    "routing/route.py": "values without behaviour; tests/routing/test_table.py builds and reads all of them",
}
"""Source files without a mirror test of their own, and why."""


def test_every_source_file_has_its_mirror_test() -> None:
    sources = {
        path.relative_to(ROOT / "gateway")
        for path in (ROOT / "gateway").rglob("*.py")
        if path.name not in ("__init__.py", "__main__.py")
    }
    untested = {
        source.as_posix() for source in sources if not (ROOT / "tests" / source.parent / f"test_{source.name}").exists()
    }
    assert untested - TESTED_ELSEWHERE.keys() == set()


def test_every_exception_to_the_mirror_is_needed() -> None:
    for source in TESTED_ELSEWHERE:
        path = Path(source)
        assert (ROOT / "gateway" / path).exists(), source
        assert not (ROOT / "tests" / path.parent / f"test_{path.name}").exists(), source


def test_package_files_hold_a_docstring_only() -> None:
    for path in (ROOT / "gateway").rglob("__init__.py"):
        text = path.read_text()
        assert text.startswith('"""'), path
        assert text.rstrip().endswith('"""'), path
        assert text.count('"""') == 2, path


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
