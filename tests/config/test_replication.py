from gateway.config.agent import replica_name
from tests.config.reading import errors, good, warnings
from tests.table import for_each

A, B = "http://127.0.0.1:1", "http://127.0.0.1:2"


def agent(backend: str, more: str = "", top: str = "") -> str:
    return f"version: 1\n{top}agents: {{ a: {{ backend: {backend}{more} }} }}\n"


@for_each(
    ("more", "path", "fact"),
    [
        ("health: { path: '/a b' }", "health.path", "'/a b' is no path"),
        (
            "health: { path: /h, eject: { time: 10s, longest: 5s } }",
            "health.eject.longest",
            "it is less than `time`",
        ),
        ("affinity: { by: none, wait: 3s }", "affinity.wait", "no call belongs to a replica: `by` is none"),
    ],
)
def test_settings_without_effect_are_refused(more: str, path: str, fact: str) -> None:
    assert errors(agent(A, f", {more}")) == [(f"agents.a.{path}", fact)]


def test_several_gateways_have_to_know_of_each_others_tasks() -> None:
    top = "gateway: { replicas: 2, state: 'redis://127.0.0.1:1/0' }\n"
    assert [path for path, _ in warnings(agent(f"['{A}', '{B}']", top=top))] == ["agents.a.backend"]
    assert warnings(agent(f"['{A}', '{B}']", ", affinity: none", top)) == []
    assert warnings(agent(f"['{A}', '{B}']", ", isolation: tenant", top)) == []


def test_a_replica_is_called_by_its_label_or_by_its_host_and_port() -> None:
    agent_ = good(agent("[{ url: 'http://127.0.0.1:1', label: canary }, 'http://LOCALHOST:2/x']")).agents["a"]
    assert [replica_name(each) for each in agent_.backend] == ["canary", "localhost:2"]
