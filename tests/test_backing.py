"""What the file says of an agent becomes its backings: over HTTP or gRPC, each with a connection of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trustme

from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.a2a.operation import Operation
from gateway.backing import AnswerBounds
from gateway.config.check import examine
from gateway.snapshot import Snapshot
from gateway.telemetry.metrics import Metrics
from gateway.upstream.connection_pool import Origin
from gateway.upstream.grpc import GrpcUpstream
from gateway.upstream.grpc_channel import GrpcBounds
from gateway.upstream.http import HttpUpstream
from tests.doubles.gateway import card_of, compiled
from tests.doubles.grpc_agent import fails, grpc_over
from tests.doubles.grpc_gateway import standing

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("grpc_over")]
__all__ = ("grpc_over",)

SEVERAL = """\
agents:
  plain: http://127.0.0.1:7001/agents/a
  proto: grpc://127.0.0.1:7002
  crm:
    by_tenant:
      acme: { backend: "grpc://127.0.0.1:7003", upstream_auth: { bearer: "${KEY}" }, upstream_tenant: acme-prod }
      globex: http://127.0.0.1:7004
    upstream_auth: { header: { X-Key: "${KEY}" } }
    upstream_tenant: keep
    forward_headers: [X-Region]
"""


def over_grpc(snapshot: Snapshot, key: str) -> GrpcUpstream:
    upstream = snapshot.backings[key].upstream
    assert isinstance(upstream, GrpcUpstream)
    return upstream


def built(text: str, folder: Path, grpc: str = "", environ: dict[str, str] | None = None) -> Snapshot:
    """A configuration in a folder, compiled; `grpc` is where gRPC is served."""
    examined = examine(folder / "gateway.yaml", environ or {}, text=f"version: 1\n{text}")
    assert examined.errors == (), examined.errors
    return Snapshot.build(examined, Metrics("test"), "https://gw.test", grpc)


# ---- Whom ------------------------------------------------------------------------------------------------------------


async def test_an_agent_is_asked_over_what_its_url_is_for(tmp_path: Path) -> None:
    snapshot = built(SEVERAL, tmp_path, environ={"KEY": "a-key-of-some-length-0123456789"})
    kinds = {key: (each.agent, type(each.upstream), each.url) for key, each in snapshot.backings.items()}
    assert kinds == {
        "plain": ("plain", HttpUpstream, "http://127.0.0.1:7001/agents/a"),
        "proto": ("proto", GrpcUpstream, "grpc://127.0.0.1:7002"),
        "crm/acme": ("crm", GrpcUpstream, "grpc://127.0.0.1:7003"),
        "crm/globex": ("crm", HttpUpstream, "http://127.0.0.1:7004"),
    }
    assert all(each.upstream.backend == key for key, each in snapshot.backings.items())
    plain = snapshot.backings["plain"].upstream
    assert isinstance(plain, HttpUpstream)
    assert plain.pool.origin == Origin("http", "127.0.0.1", 7001)
    # No two backends share a connection, nor one of two tenants its credential.
    channels = {id(over_grpc(snapshot, key).channel) for key in ("proto", "crm/acme")}
    assert len(channels) == 2
    treatments = {key: each.upstream.treatment for key, each in snapshot.backings.items()}
    assert treatments["proto"].credentials == ()
    assert treatments["crm/acme"].credentials == ((b"authorization", b"Bearer a-key-of-some-length-0123456789"),)
    assert treatments["crm/globex"].credentials == ((b"x-key", b"a-key-of-some-length-0123456789"),)
    assert [treatments[key].tenant for key in treatments] == [None, None, "acme-prod", "keep"]
    assert treatments["crm/acme"].forwarded == treatments["crm/globex"].forwarded == {b"x-region"}
    await snapshot.aclose()


async def test_what_the_file_says_of_the_version_is_spoken_over_grpc_and_nothing_else() -> None:
    text = """\
    agents:
      open: grpc://127.0.0.1:7001
      old: { backend: { url: "grpc://127.0.0.1:7002", a2a_version: "0.3" }, methods: [SendMessage] }
    """
    async with compiled(text) as snapshot:
        assert over_grpc(snapshot, "open").interfaces() == {}
        assert list(over_grpc(snapshot, "old").interfaces()) == [Dialect(Binding.GRPC, Version.V0_3)]
        assert snapshot.backings["open"].methods is None
        assert snapshot.backings["old"].methods == frozenset({Operation.SEND_MESSAGE})


async def test_a_card_that_is_written_is_the_agents_and_no_customers(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_bytes(card_of("10.0.0.7:50051", "GRPC 0.3", "GRPC 1.0", tenant="inside"))
    text = """\
    agents:
      file: { backend: "grpc://127.0.0.1:7001", card: card.json }
      elsewhere: { backend: "grpc://127.0.0.1:7002", card: "http://127.0.0.1:7003/" }
      none: grpc://127.0.0.1:7004
    """
    async with compiled(text, path=tmp_path / "gateway.yaml") as snapshot:
        products = {key: each.product for key, each in snapshot.backings.items()}
        assert products == {"file": True, "elsewhere": True, "none": False}
        spoken = over_grpc(snapshot, "file").interfaces()
        assert [str(dialect.version) for dialect in spoken] == ["0.3", "1.0"]
        assert spoken[Dialect(Binding.GRPC, Version.V1_0)].tenants == ("inside",)


# ---- How much, and how long ------------------------------------------------------------------------------------------


async def test_an_answer_over_grpc_may_be_as_long_as_one_over_http_and_a_request_as_any() -> None:
    text = """\
    gateway: { body_limit: 1000000, heartbeat: 3s, grpc: { scope_field: 200 }, listen_grpc: "127.0.0.1:0" }
    defaults: { timeouts: { connect: 2s, stream_idle: 9s } }
    agents:
      events: { backend: "grpc://127.0.0.1:7001", connections: { event: 20000, kept: 10000, headers: 9000 } }
      whole: { backend: "grpc://127.0.0.1:7002", connections: { event: 10000, kept: 30000 } }
    """
    async with compiled(text) as snapshot:
        events, whole = over_grpc(snapshot, "events"), over_grpc(snapshot, "whole")
        assert snapshot.backings["events"].bounds == AnswerBounds(20_000, 10_000, 3.0)
        assert events.channel._bounds == GrpcBounds(request=1_000_000, answer=20_000, metadata=9_000)
        assert whole.channel._bounds.answer == 30_000
        assert (events.timeouts.connect, events.timeouts.stream_idle, events.channel._connect) == (2.0, 9.0, 2.0)
        assert events._scope_field == 200


async def test_who_vouches_for_an_agent_over_tls_is_who_the_file_says(tmp_path: Path) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    text = """\
    agents:
      own: { backend: "grpcs://127.0.0.1:7001", tls: { ca: ca.pem } }
      systems: grpcs://127.0.0.1:7002
      plain: grpc://127.0.0.1:7003
    """
    async with compiled(text, path=tmp_path / "gateway.yaml") as snapshot:
        assert over_grpc(snapshot, "own").channel._roots == authority.cert_pem.bytes()
        roots = over_grpc(snapshot, "systems").channel._roots
        assert roots is not None
        assert b"BEGIN CERTIFICATE" in roots
        assert authority.cert_pem.bytes() not in roots
        assert over_grpc(snapshot, "plain").channel._roots is None


# ---- Cards -----------------------------------------------------------------------------------------------------------


async def test_no_card_hides_where_the_gateway_takes_grpc(tmp_path: Path) -> None:
    """An agent on the same machine is told apart by its port."""
    text = "gateway: { listen_grpc: '127.0.0.1:0' }\nagents: { echo: 'grpc://127.0.0.1:7001' }"
    snapshot = built(text, tmp_path, "127.0.0.1:50051")
    discretion = snapshot.backings["echo"].source.discretion
    assert discretion.secrets == ("127.0.0.1:7001",)
    assert "127.0.0.1:50051" in discretion.own
    assert "gw.test" in discretion.own
    await snapshot.aclose()
    without = built("agents: { echo: 'grpc://127.0.0.1:7001' }", tmp_path)
    assert set(without.backings["echo"].source.discretion.secrets) == {"127.0.0.1:7001", "127.0.0.1"}
    await without.aclose()


async def test_what_becomes_of_a_card_is_counted() -> None:
    async with standing(fails("INTERNAL")) as site:
        gave_none = site.gateway.metric("card_fetches_total", agent="echo", result="error")
        assert gave_none == 1
    card = card_over_grpc()
    async with standing(fails("INTERNAL"), card=card) as site:
        assert site.gateway.metric("card_fetches_total", agent="echo", result="ok") == 1


def card_over_grpc() -> bytes:
    from a2a.types import AgentCard  # noqa: PLC0415 - only this test reads one
    from google.protobuf.json_format import ParseDict  # type: ignore[import-untyped]  # noqa: PLC0415 - likewise

    written: dict[str, Any] = json.loads(card_of("10.0.0.7:50051", "GRPC 1.0"))
    return bytes(ParseDict(written, AgentCard()).SerializeToString())


# ---- What it costs ---------------------------------------------------------------------------------------------------

_WITHOUT = """
import asyncio, sys
from pathlib import Path
from gateway.config.check import examine
from gateway.snapshot import Snapshot
from gateway.telemetry.metrics import Metrics

async def compiled():
    examined = examine(Path("gateway.yaml"), {}, text="version: 1\\nagents: { echo: 'http://127.0.0.1:7001' }")
    await Snapshot.build(examined, Metrics("test"), "https://gw.test").aclose()

asyncio.run(compiled())
loaded = {name.partition(".")[0] for name in sys.modules} & {"grpc", "google", "a2a"}
assert not loaded, loaded
"""


def test_who_has_no_agents_behind_grpc_does_not_load_it() -> None:
    subprocess.run([sys.executable, "-c", _WITHOUT], check=True, timeout=60, cwd=Path(__file__).parent.parent)
