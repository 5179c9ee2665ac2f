"""Agents whose certificates a private authority signed: who trusts it calls them and reads their cards, nobody else."""

import ssl
from pathlib import Path

import pytest
import trustme

from tests.support.gateway import LISTENS, RESULT, agent, card_of, running
from tests.support.scripted import ScriptedBackend, answers, whole

pytestmark = pytest.mark.anyio


async def test_an_agent_of_a_private_authority_is_called_and_read_where_the_file_trusts_it(tmp_path: Path) -> None:
    authority = trustme.CA()
    (tmp_path / "tls").mkdir()
    (tmp_path / "tls/ca.pem").write_bytes(authority.cert_pem.bytes())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    card = card_of("https://127.0.0.1/", "JSONRPC 1.0")
    async with ScriptedBackend(agent(answers(whole(RESULT)), card), tls=context) as one:
        text = f"""\
        {LISTENS}
        defaults: {{ tls: {{ ca: tls/ca.pem }} }}
        agents:
          inherits: {one.url}
          own: {{ backend: "{one.url}", tls: {{ ca: tls/ca.pem }} }}
          system: {{ backend: "{one.url}", tls: {{ ca: system }} }}
        """
        async with running(text, path=tmp_path / "gateway.yaml") as gateway:
            backends = gateway.gateway.snapshot.backends
            read = {name: backend.source.card is not None for name, backend in backends.items()}
            assert read == {"inherits": True, "own": True, "system": False}
            for name, good in read.items():
                answer = await gateway.post(f"/{name}", headers=[(b"a2a-version", b"1.0")])
                assert (answer.body == RESULT) is good, answer
                if not good:
                    assert answer.reasons[-1] == "UPSTREAM_CONNECT"
