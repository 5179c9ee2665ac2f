"""The alerting rules: each alert fires on its fault and is quiet without, and has an entry in the runbook."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy/prometheus/rules.yaml"
PROMTOOL = shutil.which("promtool")
P = "a2a_gateway_"


class Case(NamedTuple):
    """Series that fire an alert, series with which it stays quiet, and labels of the alert.

    Series are in promtool's notation: `0+60x40` begins at 0 and grows by 60 a minute, 40 times.
    """

    fires: dict[str, str]
    quiet: dict[str, str]
    labels: dict[str, str] = {}  # noqa: RUF012 - a tuple's default, never changed
    after: str = "40m"


def share(outcome: str, bad: int) -> dict[str, str]:
    """100 requests a minute, `bad` of them with this outcome."""
    return {
        P + f'requests_total{{agent="crm",outcome="{outcome}"}}': f"0+{bad}x60",
        P + 'requests_total{agent="crm",outcome="ok"}': f"0+{100 - bad}x60",
    }


def refused(reason: str) -> Case:
    name = P + f'rejected_total{{agent="crm",reason="{reason}"}}'
    return Case({name: "0+6x60"}, {name: "7+0x60"}, {"agent": "crm"} if reason == "no_healthy_backend" else {})


def gauge(name: str, bad: str, good: str, **labels: str) -> Case:
    written = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return Case({f"{P}{name}{{{written}}}": bad}, {f"{P}{name}{{{written}}}": good}, labels)


def slow(name: str, labels: dict[str, str], at: str, below: str) -> Case:
    written = "".join(f',{key}="{value}"' for key, value in labels.items())
    buckets = {"fires": at, "quiet": below}
    series = {
        which: {P + f'{name}_bucket{{le="{le}"{written}}}': "0+60x60" for le in (bound, "+Inf")}
        for which, bound in buckets.items()
    }
    return Case(series["fires"], series["quiet"], {key: value for key, value in labels.items() if key != "kind"})


def ratio(part: str, whole: str, bad: int, good: int) -> Case:
    series = [{P + part + '{instance="one"}': f"{n}x60", P + whole + '{instance="one"}': "100x60"} for n in (bad, good)]
    return Case(series[0], series[1], {"instance": "one"})


AUTH = P + 'auth_total{{method="jwt",issuer="corp",result="{}"}}'
ONE = {"instance": "one"}
CRM = {"agent": "crm"}
CASES = {
    "A2AGatewayDown": Case(
        {'up{job="a2a-gateway",instance="one"}': "0x60"},
        {'up{job="a2a-gateway",instance="one"}': "1x60"},
        {"job": "a2a-gateway", **ONE},
    ),
    "A2AGatewayErrors": Case(share("gateway_error", 5), share("gateway_error", 0)),
    "A2AGatewayOverloaded": gauge("shedding", "1x60", "0x60", what="streams"),
    "A2AGatewayStateUnavailable": refused("state_unavailable"),
    "A2AGatewayReloadRefused": gauge("config_last_reload_successful", "0x60", "1x60", **ONE),
    "A2AGatewaySlow": slow("overhead_seconds", {}, "0.5", "0.01"),
    "A2AGatewayEventLoopStalls": gauge("event_loop_stalls_total", "0+6x60", "0+1x60", **ONE),
    "A2AGatewayMemory": ratio("memory_bytes", "memory_limit_bytes", 90, 50),
    "A2AGatewayOpenFiles": ratio("open_files", "open_files_limit", 90, 50),
    "A2AGatewayLogLost": gauge("log_dropped_total", "0+1x60", "5x60", **ONE),
    "A2AGatewayDrainStuck": gauge("draining", "1x60", "0x20 1x10 0x30", **ONE),
    "A2AAgentUnavailable": refused("no_healthy_backend"),
    "A2AAgentReplicaDown": gauge("backend_up", "0x60", "1x60", agent="crm", backend="crm-1"),
    "A2AAgentErrors": Case(share("upstream_error", 20), share("upstream_error", 1), CRM),
    "A2AAgentSlow": slow("first_byte_seconds", {"agent": "crm", "kind": "stream"}, "60", "1"),
    "A2AAgentTasksFail": Case(
        {
            P + 'tasks_total{agent="crm",state="failed"}': "0+5x90",
            P + 'tasks_total{agent="crm",state="completed"}': "0+5x90",
        },
        {
            P + 'tasks_total{agent="crm",state="failed"}': "0+1x90",
            P + 'tasks_total{agent="crm",state="completed"}': "0+9x90",
        },
        CRM,
        "80m",
    ),
    "A2AAgentCardOld": Case(
        {P + 'card_age_seconds{agent="crm",backend="crm-1"}': "7300x60"},
        {P + 'card_age_seconds{agent="crm",backend="crm-1"}': "300x60"},
        CRM,
    ),
    "A2AAgentRestarts": gauge("stdio_restarts_total", "0+1x60", "0+0x30 1+0x30", **CRM),
    "A2AKeysUnavailable": refused("auth_unavailable"),
    # Time begins at 0, so keys that were read last at 0 are old after seven hours.
    "A2AKeysOld": Case(
        {P + 'jwks_last_success_timestamp_seconds{issuer="corp"}': "0x480"},
        {P + 'jwks_last_success_timestamp_seconds{issuer="corp"}': "0+60x480"},
        {"issuer": "corp"},
        "7h",
    ),
    "A2ACredentialsRefused": Case(
        {AUTH.format("invalid"): "0+120x60", AUTH.format("ok"): "0+60x60"},
        {AUTH.format("invalid"): "0+120x60", AUTH.format("ok"): "0+600x60"},
    ),
    # Time begins at 0.
    "A2ACredentialExpires": Case(
        {P + 'credential_expiry_timestamp_seconds{kind="tls",name="gateway"}': "86400x60"},
        # A signing key is replaced a day before.
        {
            P + 'credential_expiry_timestamp_seconds{kind="tls",name="gateway"}': "8640000x60",
            P + 'credential_expiry_timestamp_seconds{kind="signing_key",name="cards"}': "86400x60",
        },
        {"kind": "tls", "name": "gateway"},
    ),
    "A2AForeignTasks": Case(
        {P + 'task_access_denied_total{agent="crm",operation="GetTask"}': "0+10x60"},
        {P + 'task_access_denied_total{agent="crm",operation="GetTask"}': "0+1x60"},
        CRM,
    ),
    "A2ATenantLimited": Case(
        {P + 'limit_hits_total{limit="requests",scope="tenant",name="acme"}': "0+120x60"},
        {P + 'limit_hits_total{limit="requests",scope="tenant",name="acme"}': "0+6x60"},
        {"limit": "requests", "name": "acme"},
    ),
    "A2ANotificationsLate": Case(
        {P + 'push_oldest_seconds{instance="one"}': "25000x60"}, {P + 'push_oldest_seconds{instance="one"}': "300x60"}
    ),
    "A2ANotificationsLost": Case(
        {P + 'push_deliveries_total{agent="crm",result="dead"}': "0+1x60"},
        {P + 'push_deliveries_total{agent="crm",result="retried"}': "0+9x60"},
        CRM,
    ),
}


def rules() -> dict[str, dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


@pytest.mark.skipif(PROMTOOL is None, reason="promtool is not installed (Debian: apt install prometheus)")
def test_each_alert_fires_on_its_fault_and_is_quiet_without(tmp_path: Path) -> None:
    assert PROMTOOL is not None
    written = rules()
    assert written.keys() == CASES.keys()
    files = []
    for name, case in CASES.items():
        tests = []
        labels = {**case.labels, **written[name]["labels"]}
        annotations = written[name]["annotations"]
        for label, value in labels.items():
            annotations = {key: text.replace(f"{{{{ $labels.{label} }}}}", value) for key, text in annotations.items()}
        for series, expected in (
            (case.fires, [{"exp_labels": labels, "exp_annotations": annotations}]),
            (case.quiet, []),
        ):
            tests.append(
                {
                    "interval": "1m",
                    "input_series": [{"series": name, "values": values} for name, values in series.items()],
                    "alert_rule_test": [{"eval_time": case.after, "alertname": name, "exp_alerts": expected}],
                }
            )
        # Each rule alone in a file: every test evaluates all rules of its file, minute by minute.
        rule, path = tmp_path / f"{name}.rule.json", tmp_path / f"{name}.json"
        rule.write_text(json.dumps({"groups": [{"name": name, "rules": [written[name]]}]}))
        path.write_text(json.dumps({"rule_files": [str(rule)], "evaluation_interval": "1m", "tests": tests}))
        files.append(path)
    done = subprocess.run([PROMTOOL, "test", "rules", *files], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_has_an_entry_in_the_runbook() -> None:
    entries = re.findall(r"^### (\w+)$", (ROOT / "docs/runbook.md").read_text(), re.MULTILINE)
    assert sorted(entries) == sorted(CASES)
    for name, rule in rules().items():
        assert rule["annotations"]["runbook_url"] == f"docs/runbook.md#{name.lower()}"
        assert rule["labels"]["severity"] in {"critical", "warning", "info"}
