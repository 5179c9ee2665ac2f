"""The chart and the kustomize base, rendered by the real programs: valid, confined, and one in what they run."""

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml

from gateway import __version__
from gateway.config.check import examine

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy/helm/a2a-gateway"
BASE = ROOT / "deploy/kustomize"
RULES = ROOT / "deploy/prometheus/rules.yaml"
SINGLE = ("-f", str(CHART / "examples/single.yaml"))
SCALED = (*SINGLE, "-f", str(CHART / "examples/scaled.yaml"))
HELM, KUBECTL = shutil.which("helm"), shutil.which("kubectl")
VERSION = "1.33"
"""Of Kubernetes, whose schemas judge the manifests."""
THEIRS = {"HTTPRoute", "GRPCRoute", "ServiceMonitor", "PrometheusRule"}
"""Kinds of others, which Kubernetes has no schema of."""
WHERE = "tests/deploy/get-kubernetes-tools DIRECTORY puts it there"
helm_needed = pytest.mark.skipif(HELM is None, reason=f"helm is not in the path: {WHERE}")
kubectl_needed = pytest.mark.skipif(KUBECTL is None, reason=f"kubectl is not in the path: {WHERE}")

Manifest = dict[str, Any]


def run(*command: str) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    return subprocess.run(command, env=environ, capture_output=True, text=True, timeout=60, check=False)


@cache
def helm(*arguments: str) -> list[Manifest]:
    """The manifests of the chart, each as Kubernetes understands it."""
    assert HELM is not None
    done = run(HELM, "template", "a2a-gateway", str(CHART), *arguments)
    assert done.returncode == 0, done.stderr
    return read(done.stdout)


def refused(*arguments: str) -> str:
    assert HELM is not None
    done = run(HELM, "template", "a2a-gateway", str(CHART), *arguments)
    assert done.returncode != 0
    return done.stderr


def read(text: str) -> list[Manifest]:
    manifests = [each for each in yaml.safe_load_all(text) if each]
    for each in manifests:
        if each["kind"] not in THEIRS:
            kubernetes_validate.validate(each, VERSION, strict=True)
    return manifests


def one(manifests: list[Manifest], kind: str, name: str = "a2a-gateway") -> Manifest:
    [found] = [each for each in manifests if each["kind"] == kind and each["metadata"]["name"] == name]
    return found


@cache
def kustomized() -> list[Manifest]:
    assert KUBECTL is not None
    done = run(KUBECTL, "kustomize", str(BASE))
    assert done.returncode == 0, done.stderr
    return read(done.stdout)


def problems(folder: Path, text: str) -> tuple[object, ...]:
    """Return the problems that `check` finds in the file of a pod, whose secrets are in a folder here."""
    for name, secret in (("a2a-gateway-admin/token", "x" * 32), ("a2a-gateway-state/url", "redis://redis:6379/0")):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(secret)
    return examine(folder / "gateway.yaml", {}, text=text.replace("/run/secrets", str(folder))).problems


@helm_needed
def test_the_chart_has_no_lint() -> None:
    assert HELM is not None
    for values in (SINGLE, SCALED):
        done = run(HELM, "lint", "--strict", str(CHART), *values)
        assert done.returncode == 0, done.stdout + done.stderr
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


@helm_needed
def test_the_chart_writes_a_configuration_without_problems(tmp_path: Path) -> None:
    for values in (SINGLE, SCALED):
        manifests = helm(*values)
        text = one(manifests, "ConfigMap")["data"]["gateway.yaml"]
        assert problems(tmp_path, text) == ()
    # Limits hold with as many pods as there may be.
    assert yaml.safe_load(text)["gateway"]["replicas"] == 10


@helm_needed
def test_one_replica_has_a_volume_and_several_a_redis() -> None:
    single, scaled = helm(*SINGLE), helm(*SCALED)
    stateful = one(single, "StatefulSet")["spec"]
    assert (stateful["replicas"], [each["metadata"]["name"] for each in stateful["volumeClaimTemplates"]]) == (
        1,
        ["state"],
    )
    kinds = {each["kind"] for each in scaled}
    assert {"StatefulSet", "Ingress"} & kinds == set()
    assert {"PodDisruptionBudget", "NetworkPolicy", *THEIRS} < kinds
    assert "replicas" not in one(scaled, "Deployment")["spec"]
    scaler = one(scaled, "HorizontalPodAutoscaler")["spec"]
    assert [next(iter(set(each) - {"type"})) for each in scaler["metrics"]] == ["resource", "pods"]
    assert scaler["metrics"][1]["pods"]["metric"]["name"] == "a2a_gateway_streams_open"
    assert "set state.kind: redis" in refused(*SINGLE, "--set", "autoscaling.enabled=true")
    assert "state.redis.existingSecret" in refused(*SINGLE, "--set", "state.kind=redis")


@helm_needed
def test_the_grace_period_covers_the_drain() -> None:
    drain = ("--set", "drain.preStopSeconds=7,drain.delaySeconds=3,drain.timeoutSeconds=600")
    manifests = helm(*SINGLE, *drain)
    pod = one(manifests, "StatefulSet")["spec"]["template"]["spec"]
    assert pod["terminationGracePeriodSeconds"] == 7 + 3 + 600 + 10
    assert pod["containers"][0]["lifecycle"] == {"preStop": {"sleep": {"seconds": 7}}}
    written = yaml.safe_load(one(manifests, "ConfigMap")["data"]["gateway.yaml"])
    assert written["gateway"]["drain"] == {"delay": "3s", "timeout": "600s"}


