"""A gateway notices that its files have changed, however they are changed, and only where their contents differ."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from tests.support.gateway import Running, running, whole_file

pytestmark = pytest.mark.anyio

SETTINGS = 'gateway: { listen: "127.0.0.1:0", admin: "127.0.0.1:0", reload: { watch: %s, poll: %s } }\n'


def text_of(*agents: str, watch: str = "true", poll: str = "0s", more: str = "") -> str:
    written = ", ".join(f"{agent}: 'http://127.0.0.1:1'" for agent in agents)
    return whole_file(f"{SETTINGS % (watch, poll)}agents: {{ {written} }}\n{more}")


class Watched:
    """A gateway that reloads by itself."""

    def __init__(self, gateway: Running) -> None:
        self.gateway = gateway

    async def serves(self, *agents: str) -> None:
        await self.gateway.until(lambda: set(self.gateway.gateway.snapshot.config.agents) == set(agents))

    def reloads(self, **labels: str) -> float:
        return self.gateway.metric("config_reloads_total", **labels)


@asynccontextmanager
async def watching(file: Path, *, by_system: bool = True) -> AsyncIterator[Watched]:
    text = await asyncio.to_thread(file.read_text)
    async with running(text.removeprefix("version: 1\n"), path=file, written=True, settled=False) as gateway:
        # A change before the watch is there is noticed as well, but only after five seconds.
        await gateway.until(lambda: not by_system or _is_watching())
        yield Watched(gateway)


def _is_watching() -> bool:
    """Return whether this process watches a folder, or cannot tell."""
    known = Path("/proc/self/fdinfo")
    if not known.exists():
        return True
    found = False
    for each in known.iterdir():
        with suppress(OSError):
            found = found or "inotify wd" in each.read_text()
    return found


def replace(file: Path, text: str) -> None:
    new = file.with_name("new")
    new.write_text(text)
    new.rename(file)


async def test_a_file_that_is_written_or_replaced_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text(text_of("one"))
    async with watching(file) as site:
        file.write_text(text_of("two"))
        await site.serves("two")
        replace(file, text_of("three"))
        await site.serves("three")
        assert site.reloads(trigger="poll") == 0


async def test_a_config_map_that_is_swapped_is_noticed(tmp_path: Path) -> None:
    """As the kubelet does it: gateway.yaml → ..data/gateway.yaml, ..data → a folder; only ..data changes."""
    for name in ("one", "two", "three"):
        (tmp_path / f"..{name}").mkdir()
        (tmp_path / f"..{name}" / "gateway.yaml").write_text(text_of(name))
    (tmp_path / "..data").symlink_to("..one")
    file = tmp_path / "gateway.yaml"
    file.symlink_to("..data/gateway.yaml")
    async with watching(file) as site:
        for name in ("two", "three"):
            (tmp_path / "..data_tmp").symlink_to(f"..{name}")
            (tmp_path / "..data_tmp").rename(tmp_path / "..data")
            await site.serves(name)


@pytest.mark.parametrize("link", ["the file", "a folder on the way"])
async def test_a_link_that_leads_elsewhere_is_noticed(tmp_path: Path, link: str) -> None:
    """As one release replaces another: current → releases/2."""
    for name in ("one", "two"):
        (tmp_path / "releases" / name).mkdir(parents=True)
        (tmp_path / "releases" / name / "gateway.yaml").write_text(text_of(name))
    (tmp_path / "srv").mkdir()
    (tmp_path / "srv/current").symlink_to("../releases/one")
    file = tmp_path / "srv/current/gateway.yaml"
    if link == "the file":
        file = tmp_path / "gateway.yaml"
        file.symlink_to("releases/one/gateway.yaml")
    async with watching(file) as site:
        if link == "the file":
            (tmp_path / "new").symlink_to("releases/two/gateway.yaml")
            (tmp_path / "new").rename(file)
        else:
            (tmp_path / "srv/new").symlink_to("../releases/two")
            (tmp_path / "srv/new").rename(tmp_path / "srv/current")
        await site.serves("two")


async def test_a_folder_that_is_made_again_is_watched(tmp_path: Path) -> None:
    folder = tmp_path / "etc"
    folder.mkdir()
    file = folder / "gateway.yaml"
    file.write_text(text_of("one"))
    async with watching(file) as site:
        folder.rename(tmp_path / "old")
        await site.gateway.until(lambda: site.reloads(result="refused") >= 1)
        folder.mkdir()
        file.write_text(text_of("two"))
        await site.serves("two")
        file.write_text(text_of("three"))
        await site.serves("three")


async def test_files_of_an_include_that_appear_are_noticed_and_watched(tmp_path: Path) -> None:
    (tmp_path / "teams").mkdir()
    (tmp_path / "teams/a.yaml").write_text("agents: { a: 'http://127.0.0.1:1' }\n")
    file = tmp_path / "gateway.yaml"
    file.write_text(text_of("one"))
    async with watching(file) as site:
        file.write_text(text_of("one", more="include: teams/*.yaml\n"))
        await site.serves("one", "a")
        (tmp_path / "teams/b.yaml").write_text("agents: { b: 'http://127.0.0.1:1' }\n")
        await site.serves("one", "a", "b")
        (tmp_path / "teams/b.yaml").unlink()
        await site.serves("one", "a")


async def test_a_file_that_was_written_with_the_same_contents_is_not_read_again(tmp_path: Path) -> None:
    file, other = tmp_path / "gateway.yaml", tmp_path / "audit.log"
    file.write_text(text_of("one"))
    async with watching(file) as site:
        file.write_text(text_of("one"))
        os.utime(file)
        other.write_text("a neighbour")
        file.write_text(text_of("two"))
        await site.gateway.until(lambda: site.reloads(result="applied") == 1)
        await site.serves("two")
        assert site.reloads() == 1


@pytest.mark.parametrize("watch", ["false", "cannot"])
async def test_without_news_from_the_system_the_files_are_compared(
    tmp_path: Path, watch: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    if watch == "cannot":
        monkeypatch.setattr("gateway.reload.awatch", full)
    file = tmp_path / "gateway.yaml"
    written = {"watch": "false" if watch == "false" else "true", "poll": "10ms"}
    file.write_text(text_of("one", **written))
    async with watching(file, by_system=False) as site:
        file.write_text(text_of("two", **written))
        await site.gateway.until(lambda: site.reloads(trigger="poll", result="applied") == 1)
        await site.serves("two")
        assert ("cannot be watched" in caplog.text) is (watch == "cannot")
