"""Write the Grafana dashboards beside this file: `python deploy/grafana/dashboards.py`.

Each dashboard is a table of rows and panels. The JSON files are committed. A test compares them with this table, and
each expression with the series that the gateway exports.
"""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

_WIDTH, _HEIGHT = 24, 8
_A = 'agent=~"$agent"'
_T = 'tenant=~"$tenant"'
_TENANTS = 'scope="tenant"'


class Panel(NamedTuple):
    """One panel.

    Attributes:
        queries: PromQL with `a2a_gateway_` left out (`~name`), and the legend of its series.
        unit: A unit of Grafana.
        kind: `timeseries` or `stat`.
        width: Of 24 columns.
    """

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8


class Dashboard(NamedTuple):
    """One dashboard; `variables` are names with the queries of their values."""

    title: str
    rows: dict[str, tuple[Panel, ...]]
    variables: dict[str, str] = {}  # noqa: RUF012 - a tuple's default, never changed


def _rate(name: str, by: str = "", where: str = "") -> str:
    inner = f"rate(~{name}{{{where}}}[$__rate_interval])"
    return f"sum by ({by}) ({inner})" if by else f"sum({inner})"


def _quantile(share: str, name: str, by: str = "", where: str = "") -> str:
    labels = f"{by}, le" if by else "le"
    return f"histogram_quantile({share}, sum by ({labels}) (rate(~{name}_bucket{{{where}}}[$__rate_interval])))"


def _percent(outcome: str, where: str = "") -> str:
    given = f",{where}" if where else ""
    # Zero of nothing is no error.
    return (
        f'(sum(rate(~requests_total{{outcome="{outcome}"{given}}}[$__rate_interval])) or vector(0)) '
        f"/ clamp_min(sum(rate(~requests_total{{{where}}}[$__rate_interval])), 0.001)"
    )


