from tests.config.reading import HASH, errors, warnings
from tests.table import for_each

AUTH = f"auth: {{ api_keys: {{ bot: {{ sha256: {HASH}, tenant: acme }} }} }}\n"
B = "http://127.0.0.1:1"


def text(*, tenant: str = "", default: str = "", agent: str = "", entry: str = "") -> str:
    return (
        f"version: 1\n{AUTH}tenants: {{ acme: {{ agents: [a, b], limits: {{ {tenant} }} }} }}\n"
        f"defaults: {{ limits: {{ {default} }} }}\n"
        f"agents: {{ a: {{ backend: {B}, limits: {{ {agent} }} }},"
        f" b: {{ by_tenant: {{ acme: {{ backend: {B}, limits: {{ {entry} }} }} }} }} }}\n"
    )


@for_each("limit", ["burst: 5", "queue: 5", "queue_timeout: 2s"])
@for_each(
    ("where", "path"),
    [
        ("tenant", "tenants.acme.limits"),
        ("default", "defaults.limits"),
        ("agent", "agents.a.limits"),
        ("entry", "agents.b.by_tenant.acme.limits"),
    ],
)
def test_a_limit_that_means_nothing_alone_is_told(where: str, path: str, limit: str) -> None:
    key = limit.partition(":")[0]
    needed = {"burst": "requests", "queue": "concurrency", "queue_timeout": "concurrency"}[key]
    assert errors(text(**{where: limit})) == [(f"{path}.{key}", f"it limits nothing without `{needed}`")]
    assert errors(text(**{where: f"{limit}, requests: 5/s, concurrency: 5"})) == []
    broken = errors(text(**{where: f"{limit}, requests: 5, concurrency: none"}))
    assert {fact.rpartition(" ")[2] for _, fact in broken} == {"rate", "number"}


@for_each(
    "written",
    [
        {"default": "concurrency: 5", "agent": "queue: 0"},
        {"default": "concurrency: 5", "entry": "queue: 0"},
        {"default": "queue: 0", "agent": "concurrency: 5"},
        {"default": "queue: 0", "entry": "concurrency: 5"},
        {"default": "burst: 5", "entry": "requests: 1/s"},
    ],
)
def test_limits_of_one_place_add_to_those_of_another(written: dict[str, str]) -> None:
    assert errors(text(**written)) == []


def test_tasks_that_nobody_owns_are_not_counted() -> None:
    limited = text(tenant="open_tasks: 5")
    assert warnings(limited) == []
    [(path, fact)] = warnings(limited.replace("defaults: {", "defaults: { isolation: none,"))
    assert path == "tenants.acme.limits.open_tasks"
    assert "no agent's tasks have owners" in fact
    assert warnings(text(tenant="requests: 5/s").replace("defaults: {", "defaults: { isolation: none,")) == []


def test_limits_that_something_else_decides_are_told() -> None:
    longer = "it limits nothing: no body is longer than `gateway.body_limit`, 10485760 bytes"
    assert warnings(text(tenant="body: 11MiB")) == [("tenants.acme.limits.body", longer)]
    assert warnings(text(tenant="body: 10MiB")) == []
    several = "gateway: { replicas: 5, state: 'redis://127.0.0.1:1' }\n"
    fewer = "each of 5 gateways lets one call through at least, so that it is 5"
    assert warnings(text(agent="concurrency: 4") + several) == [("agents.a.limits.concurrency", fewer)]
    assert warnings(text(agent="concurrency: 5") + several) == []


@for_each("where", ["tenant", "default", "agent", "entry"])
def test_a_burst_that_nobody_could_count_is_refused(where: str) -> None:
    assert errors(text(**{where: "requests: 999999999/s, burst: 1000000000"})) == []
    [(path, fact)] = errors(text(**{where: "requests: 5/s, burst: 999999999999999"}))
    assert (path.rpartition(".")[2], fact) == ("burst", "999999999999999 calls are more than 1000000000")
