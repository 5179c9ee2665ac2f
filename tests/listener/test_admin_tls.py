"""The admin listener over https: certificates of operators, renewal, and the probe of the same machine."""

import asyncio
import ssl
from functools import partial
from pathlib import Path

import httpx
import pytest

from gateway.commands.health import health_url, probe
from gateway.commands.output import CommandFailed
from gateway.config.check import examine
from gateway.reload import ReloadResult
from tests.support.certificates import SERVER, Authority, showing
from tests.support.reloading import Site, serving

pytestmark = pytest.mark.anyio

TEXT = """\
gateway:
  listen: "127.0.0.1:0"
  admin: {{ listen: "127.0.0.1:0", tls: {{ cert: own.pem, key: own-key.pem{more} }} }}
agents: {{ idle: 'http://127.0.0.1:1' }}
"""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    found = Authority("operators")
    found.issue("127.0.0.1", usages=(SERVER,)).write(tmp_path, "own")
    (tmp_path / "ca.pem").write_bytes(found.pem)
    return found


async def statuses(site: Site, tls: ssl.SSLContext, *paths: str, **headers: str) -> list[int]:
    url = f"https://127.0.0.1:{site.running.admin_port}"
    async with httpx.AsyncClient(verify=tls, trust_env=False, base_url=url, headers=headers) as http:
        return [(await http.get(path)).status_code for path in paths]


async def test_operators_show_a_certificate_and_probes_need_none(tmp_path: Path, authority: Authority) -> None:
    operator, stranger = authority.issue("ops.example"), Authority("others").issue("ops.example")
    async with serving(tmp_path, TEXT.format(more=", client_ca: ca.pem")) as site:
        assert site.running.gateway.admin_url == f"https://127.0.0.1:{site.running.admin_port}"
        shown = partial(showing, tmp_path, authority=authority)
        assert await statuses(site, shown(operator), "/-/config", "/metrics", "/-/ready") == [200, 200, 200]
        assert await statuses(site, shown(None), "/-/config", "/metrics", "/", "/-/ready") == [401, 401, 401, 200]
        with pytest.raises((httpx.ConnectError, httpx.ReadError, httpx.RemoteProtocolError)):
            await statuses(site, shown(stranger), "/-/ready")
        await asyncio.to_thread(probe, site.running.gateway.admin_url, verify=False)
        with pytest.raises(CommandFailed, match="certificate"):
            await asyncio.to_thread(probe, site.running.gateway.admin_url)


async def test_a_token_is_asked_for_beside_the_certificate(tmp_path: Path, authority: Authority) -> None:
    text = TEXT.format(more=", client_ca: ca.pem").replace("tls:", "token: admin-token-0123456789, tls:")
    bearer = {"Authorization": "Bearer admin-token-0123456789"}
    async with serving(tmp_path, text) as site:
        with_one = showing(tmp_path, authority.issue("ops.example"), authority)
        without = showing(tmp_path, None, authority)
        assert await statuses(site, with_one, "/-/config") == [401]
        assert await statuses(site, without, "/-/config", **bearer) == [401]
        assert await statuses(site, with_one, "/-/config", **bearer) == [200]


async def test_certificates_and_authorities_are_renewed_by_a_reload(tmp_path: Path, authority: Authority) -> None:
    text = TEXT.format(more=", client_ca: ca.pem")
    async with serving(tmp_path, text) as site:
        before = showing(tmp_path, authority.issue("ops.example"), authority)
        assert await statuses(site, before, "/-/config") == [200]
        other = Authority("later")
        other.issue("127.0.0.1", usages=(SERVER,)).write(tmp_path, "own")
        (tmp_path / "ca.pem").write_bytes(other.pem)
        assert (await site.rewrite(text)).result is ReloadResult.APPLIED
        with pytest.raises(httpx.ConnectError):
            await statuses(site, before, "/-/config")
        assert await statuses(site, showing(tmp_path, other.issue("o"), other), "/-/config") == [200]


def test_files_that_cannot_be_used_are_told_with_their_place(tmp_path: Path, authority: Authority) -> None:
    for more, listen, fact in (
        (", client_ca: none.pem", "127.0.0.1:0", "'none.pem' cannot be read: No such file or directory"),
        ("", "0.0.0.0:9090", "other machines could read and control the gateway without a token"),
        (", client_ca: ca.pem", "0.0.0.0:9090", None),
    ):
        text = TEXT.format(more=more).replace('admin: { listen: "127.0.0.1:0"', f'admin: {{ listen: "{listen}"')
        found = examine(tmp_path / "gateway.yaml", {}, text=f"version: 1\n{text}").errors
        assert [problem.fact for problem in found] == ([] if fact is None else [fact])
    del authority


def test_the_probe_asks_over_https(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("version: 1\ngateway: { admin: { listen: '127.0.0.1:1', tls: { cert: a, key: b } } }\nagents: {}\n")
    assert health_url(file, {}) == "https://127.0.0.1:1"