_AGENTS = {"agent": "label_values(~requests_in_flight, agent)"}
DASHBOARDS = {
    "overview": Dashboard(
        "A2A gateway / Overview",
        {
            "Now": (
                Panel("Requests", ((_rate("requests_total"), ""),), "reqps", "stat", 4),
                Panel("Open streams", (("sum(~streams_open)", ""),), "short", "stat", 4),
                Panel("Gateway errors", ((_percent("gateway_error"), ""),), "percentunit", "stat", 4),
                Panel("Agent errors", ((_percent("upstream_error"), ""),), "percentunit", "stat", 4),
                Panel("Replicas down", (("count(~backend_up == 0) or vector(0)", ""),), "short", "stat", 4),
                Panel("Gateways up", (('count(up{job="a2a-gateway"} == 1)', ""),), "short", "stat", 4),
            ),
            "Traffic": (
                Panel("Requests by outcome", ((_rate("requests_total", "outcome"), "{{outcome}}"),), "reqps"),
                Panel("Requests by agent", ((f"topk(10, {_rate('requests_total', 'agent')})", "{{agent}}"),), "reqps"),
                Panel("Requests by binding", ((_rate("requests_total", "binding"), "{{binding}}"),), "reqps"),
                Panel("Refused, by reason", ((_rate("rejected_total", "reason"), "{{reason}}"),), "reqps"),
                Panel(
                    "Time to the first byte",
                    tuple(
                        (_quantile(share, "first_byte_seconds"), f"p{share[2:]}") for share in ("0.50", "0.95", "0.99")
                    ),
                    "s",
                ),
                Panel(
                    "Time that the gateway adds",
                    tuple(
                        (_quantile(share, "overhead_seconds"), f"p{share[2:]}") for share in ("0.50", "0.95", "0.99")
                    ),
                    "s",
                ),
            ),
        },
    ),
    "agent": Dashboard(
        "A2A gateway / Agent",
        {
            "Traffic": (
                Panel("Requests by operation", ((_rate("requests_total", "operation", _A), "{{operation}}"),), "reqps"),
                Panel("Requests by outcome", ((_rate("requests_total", "outcome", _A), "{{outcome}}"),), "reqps"),
                Panel("Refused, by reason", ((_rate("rejected_total", "reason", _A), "{{reason}}"),), "reqps"),
                Panel("First byte, p95", ((_quantile("0.95", "first_byte_seconds", "kind", _A), "{{kind}}"),), "s"),
                Panel("Duration, p95", ((_quantile("0.95", "request_duration_seconds", "kind", _A), "{{kind}}"),), "s"),
                Panel(
                    "In flight and open streams",
                    (
                        (f"sum(~requests_in_flight{{{_A}}})", "in flight"),
                        (f"sum(~streams_open{{{_A}}})", "streams"),
                    ),
                ),
            ),
            "Replicas": (
                Panel("Healthy", ((f"~backend_up{{{_A}}}", "{{agent}} {{backend}}"),)),
                Panel(
                    "Answers by class",
                    ((_rate("backend_requests_total", "backend, status", _A), "{{backend}} {{status}}"),),
                    "reqps",
                ),
                Panel(
                    "Retries",
                    ((_rate("backend_retries_total", "backend, reason", _A), "{{backend}} {{reason}}"),),
                    "reqps",
                ),
                Panel("Ejections", ((_rate("backend_ejections_total", "backend", _A), "{{backend}}"),)),
                Panel(
                    "Connections",
                    ((f"sum by (backend, state) (~backend_connections{{{_A}}})", "{{backend}} {{state}}"),),
                ),
                Panel("Restarts of its process", ((_rate("stdio_restarts_total", "agent", _A), "{{agent}}"),)),
            ),
            "Card and translation": (
                Panel("Age of the card", ((f"~card_age_seconds{{{_A}}}", "{{agent}} {{backend}}"),), "s"),
                Panel("Reads of the card", ((_rate("card_fetches_total", "result", _A), "{{result}}"),)),
                Panel(
                    "Translated calls", ((_rate("translations_total", "from, to", _A), "{{from}} → {{to}}"),), "reqps"
                ),
            ),
        },
        _AGENTS,
    ),
    "tenant": Dashboard(
        "A2A gateway / Tenant",
        {
            "Traffic": (
                Panel("Requests by agent", ((_rate("tenant_requests_total", "agent", _T), "{{agent}}"),), "reqps"),
                Panel(
                    "Requests by outcome", ((_rate("tenant_requests_total", "outcome", _T), "{{outcome}}"),), "reqps"
                ),
                Panel(
                    "Share of all requests",
                    (
                        (
                            _rate("tenant_requests_total", "tenant", _T)
                            + " / on() group_left() "
                            + _rate("tenant_requests_total"),
                            "{{tenant}}",
                        ),
                    ),
                    "percentunit",
                ),
            ),
            "Limits": (
                Panel(
                    "Calls that a limit refused",
                    ((_rate("limit_hits_total", "limit", 'scope="tenant",name=~"$tenant"'), "{{limit}}"),),
                    "reqps",
                    width=12,
                ),
                Panel(
                    "Tenants that reach limits most",
                    ((f"topk(10, {_rate('limit_hits_total', 'name, limit', _TENANTS)})", "{{name}} {{limit}}"),),
                    "reqps",
                    width=12,
                ),
                Panel(
                    "Used part of each limit",
                    (('max by (name, limit) (~limit_usage_ratio{name=~"$tenant"})', "{{name}} {{limit}}"),),
                    "percentunit",
                    width=24,
                ),
            ),
        },
        {"tenant": "label_values(~tenant_requests_total, tenant)"},
    ),
    "tasks": Dashboard(
        "A2A gateway / Streams and tasks",
        {
            "Streams": (
                Panel("Open", ((f"sum by (agent) (~streams_open{{{_A}}})", "{{agent}}"),)),
                Panel("Events", ((_rate("stream_events_total", "event", _A), "{{event}}"),), "ops"),
                Panel("Closed, by side", ((_rate("streams_closed_total", "by", _A), "{{by}}"),), "ops"),
                Panel(
                    "Lifetime, p95", ((_quantile("0.95", "stream_duration_seconds", "agent", _A), "{{agent}}"),), "s"
                ),
            ),
            "Tasks": (
                Panel("By state", ((_rate("tasks_total", "state", _A), "{{state}}"),), "ops"),
                # Each gateway counts the store that all of them share.
                Panel("Open", ((f"max by (agent) (~tasks_open{{{_A}}})", "{{agent}}"),)),
                Panel("Duration, p95", ((_quantile("0.95", "task_duration_seconds", "agent", _A), "{{agent}}"),), "s"),
                Panel(
                    "Foreign tasks that were named",
                    ((_rate("task_access_denied_total", "agent, operation", _A), "{{agent}} {{operation}}"),),
                    "ops",
                ),
                Panel(
                    "Store operations",
                    ((_rate("state_operations_total", "operation, result"), "{{operation}} {{result}}"),),
                    "ops",
                ),
                Panel(
                    "Store latency, p99",
                    ((_quantile("0.99", "state_operation_seconds", "operation"), "{{operation}}"),),
                    "s",
                ),
            ),
            "Webhooks": (
                Panel(
                    "Notifications", ((_rate("push_deliveries_total", "result", _A), "{{result}}"),), "ops", width=12
                ),
                Panel(
                    "Given up",
                    ((f'sum by (agent) (increase(~push_deliveries_total{{result="dead",{_A}}}[1h]))', "{{agent}}"),),
                    width=12,
                ),
                Panel("Waiting", ((f"max by (agent) (~push_queue{{{_A}}})", "{{agent}}"),), width=12),
                Panel("Age of the oldest", (("max(~push_oldest_seconds)", ""),), "s", width=12),
            ),
        },
        _AGENTS,
    ),
    "health": Dashboard(
        "A2A gateway / Health",
        {
            "Process": (
                Panel("Memory", (("~memory_bytes", "{{instance}}"),), "bytes"),
                Panel("Open files", (("~open_files / ~open_files_limit", "{{instance}}"),), "percentunit"),
                Panel(
                    "CPU",
                    (('rate(process_cpu_seconds_total{job="a2a-gateway"}[$__rate_interval])', "{{instance}}"),),
                    "percentunit",
                ),
                Panel(
                    "Event loop lag, p99",
                    ((_quantile("0.99", "event_loop_lag_seconds", "instance"), "{{instance}}"),),
                    "s",
                ),
                Panel("Event loop stalls", ((_rate("event_loop_stalls_total", "instance"), "{{instance}}"),), "ops"),
                Panel("Refusing new work", (("max by (what) (~shedding)", "{{what}}"),)),
            ),
            "Configuration": (
                Panel("Last reload was applied", (("~config_last_reload_successful", "{{instance}}"),), width=6),
                Panel(
                    "Reloads", ((_rate("config_reloads_total", "result, trigger"), "{{result}} {{trigger}}"),), width=6
                ),
                Panel(
                    "Running since",
                    (("time() - ~config_last_reload_success_timestamp_seconds", "{{instance}}"),),
                    "s",
                    width=6,
                ),
                Panel("Draining", (("~draining", "{{instance}}"),), width=6),
            ),
            "Callers and logs": (
                Panel("Authentications", ((_rate("auth_total", "method, result"), "{{method}} {{result}}"),), "ops"),
                Panel(
                    "Credentials expire in",
                    (("min by (kind, name) (~credential_expiry_timestamp_seconds) - time()", "{{kind}} {{name}}"),),
                    "s",
                ),
                Panel("Age of issuers' keys", (("time() - ~jwks_last_success_timestamp_seconds", "{{issuer}}"),), "s"),
                Panel("Lost log lines", ((_rate("log_dropped_total", "instance"), "{{instance}}"),), "ops"),
            ),
        },
    ),
}


