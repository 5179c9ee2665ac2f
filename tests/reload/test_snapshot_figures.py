"""Figures of the active configuration, and their names."""

from pathlib import Path

import pytest

from gateway.config.check import examine
from gateway.snapshot import Snapshot
from gateway.telemetry.metrics import GatewayMetrics
from tests.support.gateway import RESULT, card_of, fronted
from tests.support.scripted import WAIT, answers, whole
from tests.table import for_each

pytestmark = pytest.mark.anyio


def samples(snapshot: Snapshot) -> dict[str, dict[tuple[str, ...], float]]:
    return {sample.name: dict(sample.values) for sample in snapshot.samples()}


async def test_figures_follow_what_happens() -> None:
    async with fronted(answers(whole(RESULT)), card=card_of("http://127.0.0.1/", "JSONRPC 1.0")) as (gateway, _):
        snapshot = gateway.gateway.snapshot
        assert 0 <= samples(snapshot)["card_age_seconds"]["echo", "echo"] < WAIT
        assert (await gateway.post("/echo")).status == 200
        await gateway.rested()
        assert samples(snapshot)["backend_connections"] == {
            ("echo", "echo", "active"): 0.0,
            ("echo", "echo", "idle"): 1.0,
        }
        assert gateway.metric("backend_connections", backend="echo", state="idle") == 1
        assert gateway.metric("card_fetches_total", agent="echo", result="ok") == 1


async def test_a_card_that_cannot_be_read_is_counted() -> None:
    async with fronted(answers(whole(RESULT))) as (gateway, _):
        assert gateway.metric("card_fetches_total", agent="echo", result="error") >= 1
        assert gateway.series("card_age_seconds") == []


# ---- Labels --------------------------------------------------------------------------------------------------------

LABELLED = """\
observe: {{ metrics: {{ {observe} }} }}
auth:
  api_keys: {{ nightly: {{ sha256: {hash}, tenant: acme }} }}
defaults: {{ isolation: none }}
tenants: {{ acme: [echo], "*": [echo], globex: [echo] }}
agents: {{ echo: http://127.0.0.1:7001 }}
"""


@for_each(
    ("observe", "named"),
    [
        ("max_tenants: 200", {"acme", "globex", "anonymous"}),
        ("max_tenants: 2", {"acme", "globex"}),
        ("max_tenants: 1", {"acme"}),
        ("tenant_label: false", set()),
    ],
)
async def test_metrics_name_tenants_of_the_file_up_to_the_bound(observe: str, named: set[str]) -> None:
    metrics = GatewayMetrics("test")
    text = "version: 1\n" + LABELLED.format(observe=observe, hash="a" * 64)
    examined = examine(Path("gateway.yaml"), {}, text=text)
    assert examined.errors == ()
    snapshot = Snapshot.build(examined, metrics, "https://gw.test")
    try:
        for meter in (snapshot.backends["echo"].meter, snapshot.strangers):
            for tenant in ("acme", "globex", "anonymous", "*", "never-heard-of", "other"):
                meter.request("SendMessage", "JSONRPC", "ok", tenant)
        counted = {
            sample.labels["tenant"]
            for family in metrics.tenant_requests.collect()
            for sample in family.samples
            if sample.name.endswith("_total")
        }
        assert counted == named | {"other"}
    finally:
        await snapshot.aclose()
