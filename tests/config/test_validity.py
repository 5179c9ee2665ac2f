"""Certificates that nobody believes any more, or yet, are told of; they are served all the same."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme

from gateway.config.check import examine

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
TEXT = """\
version: 1
gateway: { tls: { cert: chain.pem, key: key.pem } }
defaults: { tls: { cert: chain.pem, key: key.pem } }
agents:
  notes: { backend: "https://127.0.0.1:1", tls: { cert: chain.pem, key: key.pem } }
"""


@pytest.mark.parametrize(
    ("begins", "ends", "fact"),
    [
        (NOW - 2 * DAY, NOW - timedelta(minutes=2), "'chain.pem' has expired: it was valid until "),
        (NOW + DAY, NOW + 2 * DAY, "'chain.pem' is not valid yet: it begins at "),
        (NOW - DAY, NOW + DAY, None),
    ],
)
def test_an_invalid_certificate_is_a_warning_in_every_place(
    begins: datetime, ends: datetime, fact: str | None, tmp_path: Path
) -> None:
    issued = trustme.CA().issue_cert("127.0.0.1", not_before=begins, not_after=ends)
    (tmp_path / "chain.pem").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    (tmp_path / "key.pem").write_bytes(issued.private_key_pem.bytes())
    path = tmp_path / "gateway.yaml"
    path.write_text(TEXT)
    found = examine(path, {})
    assert found.errors == ()
    told = {".".join(map(str, each.path)): each.fact for each in found.warnings if "chain.pem" in each.fact}
    where = {"gateway.tls.cert", "defaults.tls.cert", "agents.notes.tls.cert"}
    assert told.keys() == (set() if fact is None else where)
    assert all(each.startswith(str(fact)) for each in told.values())


@pytest.mark.parametrize("content", [None, b"", b"nothing of the kind"])
def test_a_malformed_certificate_gets_no_validity_warning(content: bytes | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "chain.pem").write_bytes(content)
    path = tmp_path / "gateway.yaml"
    path.write_text(TEXT)
    found = examine(path, {})
    assert found.errors != ()
    assert not any("chain.pem" in each.fact for each in found.warnings)