def render(name: str) -> str:
    """Return the JSON of one dashboard."""
    dashboard = DASHBOARDS[name]
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in dashboard.rows.items():
        panels.append({"id": len(panels) + 1, "type": "row", "title": title, "collapsed": False, "panels": [],
                       "gridPos": {"x": 0, "y": y, "w": _WIDTH, "h": 1}})  # fmt: skip
        x, y = 0, y + 1
        height = _HEIGHT
        for panel in row:
            height = 4 if panel.kind == "stat" else _HEIGHT
            if x + panel.width > _WIDTH:
                x, y = 0, y + height
            panels.append(_panel(panel, len(panels) + 1, {"x": x, "y": y, "w": panel.width, "h": height}))
            x += panel.width
        y += height
    return json.dumps(_dashboard(name, dashboard, panels), indent=1, ensure_ascii=False) + "\n"


def _dashboard(name: str, dashboard: Dashboard, panels: list[dict[str, Any]]) -> dict[str, Any]:
    source = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    variables = [
        {"name": each, "label": each.capitalize(), "type": "query", "datasource": _SOURCE, "refresh": 2, "sort": 1,
         "query": {"query": _named(query), "refId": each}, "includeAll": True, "multi": True, "allValue": ".*",
         "current": {"text": "All", "value": "$__all"}}
        for each, query in dashboard.variables.items()
    ]  # fmt: skip
    return {
        "uid": f"a2a-gateway-{name}",
        "title": dashboard.title,
        "tags": ["a2a-gateway"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "links": [{"type": "dashboards", "tags": ["a2a-gateway"], "title": "A2A gateway", "asDropdown": True}],
        "templating": {"list": [source, *variables]},
        "panels": panels,
    }


_SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def _named(query: str) -> str:
    return re.sub(r"(?<!=)~", "a2a_gateway_", query)


def _panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    targets = [
        {
            "refId": chr(ord("A") + index),
            "datasource": _SOURCE,
            "expr": _named(query),
            "legendFormat": legend or "__auto",
        }
        for index, (query, legend) in enumerate(panel.queries)
    ]
    options: dict[str, Any] = {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}}
    if panel.kind == "stat":
        options = {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "graphMode": "area"}
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": options,
        "targets": targets,
    }


def expressions(name: str) -> list[str]:
    """Return all queries of one dashboard, as Grafana has them."""
    return [_named(query) for row in DASHBOARDS[name].rows.values() for panel in row for query, _ in panel.queries]


if __name__ == "__main__":
    for each in DASHBOARDS:
        Path(__file__).with_name(f"{each}.json").write_text(render(each))
