"""Authorities are read once, and calls and cards trust the same ones."""

from pathlib import Path

import pytest
import trustme

from gateway.catalog.trust import Trust
from gateway.holdings import Holdings

pytestmark = pytest.mark.anyio


async def test_each_set_of_authorities_is_made_once(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_bytes(trustme.CA().cert_pem.bytes())
    holdings = Holdings()
    trust = Trust(holdings)
    system, own = trust.of(), trust.of(file)
    assert trust.of() is system
    assert trust.of(file) is own
    assert system.tls is not own.tls
    assert own.tls.cert_store_stats()["x509_ca"] == 1
    await holdings.aclose()
    assert system.client.is_closed
    assert own.client.is_closed


async def test_a_file_that_is_gone_is_no_trust_in_everybody(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        Trust().of(tmp_path / "gone.pem")
