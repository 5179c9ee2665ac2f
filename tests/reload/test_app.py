"""The gateway from its file to its open ports: what it opens, what it tells, and what keeps it from starting."""

import asyncio
import io
import logging
import ssl
import threading
from pathlib import Path

import pytest

from gateway.app import Gateway, StartFailed
from gateway.config.check import examine
from gateway.listener.server import ListenFailed
from tests.support.assembly import ANYWHERE, SECURED, assembled, certified
from tests.support.gateway import request, running
from tests.support.scripted import WAIT

pytestmark = pytest.mark.anyio


async def test_both_ports_answer_and_the_log_says_where(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "gateway")
    async with running("agents: {}") as site:
        gateway = site.gateway
        assert (gateway.public_url, gateway.admin_url) == (
            f"http://127.0.0.1:{site.port}",
            f"http://127.0.0.1:{site.admin_port}",
        )
        assert f"serving {gateway.public_url}, admin on {gateway.admin_url}" in caplog.messages
        for admin in (False, True):
            assert (await site.get("/-/ready", admin=admin)).body == b"ok\n"
        assert site.metric("config_last_reload_successful") == 1
        assert site.metric("config_last_reload_success_timestamp_seconds") > 1_600_000_000
        assert site.metric("draining") == 0
        assert site.metric("log_dropped_total") == 0


async def test_a_configuration_with_errors_is_not_assembled() -> None:
    broken = examine(Path("gateway.yaml"), {}, text="version: 1\nagents: { echo: ftp://x }\n")
    with pytest.raises(ValueError, match="the configuration has problems"):
        Gateway(broken, access_stream=io.BytesIO())


# ---- TLS -------------------------------------------------------------------------------------------------------------


async def test_clients_are_served_over_tls_with_files_beside_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, elsewhere = tmp_path / "site", tmp_path / "elsewhere"
    authority = certified(site)
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    for path in (site / "gateway.yaml", Path("../site/gateway.yaml")):
        async with running(SECURED, path=path) as gateway:
            assert gateway.gateway.public_url == f"https://127.0.0.1:{gateway.port}"
            assert gateway.gateway.admin_url.startswith("http://")
            context = ssl.create_default_context()
            authority.configure_trust(context)
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, ssl=context)
            assert writer.get_extra_info("ssl_object").version() in ("TLSv1.2", "TLSv1.3")
            writer.write(request("GET", "/-/ready"))
            async with asyncio.timeout(WAIT):
                assert (await reader.readuntil(b"ok\n")).startswith(b"HTTP/1.1 200 OK")
            writer.transport.abort()
            # Plain HTTP gets no answer there.
            plain = await gateway.client()
            await plain.ask("GET", "/-/ready")
            assert not (await plain.ended()).startswith(b"HTTP/")


async def test_an_audit_log_that_cannot_be_written_is_told_as_a_check_would(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    text = f"version: 1\ngateway: {ANYWHERE}\nobserve:\n  audit: no/folder/audit.jsonl\nagents: {{}}\n"
    gateway = Gateway(examine(file, {}, text=text), access_stream=io.BytesIO())
    with pytest.raises(StartFailed) as failed:
        await gateway.start()
    first, remedy = str(failed.value).splitlines()
    assert first.startswith(f"{file}:4:10  observe.audit: the audit log ")
    assert first.endswith("no/folder/audit.jsonl cannot be written: No such file or directory")
    assert remedy == "    → let the gateway write there, or name a file where it may; - is standard output"


async def test_a_certificate_that_cannot_be_used_keeps_the_gateway_from_starting(tmp_path: Path) -> None:
    certified(tmp_path)
    gateway = assembled(SECURED, tmp_path / "gateway.yaml")
    # After it was checked.
    (tmp_path / "tls/chain.pem").write_text("this was a certificate once\n")
    with pytest.raises(ListenFailed, match=r"cannot serve TLS with .*tls/chain\.pem and .*tls/key\.pem: "):
        await gateway.start()


async def test_a_certificate_that_is_not_read_holds_nobody_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certified(tmp_path)
    began, answers = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def hangs(*_: object, **__: object) -> None:
        loop.call_soon_threadsafe(began.set)
        answers.wait(WAIT)

    monkeypatch.setattr("gateway.startup.open_tls", hangs)
    gateway = assembled(SECURED, tmp_path / "gateway.yaml")
    starting = asyncio.ensure_future(gateway.start())
    async with asyncio.timeout(WAIT):
        await began.wait()
    # As a signal would.
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    answers.set()
    assert not gateway.started
