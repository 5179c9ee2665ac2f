"""What operators see of the traffic: metrics, the access log, and the pages of the admin listener."""

import re
from typing import Any

import pytest

from tests.e2e.sdk import calling, open_http, saying, send
from tests.e2e.site import (
    ACME_KEY,
    DESK_KEY,
    GLOBEX_KEY,
    HUB_KEY,
    SHAPES,
    UPSTREAM_TOKEN,
    WAYS,
    Site,
    Way,
    api_key,
    bearer,
    token,
)
from tests.e2e.wire import V1, frame, message

pytestmark = pytest.mark.anyio

_SAMPLE = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})? (?P<value>\S+)")
_LABEL = re.compile(r'(\w+)="([^"]*)"')

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


async def scrape(site: Site) -> Samples:
    async with open_http() as http:
        answer = await http.get(site.gateway.admin + "/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    found: Samples = {}
    for line in answer.text.splitlines():
        if line and not line.startswith("#"):
            sample = _SAMPLE.fullmatch(line)
            assert sample is not None, line
            found[sample["name"], frozenset(_LABEL.findall(sample["labels"] or ""))] = float(sample["value"])
    return found


def risen(before: Samples, after: Samples, name: str, **labels: str) -> float:
    """By how much a metric grew between two scrapes."""
    key = (f"a2a_gateway_{name}", frozenset(labels.items()))
    return after[key] - before.get(key, 0.0)


@pytest.mark.parametrize("binding", ["JSONRPC", "HTTP+JSON"])
async def test_metrics_count_what_was_asked_and_what_became_of_it(site: Site, binding: str) -> None:
    way, label = WAYS[0], {"JSONRPC": "jsonrpc", "HTTP+JSON": "rest"}[binding]
    before = await scrape(site)
    async with calling(site, way, binding) as caller:
        await send(caller.unary, saying("hello"))
        await send(caller.unary, saying("fail"))
        _ = [event async for event in caller.streaming.send_message(saying("stream 2"))]
    after = await scrape(site)
    echo: dict[str, str] = {"agent": "echo", "binding": label}
    assert risen(before, after, "requests_total", **echo, operation="SendMessage", outcome="ok") == 1
    assert risen(before, after, "requests_total", **echo, operation="SendMessage", outcome="task_failed") == 1
    assert risen(before, after, "requests_total", **echo, operation="SendStreamingMessage", outcome="ok") == 1
    assert risen(before, after, "tenant_requests_total", tenant="acme", agent="echo", outcome="ok") >= 2
    assert risen(before, after, "request_duration_seconds_count", agent="echo", kind="send") == 2
    assert risen(before, after, "request_duration_seconds_count", agent="echo", kind="stream") == 1
    assert risen(before, after, "stream_events_total", agent="echo", event="artifact") == 2
    assert risen(before, after, "streams_closed_total", agent="echo", by="agent") == 1
    assert risen(before, after, "tasks_total", agent="echo", state="completed") == 2
    assert risen(before, after, "tasks_total", agent="echo", state="failed") == 1
    assert risen(before, after, "auth_total", method="api_key", issuer="", result="ok") >= 3
    assert after["a2a_gateway_streams_open", frozenset({("agent", "echo")})] == 0
    assert after["a2a_gateway_requests_in_flight", frozenset({("agent", "echo")})] == 0


async def test_metrics_count_what_was_refused(site: Site) -> None:
    before = await scrape(site)
    async with open_http(V1) as http:
        url = site.gateway.url
        await http.post(url + "/echo", content=b"{")
        await http.post(url + "/echo", content=b"{", headers=api_key(ACME_KEY))
        await http.post(url + "/nowhere", content=b"{", headers=api_key(ACME_KEY))
        await http.post(url + "/echo", headers=bearer("bad"))
    after = await scrape(site)
    for reason in ("auth_missing", "auth_invalid", "bad_request", "no_route"):
        assert risen(before, after, "rejected_total", agent="-", reason=reason) == 1


async def test_the_metrics_of_the_catalogue_are_there(site: Site) -> None:
    found = {name.removeprefix("a2a_gateway_") for name, _ in await scrape(site)}
    assert found >= {
        "requests_total", "tenant_requests_total", "rejected_total", "request_duration_seconds_bucket",
        "first_byte_seconds_bucket", "overhead_seconds_bucket", "requests_in_flight", "streams_open",
        "stream_events_total", "streams_closed_total", "tasks_total", "backend_requests_total", "backend_connections",
        "auth_total", "jwks_last_success_timestamp_seconds", "card_age_seconds", "card_fetches_total",
        "config_last_reload_successful", "config_last_reload_success_timestamp_seconds",
        "event_loop_lag_seconds_bucket", "draining", "build_info",
    }  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=str)