@helm_needed
def test_pods_are_replaced_for_what_waits_for_a_restart_only() -> None:
    def checksum(*values: str) -> str:
        metadata = one(helm(*SINGLE, *values), "StatefulSet")["spec"]["template"]["metadata"]
        return str(metadata["annotations"]["checksum/restart"])

    assert checksum() == checksum("--set", "config.agents.more=http://more:1")
    assert checksum() != checksum("--set", "config.observe.log.level=debug")
    assert checksum() != checksum("--set", "drain.timeoutSeconds=99")


@helm_needed
def test_the_rules_of_the_chart_are_those_of_the_file() -> None:
    rule = one(helm(*SCALED), "PrometheusRule")
    assert rule["spec"] == yaml.safe_load(RULES.read_text())
    based = one(helm(*SCALED, "--set", "prometheusRule.runbookBase=https://git.example.com/"), "PrometheusRule")
    urls = [each["annotations"]["runbook_url"] for each in based["spec"]["groups"][0]["rules"]]
    assert all(url.startswith("https://git.example.com/docs/runbook.md#") for url in urls)


@helm_needed
def test_clients_cannot_reach_the_admin_port() -> None:
    manifests = helm(*SCALED, "--set", "ingress.enabled=true,ingress.hosts={agents.example.com}")
    clients, admin = one(manifests, "NetworkPolicy")["spec"]["ingress"]
    assert ([each["port"] for each in clients["ports"]], "from" in clients) == (["http", "grpc"], False)
    assert ([each["port"] for each in admin["ports"]], "from" in admin) == (["admin"], True)
    service = one(manifests, "Service")
    assert [each["name"] for each in service["spec"]["ports"]] == ["http", "grpc"]
    ports = {each["name"]: each["port"] for each in service["spec"]["ports"]}
    for kind, port in (("HTTPRoute", "http"), ("GRPCRoute", "grpc")):
        [rule] = one(manifests, kind)["spec"]["rules"]
        assert rule["backendRefs"] == [{"name": "a2a-gateway", "port": ports[port]}]
    [path] = one(manifests, "Ingress")["spec"]["rules"][0]["http"]["paths"]
    assert path["backend"] == {"service": {"name": "a2a-gateway", "port": {"name": "http"}}}
    monitor = one(manifests, "ServiceMonitor")["spec"]
    labels = one(manifests, "Service", "a2a-gateway-admin")["metadata"]["labels"]
    assert monitor["selector"]["matchLabels"].items() <= labels.items()
    # The alerts ask for this job.
    assert labels[monitor["jobLabel"]] == "a2a-gateway"


@helm_needed
def test_a_secret_can_have_the_whole_file_and_wrong_values_are_refused() -> None:
    manifests = helm("--set", "existingSecret=mine")
    assert "ConfigMap" not in {each["kind"] for each in manifests}
    volumes = one(manifests, "StatefulSet")["spec"]["template"]["spec"]["volumes"]
    assert {"name": "config", "secret": {"secretName": "mine"}} in volumes
    assert "examples/" in refused()
    assert "additional properties 'replicas' not allowed" in refused(*SINGLE, "--set", "replicas=3")
    assert "want integer" in refused(*SINGLE, "--set", "drain.delaySeconds=5s")


@kubectl_needed
def test_the_base_is_valid_and_its_configuration_has_no_problems(tmp_path: Path) -> None:
    manifests = kustomized()
    assert problems(tmp_path, one(manifests, "ConfigMap")["data"]["gateway.yaml"]) == ()
    assert {each["metadata"].get("namespace") for each in manifests} == {None, "a2a-gateway"}
    [container] = one(manifests, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    assert container["image"] == f"a2a-gateway:{__version__}"


@kubectl_needed
@helm_needed
def test_the_base_and_the_chart_run_the_same_pod() -> None:
    base, chart = (one(each, "StatefulSet")["spec"] for each in (kustomized(), helm(*SINGLE)))
    pod = dict(chart["template"]["spec"])
    del pod["topologySpreadConstraints"]
    assert base["template"]["spec"] == pod
    assert base["volumeClaimTemplates"] == chart["volumeClaimTemplates"]


def test_the_pod_is_confined_and_its_ports_agree() -> None:
    [stateful] = yaml.safe_load_all((BASE / "statefulset.yaml").read_text())
    pod = stateful["spec"]["template"]["spec"]
    assert (pod["securityContext"]["runAsNonRoot"], pod["automountServiceAccountToken"]) == (True, False)
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    [container] = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    ports = {port["name"] for port in container["ports"]}
    probes = [container[kind]["httpGet"] for kind in ("startupProbe", "livenessProbe", "readinessProbe")]
    assert {probe["port"] for probe in probes} <= ports
    assert {probe["path"] for probe in probes} == {"/-/live", "/-/ready"}
    services = list(yaml.safe_load_all((BASE / "services.yaml").read_text()))
    assert {port["targetPort"] for service in services for port in service["spec"]["ports"]} == ports


def test_prometheus_scrapes_the_admin_port_of_every_pod() -> None:
    [job] = yaml.safe_load((ROOT / "deploy/prometheus.yml").read_text())["scrape_configs"]
    [discovery] = job["kubernetes_sd_configs"]
    [stateful] = yaml.safe_load_all((BASE / "statefulset.yaml").read_text())
    labels = stateful["spec"]["template"]["metadata"]["labels"]
    assert discovery["role"] == "pod"
    assert discovery["namespaces"] == {
        "names": [yaml.safe_load((BASE / "namespace.yaml").read_text())["metadata"]["name"]]
    }
    assert [each["label"].split("=") for each in discovery["selectors"]] == [list(each) for each in labels.items()]
    assert job["relabel_configs"][0]["regex"] == "admin"
    assert "admin" in {port["name"] for port in stateful["spec"]["template"]["spec"]["containers"][0]["ports"]}
