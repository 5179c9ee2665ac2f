from tests.config.reading import errors, warnings
from tests.table import for_each

AGENTS = "agents: { a: http://127.0.0.1:1 }\n"


def text(push: str) -> str:
    return f"version: 1\npush: {{ {push} }}\n{AGENTS}"


@for_each(
    "push",
    [
        "mode: none",
        "mode: relay, sign: false, deliver: { keep: 1h }",
        "allow: ['https://*.acme.example', 'https://93.184.216.34:8443/x']",
        "allow: ['http://hooks.svc:8080', 'https://10.0.0.7'], block_private_networks: false",
        "deliver: { first_pause: 1s, longest_pause: 1s }, mode: relay",
    ],
)
def test_a_policy_that_can_be_followed_is_good(push: str) -> None:
    assert errors(text(push)) == []
    assert warnings(text(push)) == []


@for_each(
    ("pattern", "fact"),
    [
        ("http://hooks.acme.example", "plain http goes nowhere while private networks are blocked"),
        ("http://10.0.0.7", "plain http goes nowhere while private networks are blocked"),
        ("https://10.0.0.7", "the address is private, and private networks are blocked"),
        ("https://[fd00::1]:8443", "the address is private, and private networks are blocked"),
        ("https://127.0.0.1", "the address is private, and private networks are blocked"),
        ("https://localhost:8443", "the address is private, and private networks are blocked"),
    ],
)
def test_plain_http_and_private_addresses_need_both_words(pattern: str, fact: str) -> None:
    assert errors(text(f"allow: ['https://a.example', '{pattern}']")) == [("push.allow[1]", fact)]
    assert errors(text(f"allow: ['https://a.example', '{pattern}'], block_private_networks: true"))
    assert errors(text(f"allow: ['https://a.example', '{pattern}'], block_private_networks: false")) == []
    broken = errors(text(f"allow: ['{pattern}'], block_private_networks: perhaps"))
    assert [path for path, _ in broken] == ["push.block_private_networks"]


@for_each("host", ["169.254.169.254", "[fe80::1]", "0.0.0.0", "[::]", "224.0.0.1"])
@for_each("more", ["", ", block_private_networks: false"])
def test_addresses_that_are_never_called_cannot_be_listed(host: str, more: str) -> None:
    for scheme in ("https", "http"):
        found = errors(text(f"allow: ['{scheme}://{host}']{more}"))
        assert found == [("push.allow[0]", "no webhook is called at this address, even if listed")]


def test_open_private_networks_without_an_allow_list_are_a_warning() -> None:
    [(path, fact)] = warnings(text("block_private_networks: false"))
    assert path == "push.block_private_networks"
    assert "opens nothing" in fact


@for_each("mode", ["passthrough", "none"])
def test_delivery_settings_without_deliveries_are_warnings(mode: str) -> None:
    said = "max_per_task: 2, max_per_tenant: 9, sign: true, deliver: { attempts: 2 }"
    fact = f"it says how the gateway calls webhooks, and it calls none: `push.mode` is {mode}"
    found = warnings(text(f"mode: {mode}, {said}"))
    assert sorted(found) == [(f"push.{key}", fact) for key in ("deliver", "max_per_task", "max_per_tenant", "sign")]
    assert [path for path, _ in warnings(text("mode: none, allow: 'https://a.example'"))] == ["push.allow"]


def test_a_relay_has_an_address_to_give_to_agents() -> None:
    gateway = "gateway: { listen: '0.0.0.0:8080', anonymous: true%s }\n"
    relay = text("mode: relay")
    assert errors(relay) == []
    assert [path for path, _ in errors(relay + gateway % "")] == ["gateway.listen"]
    assert errors(relay + gateway % ", public_url: 'https://agents.example.com'") == []