async def test_each_exchange_leaves_one_line(site: Site, way: Way) -> None:
    async with calling(site, way, "JSONRPC") as caller:
        task = await send(caller.unary, saying("hello"))
        answer = caller.answers[-1]
    line = site.gateway.access(answer.headers["x-request-id"])
    tenant, subject = way.caller
    expected: dict[str, Any] = {
        "agent": way.configured or way.agent,
        "backend": f"crm/{way.tenant}" if way.configured else way.agent,
        "tenant": tenant,
        "principal": subject,
        "auth_method": "jwt" if way.name == "claim" else "api_key",
        "binding": "jsonrpc",
        "operation": "SendMessage",
        "a2a_version": "1.0",
        "task_id": task.id,
        "context_id": task.context_id,
        "task_state": "completed",
        "status": 200,
        "outcome": "ok",
        "attempts": 1,
        "bytes_out": len(answer.content),
        "stream": False,
        "client_ip": "127.0.0.1",
        "method": "POST",
        "path": way.url,
    }
    assert {name: line.get(name) for name in expected} == expected
    assert line.get("a2a_tenant") == (way.tenant or None)
    assert "gateway.yaml:" in line["match_line"]
    assert 0 < line["upstream_s"] <= line["duration_s"] < 10
    assert 0 <= line["overhead_s"] <= line["first_byte_s"] <= line["duration_s"]
    assert line["bytes_in"] > 0
    same = [other for other in site.gateway.access_lines if other["request_id"] == line["request_id"]]
    assert len(same) == 1


async def test_a_stream_leaves_one_line_at_its_end(site: Site) -> None:
    async with calling(site, WAYS[0], "HTTP+JSON") as caller:
        _ = [event async for event in caller.streaming.send_message(saying("stream 3"))]
        request_id = caller.answers[-1].headers["x-request-id"]
    line = site.gateway.access(request_id)
    assert (line["operation"], line["stream"], line["events"]) == ("SendStreamingMessage", True, 6)
    assert (line["closed_by"], line["task_state"], line["binding"]) == ("agent", "completed", "rest")


async def test_the_trace_of_the_client_goes_to_the_agent_and_into_the_log(site: Site) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    parent = f"00-{trace}-00f067aa0ba902b7-01"
    async with open_http({**V1, **api_key(ACME_KEY), "traceparent": parent, "tracestate": "a=b"}) as http:
        answer = await http.post(site.gateway.url + "/echo", content=frame("SendMessage", message()))
    received = site.agents["echo"].calls[-1]
    assert trace in received.headers["traceparent"]
    assert received.headers["tracestate"] == "a=b"
    assert site.gateway.access(answer.headers["x-request-id"])["trace_id"] == trace


async def test_the_logs_hold_no_credential_no_query_and_no_message(site: Site) -> None:
    secret, spoken = "the-token-of-a-query", "words that nobody should log"
    jwt = token(sub="eve")
    async with open_http(V1) as http:
        url = site.gateway.url
        await http.post(url + "/desk", content=frame("SendMessage", message(spoken)), headers=bearer(jwt))
        await http.post(url + f"/echo?token={secret}", content=frame("GetTask", {"id": "t"}), headers=api_key(ACME_KEY))
        await http.post(url + f"/nowhere?token={secret}", headers=bearer(jwt[:-3]))
        last = await http.get(url + "/nowhere")
    site.gateway.access(last.headers["x-request-id"])
    everything = str(site.gateway.access_lines) + site.gateway.log_text
    for hidden in (secret, spoken, jwt, jwt[:-3], ACME_KEY, DESK_KEY, GLOBEX_KEY, UPSTREAM_TOKEN):
        assert hidden not in everything


