from pathlib import Path

import trustme

from gateway.config.check import examine
from tests.config.reading import HASH, errors, warnings
from tests.table import for_each

ONE = "a: http://127.0.0.1:1"
EXPOSED = "a: { backend: http://127.0.0.1:1, expose: [jsonrpc, grpc] }"
REST = f"agents: {{ {ONE} }}\n"
AUTH = f"auth: {{ api_keys: {{ bot: {{ sha256: {HASH}, tenant: acme }} }} }}\ntenants: {{ acme: [a] }}\n"
PUBLIC = "public_url: 'https://gw.example.com/base'"


def gateway(entry: str, rest: str = "") -> str:
    return f"version: 1\ngateway: {{ {entry} }}\n{rest}{REST}"


@for_each(
    "text",
    [
        gateway("listen: localhost:0, admin: localhost:0"),
        gateway("listen: '[::1]:8080'"),
        gateway(f"listen: 0.0.0.0:8080, {PUBLIC}", AUTH),
        gateway(f"listen: 0.0.0.0:8080, {PUBLIC}, anonymous: true"),
        gateway("admin: { listen: 0.0.0.0:9090, token: abcdefghijklmnop }"),
        gateway("admin: { listen: '[::1]:9090', token: abc }"),
        gateway("listen_grpc: '127.0.0.1:0'").replace(ONE, EXPOSED),
        gateway("listen_grpc: '[::1]:50051', public_grpc: 'grpc.example.com:443'").replace(ONE, EXPOSED),
        gateway("listen_grpc: '0.0.0.0:50051'", AUTH),
        gateway("listen_grpc: '0.0.0.0:50051', public_grpc: 'grpc.example.com:443'", AUTH).replace(ONE, EXPOSED),
        gateway("listen_grpc: '0.0.0.0:50051', anonymous: true"),
        gateway(f"{PUBLIC}, prefix_stripped: true, trusted_proxies: [10.0.0.0/8, '::1', 192.0.2.7]"),
    ],
)
def test_a_gateway_that_is_as_open_as_its_author_thinks_is_fine(text: str) -> None:
    assert errors(text) == []


@for_each(
    ("text", "paths"),
    [
        # More of them are among the broken files.
        (gateway("admin: { token: '' }"), ["gateway.admin.token"]),
        (gateway("admin: { listen: 0.0.0.0:9090, token: 'abcdefghijklmno  ' }"), ["gateway.admin.token"]),
        (gateway(f"listen: 0.0.0.0:9090, anonymous: true, {PUBLIC}"), ["gateway.listen"]),
        (gateway("listen: '[::1]:9090', admin: localhost:9090"), ["gateway.admin"]),
        (gateway("prefix_stripped: true"), ["gateway.prefix_stripped"]),
        (gateway("public_url: 'https://u@gw.example.com'"), ["gateway.public_url"]),
        (gateway("listen_grpc: '0.0.0.0:8080', anonymous: true"), ["gateway.listen_grpc"]),
        (gateway("listen_grpc: '127.0.0.1:0', public_grpc: '0.0.0.0:1'"), ["gateway.public_grpc"]),
        (gateway("trusted_proxies: [10.0.0.1/8]"), ["gateway.trusted_proxies[0]"]),
        (gateway("body_limit: 0"), ["gateway.body_limit"]),
    ],
)
def test_a_gateway_that_is_too_open_or_inconsistent_is_refused(text: str, paths: list[str]) -> None:
    assert [path for path, _ in errors(text)] == paths


def test_listeners_that_meet_are_told_with_what_the_other_is() -> None:
    [(_, fact)] = errors(gateway("listen: localhost:9090"))
    assert fact == "operators are served there too: `gateway.admin` is 127.0.0.1:9090 where it is left out"
    [(_, fact)] = errors(gateway("listen: localhost:7070, admin: 127.0.0.1:7070"))
    assert fact == "clients are served there too: `gateway.listen` is localhost:7070"
    [(_, fact)] = errors(gateway("listen_grpc: localhost:8080"))
    assert fact == "clients are served over HTTP there too: `gateway.listen` is 127.0.0.1:8080 where it is left out"
    [(_, fact)] = errors(gateway("listen_grpc: localhost:7070, admin: 127.0.0.1:7070"))
    assert fact == "operators are served there too: `gateway.admin` is 127.0.0.1:7070"


ISOLATED = "a: { backend: http://127.0.0.1:1, isolation: none }"


@for_each(
    ("text", "path"),
    [
        (gateway("anonymous: true", AUTH), "gateway.anonymous"),
        (gateway("anonymous: false", AUTH.replace("[a] }", "[a], anonymous: [] }")), "tenants.anonymous"),
        (
            gateway("anonymous: false", AUTH.replace("acme: [a]", "acme: [a], '*': '*'")).replace(ONE, ISOLATED),
            'tenants."*"',
        ),
        (gateway("public_url: 'http://gw.example.com'", AUTH), "gateway.public_url"),
        (gateway("public_url: 'http://gw.example.com'"), None),
    ],
)
def test_access_for_nobody_everybody_or_eavesdroppers_is_a_warning(text: str, path: str | None) -> None:
    assert [found for found, _ in warnings(text)] == ([] if path is None else [path])


@for_each("name", ["'*'", "anonymous"])
def test_anonymous_callers_cannot_act_for_others(name: str) -> None:
    text = gateway("anonymous: true", AUTH.replace("acme: [a]", f"acme: [a], {name}: {{ agents: [a], act_for: acme }}"))
    assert len(errors(text.replace("a: http://127.0.0.1:1", ISOLATED))) == 1


def test_a_certificate_that_cannot_be_served_is_told_at_its_key(tmp_path: Path) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text(gateway("tls: { cert: tls.crt, key: tls.key }"))
    certificate, other = trustme.CA().issue_cert("127.0.0.1"), trustme.CA().issue_cert("127.0.0.1")
    (tmp_path / "tls.crt").write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    [missing] = examine(path, {}).errors
    assert missing.as_text().startswith(f"{path}:2:39  gateway.tls.key: 'tls.key' cannot be read: No such file")
    (tmp_path / "tls.key").write_bytes(other.private_key_pem.bytes())
    [mismatched] = examine(path, {}).errors
    assert mismatched.fact == "'tls.key' is not the private key of the certificate"
    (tmp_path / "tls.key").write_bytes(certificate.private_key_pem.bytes())
    assert examine(path, {}).errors == ()
