"""Metrics that are read at a scrape: limits in use, open tasks, the push queue, credentials that expire."""

import datetime as dt
import hashlib
from collections import defaultdict
from pathlib import Path

import pytest
import trustme
from prometheus_client.parser import text_string_to_metric_families

from tests.support.gateway import CALL, Running, agent, bearer, card_of, running, secret
from tests.support.scripted import ScriptedBackend, answers, whole

pytestmark = pytest.mark.anyio

FILE = """\
auth:
  api_keys:
    acme: {{ sha256: {acme}, tenant: acme, expires: 2101-01-31 }}
    other: {{ sha256: {other}, tenant: zeta }}
tenants:
  acme: {{ agents: [crm], limits: {{ requests: 10/h, streams: 4, body: 1MiB }} }}
  zeta: {{ agents: [crm], limits: {{ requests: 5/h }} }}
observe: {{ metrics: {{ max_tenants: 1 }} }}
defaults: {{ isolation: none, tls: {{ cert: client.pem, key: client.key }} }}
push: {{ mode: relay, allow: ["https://hooks.example.com"] }}
agents:
  crm: {{ backend: {url}, limits: {{ concurrency: 2 }} }}
"""

Series = dict[tuple[str, ...], float]


async def scraped(gateway: Running) -> dict[str, Series]:
    """By the name of a metric: each value by the values of its labels, in the order of their names."""
    text = (await gateway.get("/metrics", admin=True)).body.decode()
    found: dict[str, Series] = defaultdict(dict)
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(value for _, value in sorted(sample.labels.items()))
            found[sample.name.removeprefix("a2a_gateway_")][labels] = sample.value
    return found


async def test_limits_and_credentials_are_on_the_metrics(tmp_path: Path) -> None:
    ends = dt.datetime(2100, 5, 1, tzinfo=dt.UTC)
    certificate = trustme.CA().issue_cert("gateway.test", not_after=ends)
    (tmp_path / "client.pem").write_bytes(certificate.cert_chain_pems[0].bytes())
    (tmp_path / "client.key").write_bytes(certificate.private_key_pem.bytes())
    task = b'{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}'
    answer = whole(b'{"jsonrpc":"2.0","id":1,"result":{"task":%s}}' % task)
    async with ScriptedBackend(agent(answers(answer), card_of("http://127.0.0.1/"))) as backend:
        hashes = {name: hashlib.sha256(secret(name)).hexdigest() for name in ("acme", "other")}
        text = FILE.format(url=backend.url, **hashes)
        async with running(text, path=tmp_path / "gateway.yaml", written=True) as gateway:
            for name, calls in (("acme", 5), ("other", 4)):
                for _ in range(calls):
                    assert (await gateway.post("/crm", CALL, [bearer(name)])).status == 200
            await gateway.rested()
            found = await scraped(gateway)
            running_hash = gateway.gateway.snapshot.examined.text_hash
    assert found["config_info"] == {(running_hash,): 1}
    assert found["credential_expiry_timestamp_seconds"] == {
        ("api_key", "acme"): dt.datetime(2101, 2, 1, tzinfo=dt.UTC).timestamp(),
        ("agent_tls", "defaults"): ends.timestamp(),
    }
    ratios = found["limit_usage_ratio"]
    # `zeta` has no label of its own, and nothing is in use of what bounds one body.
    assert ratios.keys() == {
        ("requests", "acme", "tenant"),
        ("streams", "acme", "tenant"),
        ("requests", "other", "tenant"),
        ("concurrency", "crm", "agent"),
    }
    assert ratios["requests", "acme", "tenant"] == pytest.approx(0.5, abs=0.05)
    assert ratios["requests", "other", "tenant"] == pytest.approx(0.8, abs=0.05)
    assert ratios["concurrency", "crm", "agent"] == 0
    assert found["task_duration_seconds_count"] == {("crm",): 9}
    assert (found["push_queue"], found["push_oldest_seconds"]) == ({}, {(): 0})