@pytest.mark.parametrize("path", ["/-/live", "/-/ready", "/-/started"])
async def test_health_is_told_on_the_admin_port(site: Site, path: str) -> None:
    async with open_http() as http:
        assert (await http.get(site.gateway.admin + path)).status_code == 200
        verbose = await http.get(site.gateway.admin + path, params={"verbose": ""})
    assert verbose.json()["ok"] is True


@pytest.mark.parametrize("path", ["/-/live", "/-/ready"])
async def test_health_is_told_on_the_public_port_to_anybody(site: Site, path: str) -> None:
    async with open_http() as http:
        assert (await http.get(site.gateway.url + path)).status_code == 200


@pytest.mark.parametrize("path", ["/metrics", "/-/config", "/-/agents", "/-/started"])
async def test_nothing_else_of_the_admin_port_is_on_the_public_one(site: Site, path: str) -> None:
    async with open_http(api_key(ACME_KEY)) as http:
        assert (await http.get(site.gateway.url + path)).status_code == 404


async def test_the_running_configuration_is_shown_without_its_secrets(site: Site) -> None:
    async with open_http() as http:
        answer = await http.get(site.gateway.admin + "/-/config")
    shown = answer.json()
    assert re.fullmatch("[0-9a-f]{64}", shown["hash"])
    assert shown["last_error"] is None
    assert set(shown["running"]["agents"]) == {*SHAPES, "crm"} - {"crm-acme", "crm-globex"}
    assert UPSTREAM_TOKEN not in answer.text
    assert not re.search('"[0-9a-f]{64}"', answer.text.replace(shown["hash"], ""))


async def test_every_backend_is_shown_with_its_card(site: Site) -> None:
    async with open_http() as http:
        agents = (await http.get(site.gateway.admin + "/-/agents")).json()["agents"]
    by_backend = {agent["backend"]: agent for agent in agents}
    assert set(by_backend) == {*SHAPES, "crm/acme", "crm/globex"} - {"crm-acme", "crm-globex"}
    assert by_backend["crm/acme"]["card"]["name"] == "crm-acme"
    assert by_backend["crm/acme"]["url"] == site.agents["crm-acme"].url
    assert by_backend["echo"]["speaks"] == ["JSONRPC 1.0", "HTTP+JSON 1.0"]


@pytest.mark.parametrize(
    ("question", "agent"),
    [
        ({"method": "POST", "path": "/echo", "as": "acme"}, "echo"),
        ({"method": "POST", "path": "/a2a", "tenant": "billing", "as": "acme"}, "billing"),
        ({"method": "POST", "path": "/desk", "key": "desk-key"}, "alpha"),
        ({"method": "POST", "path": "/desk", "as": "acme", "claim": {"agent": "beta"}}, "beta"),
        ({"method": "POST", "path": "/crm", "tenant": "globex", "as": "hub"}, "crm"),
        ({"method": "POST", "path": "/a2a", "tenant": "billing", "as": "globex"}, None),
    ],
)
async def test_a_route_is_told_as_traffic_would_take_it(
    site: Site, question: dict[str, Any], agent: str | None
) -> None:
    async with open_http() as http:
        answer = await http.post(site.gateway.admin + "/-/route", json=question)
    assert answer.status_code == 200
    assert answer.json().get("agent") == agent


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"method":7}', b'{"path":"/echo","as":1}', b'{"path":"/","x":1}'])
async def test_a_question_that_is_none_is_a_bad_request(site: Site, body: bytes) -> None:
    async with open_http() as http:
        answer = await http.post(site.gateway.admin + "/-/route", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]


async def test_hidden_keys_are_never_shown_by_the_pages(site: Site) -> None:
    async with open_http() as http:
        pages = [(await http.get(site.gateway.admin + path)).text for path in ("/metrics", "/-/config", "/-/agents")]
    assert not any(secret in page for page in pages for secret in (HUB_KEY, ACME_KEY, UPSTREAM_TOKEN))
