"""Backends of an agent in the file: over HTTP or gRPC, each with a connection of its own."""

from pathlib import Path

import pytest

from gateway.a2a.dialect import Binding, Dialect, Version
from gateway.config.check import examine
from gateway.snapshot import Snapshot
from gateway.telemetry.metrics import GatewayMetrics
from gateway.upstream.grpc import GrpcUpstream
from tests.support.gateway import card_of, compiled
from tests.support.grpc_agent import grpc_over

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("grpc_over")]
__all__ = ("grpc_over",)


def over_grpc(snapshot: Snapshot, key: str) -> GrpcUpstream:
    upstream = snapshot.backends[key].upstream
    assert isinstance(upstream, GrpcUpstream)
    return upstream


def built(text: str, folder: Path, grpc: str = "", environ: dict[str, str] | None = None) -> Snapshot:
    """A configuration in a folder, compiled; `grpc` is where gRPC is served."""
    examined = examine(folder / "gateway.yaml", environ or {}, text=f"version: 1\n{text}")
    assert examined.errors == (), examined.errors
    return Snapshot.build(examined, GatewayMetrics("test"), "https://gw.test", grpc)


# ---- Whom ------------------------------------------------------------------------------------------------------------


async def test_a_card_that_is_written_is_the_agents_and_no_customers(tmp_path: Path) -> None:
    (tmp_path / "card.json").write_bytes(card_of("10.0.0.7:50051", "GRPC 0.3", "GRPC 1.0", tenant="inside"))
    text = """\
    agents:
      file: { backend: "grpc://127.0.0.1:7001", card: card.json }
      elsewhere: { backend: "grpc://127.0.0.1:7002", card: "http://127.0.0.1:7003/" }
      none: grpc://127.0.0.1:7004
    """
    async with compiled(text, path=tmp_path / "gateway.yaml") as snapshot:
        products = {key: each.product for key, each in snapshot.backends.items()}
        assert products == {"file": True, "elsewhere": True, "none": False}
        spoken = over_grpc(snapshot, "file").dialects.interfaces()
        assert [str(dialect.version) for dialect in spoken] == ["0.3", "1.0"]
        assert spoken[Dialect(Binding.GRPC, Version.V1_0)].tenants == ("inside",)


# ---- Cards -----------------------------------------------------------------------------------------------------------


async def test_no_card_hides_where_the_gateway_takes_grpc(tmp_path: Path) -> None:
    """An agent on the same machine is told apart by its port."""
    text = "gateway: { listen_grpc: '127.0.0.1:0' }\nagents: { echo: 'grpc://127.0.0.1:7001' }"
    snapshot = built(text, tmp_path, "127.0.0.1:50051")
    discretion = snapshot.backends["echo"].source.discretion
    assert discretion.secrets == ("127.0.0.1:7001",)
    assert "127.0.0.1:50051" in discretion.own
    assert "gw.test" in discretion.own
    await snapshot.aclose()
    without = built("agents: { echo: 'grpc://127.0.0.1:7001' }", tmp_path)
    assert set(without.backends["echo"].source.discretion.secrets) == {"127.0.0.1:7001", "127.0.0.1"}
    await without.aclose()
