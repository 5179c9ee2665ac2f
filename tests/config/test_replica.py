from gateway.config import effective
from gateway.config.agent import DEFAULT_HEALTH
from tests.config.reading import errors, good

AGENT = "http://127.0.0.1:1"


def test_what_is_left_out_is_that_of_the_defaults_or_built_in() -> None:
    config = good(
        f"""\
        version: 1
        defaults:
          affinity: none
          health: {{ path: /healthz, eject: {{ after: 7 }}, breaker: {{ time: 9s }} }}
          retry: {{ max: 1, when: connect }}
        agents:
          a: {AGENT}
          b:
            backend: [{AGENT}, http://127.0.0.1:2]
            affinity: {{ by: context, wait: 2s }}
            health: {{ every: 1s, eject: {{ time: 3s }} }}
            retry: {{ max: 0 }}
        """
    )
    a, b = config.agents["a"], config.agents["b"]
    affinity = effective.affinity(config, a)
    assert (affinity.by, affinity.gone, affinity.wait) == ("none", "refuse", 0.0)
    affinity = effective.affinity(config, b)
    assert (affinity.by, affinity.gone, affinity.wait) == ("context", "refuse", 2.0)
    health = effective.health(config, b)
    assert (health.path, health.every, health.fail_after) == ("/healthz", 1.0, DEFAULT_HEALTH.fail_after)
    assert (health.eject.after, health.eject.time, health.eject.longest, health.eject.most) == (7, 3.0, 300.0, 50)
    assert (health.breaker.after, health.breaker.time) == (0, 9.0)
    retry = effective.retry(config, b)
    assert (retry.max, retry.when, retry.budget) == (0, ("connect",), 20)


def test_values_that_are_none_are_refused() -> None:
    told = errors(
        f"""\
        version: 1
        agents:
          a:
            backend: [{{ url: "{AGENT}", weight: -1, dns: srv }}]
            affinity: sometimes
            health: {{ path: /h, every: 0s, fail_after: 0, eject: {{ most: 101 }} }}
            retry: {{ when: [connect, "500"] }}
            message_id_idempotent: perhaps
        """
    )
    assert [path for path, _ in told] == [
        "agents.a.backend[0].weight",
        "agents.a.backend[0].dns",
        "agents.a.affinity",
        "agents.a.health.every",
        "agents.a.health.fail_after",
        "agents.a.health.eject.most",
        "agents.a.retry.when[1]",
        "agents.a.message_id_idempotent",
    ]
