"""Settings of tracing: refused, reported and hidden ones."""

import json
import sys

import pytest

from gateway.config import effective
from tests.config.reading import errors, examined, good, warnings
from tests.table import for_each

AGENT = "agents: { a: 'http://127.0.0.1:1' }"
EXPORTER = "opentelemetry.exporter.otlp.proto.grpc"


def file(tracing: str) -> str:
    return f"version: 1\n{AGENT}\nobserve:\n  tracing: {{ {tracing} }}\n"


@for_each(
    "tracing, key, fact",
    [
        ("otlp: 'ftp://c'", "otlp", "the URL is no http or https URL"),
        ("otlp: 'http://me:pw@c:4317'", "otlp", "the URL has a user name or password in it"),
        ("otlp: 'http://c:4317/v1/traces'", "otlp", "the URL has a path, and gRPC has none"),
        ("otlp: 'http://c', sample: 1.1", "sample", "1.1 is no share"),
        ("otlp: 'http://c', sample: true", "sample", "true is no share"),
        ("otlp: 'http://c', protocol: http/json", "protocol", None),
        ("otlp: 'http://c', headers: { 'a b': x }", 'headers."a b"', "'a b' is no header name"),
        (
            "otlp: 'http://c', headers: { a: \"x\\ny\" }",
            "headers.a",
            "the value is empty or has characters that a header cannot have",
        ),
    ],
)
def test_a_mistake_is_found_at_its_key(tracing: str, key: str, fact: str | None) -> None:
    found = errors(file(tracing))
    assert [path for path, _ in found] == [f"observe.tracing.{key}"], found
    assert fact is None or found[0][1] == fact, found


@for_each(
    "tracing, told",
    [
        ("otlp: 'http://c:4318'", "collectors do not speak grpc at port 4318 by default"),
        (
            "otlp: 'http://c:4317', protocol: http/protobuf",
            "collectors do not speak http/protobuf at port 4317 by default",
        ),
        ("otlp: 'http://c', headers: { k: '${K:-v}' }", "they go to the collector over plain http"),
    ],
)
def test_likely_mistakes_of_tracing_are_warnings(tracing: str, told: str) -> None:
    assert [fact for _, fact in warnings(file(tracing))] == [told]


def test_without_the_extra_the_place_and_the_remedy_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, EXPORTER, None)
    (found,) = examined(file("otlp: 'http://127.0.0.1:4317'")).errors
    assert (found.place.file, found.place.line, found.place.column, found.fact, found.remedy) == (
        "gateway.yaml",
        4,
        3,
        "the packages that export traces are not installed",
        "pip install 'a2a-gateway[otel]'",
    )


def test_an_empty_url_is_off_and_needs_no_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, EXPORTER, None)
    config = good(file('otlp: "${COLLECTOR:-}", sample: "${SHARE:-0.1}"'))
    assert effective.tracing(config) is None
    assert config.observe.tracing is not None
    assert config.observe.tracing.sample == 0.1


def test_the_headers_of_the_exports_are_never_shown() -> None:
    config = good(file("otlp: 'https://c', headers: { k: 'of-the-collector' }"))
    shown = json.dumps(effective.masked(config))
    assert '"tracing": {"otlp": "https://c", "sample": 1.0' in shown
    assert "of-the-collector" not in shown
    assert "of-the-collector" not in str(examined(file("otlp: 'https://c', headers: { k: of-the-collector, 'é': 1 }")))
