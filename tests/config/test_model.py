from gateway.a2a.dialect import Version
from gateway.a2a.operation import Operation
from gateway.config.limit import TenantLimits
from tests.config.reading import HASH, errors, good
from tests.table import for_each


def test_short_forms_are_widened_everywhere() -> None:
    config = good(
        f"""
        version: 1
        gateway: {{ admin: 127.0.0.1:9, drain: 3s, trusted_proxies: 10.0.0.0/8 }}
        auth: {{ api_keys: {{ k: {{ sha256: {HASH}, tenant: t, agents: a }} }} }}
        tenants: {{ t: a, u: [b], v: }}
        agents:
          a:
            backend: {{ url: "http://127.0.0.1:1", protocol: rest, a2a_version: "0.2.5" }}
            match: {{ path: /x }}
            allow: t
            methods: [GetTask]
            forward_headers: X-Region
            expose: rest
          b: http://127.0.0.1:2
        tests: [{{ name: t1, key: k, request: /x, expect: a }}]
        """
    )
    agent = config.agents["a"]
    assert config.gateway.admin.listen == "127.0.0.1:9"
    assert config.gateway.drain.timeout == 3.0
    assert config.gateway.trusted_proxies == ("10.0.0.0/8",)
    assert (config.tenants["t"].agents, config.tenants["u"].agents, config.tenants["v"].agents) == (
        ("a",),
        ("b",),
        None,
    )
    assert [match.path for match in agent.match] == ["/x"]
    assert (agent.allow, agent.methods, agent.forward_headers) == (("t",), (Operation.GET_TASK,), ("X-Region",))
    assert agent.expose == ("rest",)
    [backend] = agent.backend
    assert backend.a2a_version is Version.V0_3
    assert (config.tests[0].request.path, config.tests[0].request.method) == ("/x", "POST")
    assert config.tests[0].expect.agent == "a"


def test_a_public_url_ends_without_a_slash() -> None:
    config = good(
        "version: 1\ngateway: { public_url: 'https://gw.example/base/' }\nagents: { a: http://127.0.0.1:1 }\n"
    )
    assert config.gateway.public_url == "https://gw.example/base"


@for_each(
    ("text", "fact"),
    [
        ("gateway: {http: {header_count: 0}}", "is not enough"),
        ("gateway: {http: {header_timeout: 0s}}", "is no time to wait"),
        ("gateway: {http: {target: many}}", "is no size"),
        ("gateway: {body: {depth: 0}}", "is not enough"),
        ("gateway: {grpc: {streams: 0}}", "is not enough"),
        ("gateway: {grpc: {keepalive: 0s}}", "is no time to wait"),
        ("gateway: {grpc: {metadata: many}}", "is no size"),
        ("gateway: {grpc: {scope_field: 3}}", "can be no field's number here"),
        ("gateway: {grpc: {scope_field: 19999}}", "can be no field's number here"),
        ("gateway: {grpc: {scope_field: 536870912}}", "can be no field's number here"),
        ("auth: {verification: {failures: 600}}", "is no rate"),
        ("auth: {verification: {failures: 0/min}}", "is no rate"),
        ("auth: {verification: {failures: 600/day}}", "is no rate"),
        ("defaults: {connections: {max: 0}}", "is not enough"),
        ("defaults: {cards: {refresh: 0s}}", "is no time to wait"),
        ("defaults: {limits: {requests: 0/s}}", "is no rate"),
        ("defaults: {limits: {requests: -5/s}}", "is no rate"),
        ("defaults: {limits: {requests: 600}}", "is no rate"),
        ("defaults: {limits: {burst: 0}}", "is not enough"),
        ("defaults: {limits: {concurrency: 0}}", "is not enough"),
        ("defaults: {limits: {concurrency: -1}}", "is no whole number"),
        ("defaults: {limits: {queue: -1}}", "is no whole number"),
        ("defaults: {limits: {queue_timeout: 0s}}", "is no time to wait"),
        ("defaults: {limits: {streams: 0}}", "is not enough"),
        ("defaults: {limits: {body: 0}}", "is not enough"),
        ("defaults: {limits: {bandwidth: 0}}", "is not enough"),
        ("defaults: {limits: {bandwidth: 1MiB/min}}", "is no number of bytes a second"),
        ("defaults: {limits: {weight: 2}}", "unknown key 'weight'"),
        ("defaults: {limits: {open_tasks: 2}}", "unknown key 'open_tasks'"),
        ("tenants: {t: {agents: a, limits: {open_tasks: 0}}}", "is not enough"),
        ("tenants: {'*': {agents: a, limits: {weight: 0}}}", "is not enough"),
        ("gateway: {ledger: {ended: 999ms}}", "is no time to remember something"),
        ("gateway: {ledger: {open: 0s}}", "is no time to remember something"),
        ("gateway: {ledger: {tasks: 0}}", "is not enough"),
        ("gateway: {replicas: 0}", "is not enough"),
        ("push: { mode: both }", "'both' is none of: relay, passthrough, none"),
        ("push: { allow: [https://a, b] }", "'b' is no http or https URL"),
        ("push: { allow: 7 }", "7 is no list"),
        ("push: { allow: [7] }", "7 is no pattern of webhooks"),
        ("push: { max_per_task: 0 }", "0 is not enough"),
        ("push: { deliver: { timeout: 0s } }", "'0s' is no time to wait"),
        ("push: { deliver: { concurrency: -1 } }", "-1 is no whole number"),
        ("push: { sign: yes please }", "'yes please' is neither true nor false"),
        ("auth: {mtls: {clients: {}}}", "`ca` is missing"),
    ],
)
def test_a_value_that_cannot_be_is_refused(text: str, fact: str) -> None:
    [(_, told)] = errors(f"version: 1\nagents: {{a: http://127.0.0.1:1}}\n{text}\n")
    assert fact in told


