"""`check` of callers with certificates; most of the errors are in the broken files."""

from datetime import date
from itertools import combinations
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gateway.config.check import examine
from gateway.config.checks.callers import check_patterns_differ
from gateway.config.checks.findings import Findings
from gateway.config.load import Examined
from gateway.config.yaml import Marks
from gateway.identity.client_names import ClientPattern
from tests.config.reading import HASH, TODAY
from tests.support.certificates import DAY, SERVER, Authority

MESH = 'mesh: { uri: "spiffe://mesh.test/{tenant}/*" }'
KEYS = f"  api_keys: {{ bot: {{ sha256: {HASH}, tenant: acme }} }}\n"


def checked(
    folder: Path,
    *,
    mtls: str = "",
    clients: str = MESH,
    gateway: str = "",
    more: str = "",
    authority: Authority | None = None,
    today: date = TODAY,
) -> Examined:
    """Return the problems of a file; `mtls` goes beside `clients`, `more` below `auth`."""
    authority = authority or Authority()
    (folder / "clients.pem").write_bytes(authority.pem)
    authority.issue("localhost", usages=(SERVER,)).write(folder, "server")
    text = (
        f"version: 1\ngateway: {{ tls: {{ cert: server.pem, key: server-key.pem }}{gateway} }}\n"
        f"auth:\n  mtls: {{ ca: clients.pem, clients: {{ {clients} }}{mtls} }}\n{more}"
        "tenants: { acme: [echo] }\nagents: { echo: http://127.0.0.1:9 }\n"
    )
    return examine(folder / "gateway.yaml", {}, text=text, today=today)


def told(found: Examined) -> list[str]:
    return [f"{problem.severity}: {problem.fact}" for problem in found.problems]


def test_certificates_alone_are_enough_to_sign_in(tmp_path: Path) -> None:
    found = checked(
        tmp_path, clients=f'{MESH}, x: {{ uri: "spiffe://mesh.test/acme/x", tenant: acme, agents: [echo] }}'
    )
    assert told(found) == []
    assert found.config is not None


def test_narrower_patterns_and_several_of_one_tenant_are_fine(tmp_path: Path) -> None:
    clients = (
        f'{MESH}, a: {{ uri: "spiffe://mesh.test/acme/*", tenant: acme }}, '
        'b: { dns: ["*.a.test", "x.*.a.test", "*.x.a.test", y.a.test], common_name: [one, two], tenant: acme }'
    )
    assert told(checked(tmp_path, clients=clients)) == []


def test_an_authority_that_is_over_is_told(tmp_path: Path) -> None:
    authority = Authority(until=2 * DAY)
    end = authority.certificate.not_valid_after_utc.date()
    assert told(checked(tmp_path, authority=authority, today=end)) == []
    fact = f"warning: 'clients.pem' has an authority that expired: {end}: CN=clients"
    assert told(checked(tmp_path, authority=authority, today=end + DAY)) == [fact]


def test_callers_without_a_required_certificate_are_reported(tmp_path: Path) -> None:
    required = ", require: true"
    assert told(checked(tmp_path, mtls=required)) == []
    fact = "error: callers without a credential are let in by `gateway.anonymous`, and get no connection"
    assert fact in told(checked(tmp_path, mtls=required, gateway=", anonymous: true"))
    fact = "warning: agents post notifications to `public_url`, and need a certificate of these authorities, too"
    relay = 'push: { mode: relay, allow: "https://*.acme.test" }\n'
    assert fact in told(checked(tmp_path, mtls=required, more=relay))


def test_keys_stand_beside_certificates_that_all_show_only_where_both_may_be_shown(tmp_path: Path) -> None:
    assert told(checked(tmp_path, mtls=", require: true, with_token: true", more=KEYS)) == []
    assert told(checked(tmp_path, mtls=", with_token: false", more=KEYS)) == []
    fact = "error: `api_keys` would have no effect: all clients show a certificate, which replaces tokens and keys"
    assert told(checked(tmp_path, mtls=", require: true", more=KEYS)) == [fact]


def test_keys_are_in_vain_over_grpc_where_every_client_has_to_show_a_certificate(tmp_path: Path) -> None:
    fact = "`api_keys` have no effect over gRPC: every client shows a certificate, which replaces them"
    over_grpc = ", listen_grpc: '127.0.0.1:0'"
    assert told(checked(tmp_path, gateway=over_grpc, more=KEYS)) == [f"warning: {fact}"]
    assert told(checked(tmp_path, mtls=", with_token: true", gateway=over_grpc, more=KEYS)) == []


SEGMENT = st.sampled_from(["a", "b", "*", "{tenant}"])
URI = st.lists(SEGMENT, min_size=1, max_size=3).filter(lambda found: found.count("{tenant}") < 2)


@given(st.lists(st.tuples(st.sampled_from("xyz"), URI), max_size=5))
def test_patterns_that_cross_are_found_however_they_are_compared(written: list[tuple[str, list[str]]]) -> None:
    found: list[tuple[tuple[str | int, ...], str, ClientPattern]] = [
        ((number,), client, ClientPattern.parse("uri", "urn://m/" + "/".join(segments)))
        for number, (client, segments) in enumerate(written)
    ]
    findings = Findings(Marks())
    check_patterns_differ(found, findings)
    crossing = any(
        one.meets(other)
        and not one.is_narrower(other)
        and not other.is_narrower(one)
        and (client != another or one.has_tenant or other.has_tenant)
        for (_, client, one), (_, another, other) in combinations(found, 2)
    )
    # Whether an entry says its tenant once is another check's.
    mixed = any(
        client == another and one.has_tenant != other.has_tenant
        for (_, client, one), (_, another, other) in combinations(found, 2)
    )
    assert mixed or bool(findings.problems) == crossing
