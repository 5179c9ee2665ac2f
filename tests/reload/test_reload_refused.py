"""A rejected configuration: the reload says why and changes nothing."""

import asyncio
import errno
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from gateway.app import Gateway
from gateway.reload import ReloadResult, Trigger
from gateway.snapshot import Snapshot
from tests.support.assembly import until
from tests.support.gateway import keys, running, whole_file
from tests.support.reloading import ECHO, IDLE, backends, serving
from tests.support.scripted import WAIT

pytestmark = pytest.mark.anyio

BROKEN = "agents:\n  one: { backend: ftp://x, methods: [] }\n"


async def test_a_broken_file_changes_nothing_and_is_explained(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with backends(ECHO) as (one,), serving(tmp_path, f"agents: {{ one: '{one.url}' }}") as site:
        before = site.running.gateway.snapshot
        site.file.write_text(whole_file(BROKEN))
        answer = await site.running.ask("POST", "/-/reload", b"", admin=True)
        assert answer.status == 422
        assert answer.json["result"] == "refused"
        [first, *_] = answer.json["problems"]
        assert (first["file"], first["line"], first["column"]) == (str(site.file), 4, 19)
        assert site.running.gateway.snapshot is before
        assert (await site.running.post("/one")).status == 200
        assert site.running.metric("config_last_reload_successful") == 0
        assert site.reloads(ReloadResult.REFUSED) == 1
        told = (await site.running.get("/-/config", admin=True)).json
        assert told["last_error"]["problems"] == answer.json["problems"]
        assert told["hash"] == before.examined.text_hash
        assert f"{site.file}:4:19" in caplog.text
        report = await site.rewrite(f"agents: {{ one: '{one.url}' }}")
        assert report.result is ReloadResult.UNCHANGED
        assert site.running.metric("config_last_reload_successful") == 1
        assert (await site.running.get("/-/config", admin=True)).json["last_error"] is None


@pytest.mark.parametrize(
    ("others", "status"),
    [
        ({"workers": [], "unheard": 1}, 202),
        ({"workers": [{"pid": 7, "result": "applied"}], "unheard": 0}, 200),
        ({"workers": [{"pid": 7, "result": "refused"}], "unheard": 1}, 422),
    ],
)
async def test_the_status_is_that_of_the_worst_worker(
    others: dict[str, Any], status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def told(*_: object) -> dict[str, Any]:
        return others

    monkeypatch.setattr(Gateway, "reload_others", told)
    async with serving(tmp_path, "agents: { one: 'http://127.0.0.1:1' }") as site:
        answer = await site.running.ask("POST", "/-/reload", b"", admin=True)
        assert (answer.status, answer.json["workers"], answer.json["unheard"]) == (status, *others.values())


async def test_a_file_that_fails_its_own_tests_is_not_put_to_use(tmp_path: Path) -> None:
    tests = "tests: [{ name: it is there, request: /one, expect: one }]\n"
    async with serving(tmp_path, f"agents: {{ one: 'http://127.0.0.1:1' }}\n{tests}") as site:
        report = await site.rewrite(
            f"agents: {{ two: 'http://127.0.0.1:1' }}\n{tests.replace('expect: one', 'expect: two')}"
        )
        assert (report.result, report.why) == (ReloadResult.REFUSED, "the configuration fails its own routing tests")
        assert [problem.place.line for problem in report.problems] == [4]
        assert list(site.running.gateway.snapshot.config.agents) == ["one"]


@pytest.mark.parametrize(
    "error", [OSError(errno.EMFILE, "Too many open files"), RuntimeError("can't start new thread")]
)
async def test_a_resource_shortage_during_a_reload_changes_nothing_and_the_next_reload_applies(
    tmp_path: Path, error: Exception
) -> None:
    async with serving(tmp_path, IDLE) as site:
        before = site.running.gateway.snapshot
        with pytest.MonkeyPatch.context() as patch:

            def short(*_: object, **__: object) -> Any:
                raise error

            patch.setattr("gateway.app.Snapshot.build", short)
            report = await site.rewrite("agents: { one: 'http://127.0.0.1:1' }")
        assert report.result is ReloadResult.REFUSED
        assert str(error) in report.why
        assert site.running.gateway.snapshot is before
        assert site.running.metric("config_last_reload_successful") == 0
        report = await site.rewrite("agents: { one: 'http://127.0.0.1:1' }")
        assert report.result is ReloadResult.APPLIED


async def test_files_that_do_not_answer_are_told_and_the_next_ones_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with serving(tmp_path, IDLE) as site:
        reloader = site.running.gateway.reloader
        assert reloader is not None
        hash_before = site.running.gateway.snapshot.examined.text_hash
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        # Opened for reading and writing, it waits for no peer, and writes nothing.
        silent = os.open(pipe, os.O_RDWR)
        try:
            site.file.unlink()
            pipe.rename(site.file)
            monkeypatch.setattr("gateway.background.FILE_TIMEOUT", 0.05)
            for _ in range(6):
                report = await reloader.reload(Trigger.ADMIN)
                assert (report.result, report.text_hash) == (ReloadResult.REFUSED, hash_before)
                assert "took longer than" in report.why
            # However often it is asked.
        finally:
            os.close(silent)
        monkeypatch.undo()
        site.file.unlink()
        report = await site.rewrite("agents: { one: 'http://127.0.0.1:1' }")
        assert report.result is ReloadResult.APPLIED


async def test_a_reload_that_hangs_does_not_stop_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(tmp_path, IDLE) as site:
        before = site.running.gateway.snapshot
        answers = threading.Event()
        build = Snapshot.build

        def hangs(*given: Any, **more: Any) -> Snapshot:
            answers.wait(WAIT)
            return build(*given, **more)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("gateway.background.FILE_TIMEOUT", 0.05)
            patch.setattr("gateway.app.Snapshot.build", hangs)
            for _ in range(6):
                report = await site.rewrite("agents: { one: 'http://127.0.0.1:1' }")
                assert report.result is ReloadResult.REFUSED
                # On a busy machine the file itself is late, too.
                assert "took longer than" in report.why
        assert site.running.gateway.snapshot is before
        answers.set()
        report = await site.rewrite("agents: { two: 'http://127.0.0.1:1' }")
        assert report.result is ReloadResult.APPLIED
        # The late result is dropped.
        assert list(site.running.gateway.snapshot.config.agents) == ["two"]


@pytest.mark.parametrize("before", ["unreadable", "empty"])
async def test_missing_includes_are_looked_for_again(tmp_path: Path, before: str) -> None:
    path, teams = tmp_path / "gateway.yaml", tmp_path / "teams"
    if before == "unreadable":
        teams.symlink_to("teams")
    settings = 'gateway: { listen: "127.0.0.1:0", admin: "127.0.0.1:0", reload: { watch: %s, poll: 20ms } }\n'
    for watch in ("true", "false"):
        plain = settings % watch + "agents: { one: 'http://127.0.0.1:1' }\n"
        async with running(plain, path=path, written=True) as gateway:
            reloader = gateway.gateway.reloader
            assert reloader is not None
            # In one step: nothing is read of it half written.
            (tmp_path / "new").write_text(whole_file(plain + "include: teams/*.yaml\n"))
            (tmp_path / "new").rename(path)
            await gateway.until(lambda: gateway.metric("config_reloads_total", result="refused") == 1)
            (tmp_path / "ready").mkdir()
            (tmp_path / "ready/two.yaml").write_text("agents: { two: 'http://127.0.0.1:1' }\n")
            teams.unlink(missing_ok=True)
            (tmp_path / "ready").rename(teams)
            await gateway.until(lambda: gateway.metric("config_reloads_total", result="applied") == 1)
            assert set(gateway.gateway.snapshot.config.agents) == {"one", "two"}
            assert gateway.metric("config_reloads_total", result="refused") == 1
            assert reloader.unmatched == ()
        shutil.rmtree(teams)
        if before == "unreadable":
            teams.symlink_to("teams")


async def test_while_it_shuts_down_nothing_is_put_to_use(tmp_path: Path) -> None:
    anywhere = (
        'gateway: { listen: "0.0.0.0:0", admin: "127.0.0.1:0", anonymous: true, public_url: "https://gw.test",'
        " drain: { delay: 60s } }\n"
    )
    async with serving(tmp_path, anywhere + IDLE) as site, asyncio.TaskGroup() as group:
        hurry = asyncio.Event()
        group.create_task(site.running.gateway.stop(hurry))
        await until(lambda: site.running.gateway.draining)
        report = await site.rewrite(anywhere + "agents: { one: 'http://127.0.0.1:1' }")
        assert (report.result, report.why) == (ReloadResult.REFUSED, "the gateway is shutting down")
        hurry.set()


async def test_limits_are_shared_with_nobody_where_the_ledger_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object, **__: object) -> Any:
        raise OSError("it is gone")

    async with serving(tmp_path, IDLE) as site:
        gateway = site.running.gateway
        shared: list[object] = []
        monkeypatch.setattr(gateway.limits, "share", shared.append)
        monkeypatch.setattr("gateway.app.Snapshot.build", gone)
        report = await site.rewrite(
            f"{keys(acme='acme')}tenants: {{ acme: [one] }}\nagents: {{ one: 'http://127.0.0.1:1' }}"
        )
        assert (report.result, report.why, shared) == (ReloadResult.REFUSED, "it is gone", [])
        monkeypatch.undo()
        monkeypatch.setattr(gateway.limits, "share", shared.append)
        report = await site.rewrite(
            f"{keys(acme='acme')}tenants: {{ acme: [one] }}\nagents: {{ one: 'http://127.0.0.1:1' }}"
        )
        assert (report.result, shared) == (ReloadResult.APPLIED, [None])