@for_each(
    ("agent", "fact"),
    [
        ("{ backend: http://127.0.0.1:1, cards: { ttl: 0s } }", "is no time to wait"),
        ("{ backend: http://127.0.0.1:1, cards: { ttl: 7 } }", "is no duration"),
        ("{ backend: http://127.0.0.1:1, cards: { refresh: 0s } }", "is no time to wait"),
        ("{ backend: http://127.0.0.1:1, cards: { ttl: 1s, refresh: 1s } }", "unknown key 'refresh'"),
        ("{ backend: http://127.0.0.1:1, cards: { every: 1s } }", "unknown key 'every'"),
        ("{ backend: http://127.0.0.1:1, affinity: sometimes }", "is none of: task, context, none"),
        ("{ backend: http://127.0.0.1:1, health: { fail_after: 0 } }", "is not enough"),
        ("{ backend: http://127.0.0.1:1, health: { eject: { most: 101 } } }", "is more than all of them"),
        ("{ backend: http://127.0.0.1:1, retry: { when: [connect, '500'] } }", "is none of: connect, reset, 503"),
        ("{ backend: http://127.0.0.1:1, message_id_idempotent: perhaps }", "is neither true nor false"),
        ("[{ url: http://127.0.0.1:1, weight: -1 }]", "is no whole number"),
        ("[{ url: http://127.0.0.1:1, dns: srv }]", "is not headless"),
        ("{ backend: { stdio: { command: sh, processes: 65 } } }", "65 is too many"),
        ("{ backend: { stdio: { command: sh, processes: 0 } } }", "0 is not enough"),
        ("{ backend: { stdio: { command: sh, framing: xml } } }", "'xml' is none of: lsp, ndjson"),
        ("{ backend: { stdio: { command: sh, restart: maybe } } }", "'maybe' is none of: always, on-failure, never"),
        ("{ backend: { stdio: { command: sh, ping: 0s } } }", "'0s' is no time to wait"),
        ("{ backend: { stdio: { command: sh, shell: true } } }", "unknown key 'shell'"),
        ("{ backend: { stdio: { command: sh, env: { MODEL: [swordfish] } } } }", "is no text"),
    ],
)
def test_a_value_of_an_agent_that_cannot_be_is_refused_without_its_secrets(agent: str, fact: str) -> None:
    [(_, told)] = errors(f"version: 1\nagents: {{ a: {agent} }}\n")
    assert fact in told
    assert "swordfish" not in told


@for_each("number", ["4", "18999", "20000", "536870911"])
def test_the_scope_has_any_number_that_is_free(number: str) -> None:
    assert (
        errors(f"version: 1\nagents: {{ a: http://127.0.0.1:1 }}\ngateway: {{ grpc: {{ scope_field: {number} }} }}\n")
        == []
    )


def test_limits_are_written_with_their_units() -> None:
    written = {"requests": "600/min", "burst": 50, "body": "1MiB", "bandwidth": "10MiB/s", "queue": 0, "weight": 2}
    limits = TenantLimits.model_validate(written)
    assert (limits.requests, limits.burst, limits.queue, limits.weight) == ((600.0, 60.0), 50, 0, 2)
    assert (limits.body, limits.bandwidth) == (1024**2, 10 * 1024**2)
