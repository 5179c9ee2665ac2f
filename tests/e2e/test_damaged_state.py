"""A gateway whose file of state is damaged says so at once, is not ready, and gives nobody anything by it."""

import os
from pathlib import Path

import pytest

from tests.e2e.agents.grounds import Grounds
from tests.e2e.process import gateway_process
from tests.e2e.sdk import open_http
from tests.e2e.shared_site import ACME
from tests.e2e.sharing import configuration
from tests.e2e.wire import V1, frame, message

pytestmark = pytest.mark.anyio


async def test_a_damaged_file_is_an_error_at_the_start_and_makes_the_gateway_not_ready(
    ground: Grounds, tmp_path: Path
) -> None:
    agent = ground.agent("kept")
    file, state = configuration(agent, tmp_path), tmp_path / "state.db"
    with gateway_process(file, tmp_path) as gateway:
        async with open_http({**V1, **ACME}) as http:
            for number in range(60):
                answer = await http.post(gateway.url + "/shared", content=frame("SendMessage", message(f"{number}")))
                assert "result" in answer.json()
            assert (await http.get(gateway.admin + "/-/ready?verbose")).json()["ok"] is True
    content = state.read_bytes()
    whole = state.with_suffix(".copy")
    whole.write_bytes(content)
    # The first page has what tells whose file it is; the tables are behind it.
    state.write_bytes(content[:4096] + os.urandom(4096 * 2) + content[4096 * 3 :])
    with gateway_process(file, tmp_path) as gateway:
        assert "put a copy in its place" in gateway.said("state.db is damaged")
        assert '"level":"error"' in gateway.said("state.db is damaged").replace(" ", "").lower()
        calls = len(agent.calls)
        async with open_http({**V1, **ACME}) as http:
            verbose = await http.get(gateway.admin + "/-/ready?verbose")
            assert verbose.status_code == 503
            assert verbose.json() == {"ok": False, "checks": {"state": "the file is damaged", "listener": "serving"}}
            for url in (gateway.admin, gateway.url):
                ready = await http.get(url + "/-/ready")
                assert (ready.status_code, ready.text) == (503, "the file is damaged\n")
                assert (await http.get(url + "/-/live")).status_code == 200
            refused = await http.post(gateway.url + "/shared", content=frame("SendMessage", message("hi")))
            assert "STATE_UNAVAILABLE" in refused.text
            assert len(agent.calls) == calls
    whole.rename(state)
    with gateway_process(file, tmp_path) as gateway:
        async with open_http({**V1, **ACME}) as http:
            assert (await http.get(gateway.admin + "/-/ready")).status_code == 200
            answer = await http.post(gateway.url + "/shared", content=frame("SendMessage", message("again")))
            assert "result" in answer.json()
