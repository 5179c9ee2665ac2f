"""Files that change are noticed, however they are changed, and only where they say something else."""

import asyncio
import gc
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from gateway.config.stamp import stamp, stamp_of
from gateway.watch import Notice, Watch, _folders
from tests.doubles.assembly import until
from tests.doubles.scripted import WAIT

pytestmark = pytest.mark.anyio


class Heard:
    """What a watch told."""

    def __init__(self, *files: Path) -> None:
        self.files = list(files)
        self.told: list[Notice] = []
        self.news = asyncio.Event()

    async def changed(self, told: Notice) -> None:
        self.told.append(told)
        self.news.set()

    async def next(self) -> Notice:
        async with asyncio.timeout(WAIT):
            await self.news.wait()
        self.news.clear()
        return self.told[-1]


@asynccontextmanager
async def watching(
    heard: Heard,
    *,
    every: float = 0.0,
    listens: bool = True,
    read: Callable[[], Mapping[Path, bytes]] | None = None,
) -> AsyncIterator[Watch]:
    watch = Watch(lambda: heard.files, heard.changed, every=lambda: every, listens=lambda: listens, read=read)
    task = asyncio.get_running_loop().create_task(watch.run())
    try:
        if listens:
            async with asyncio.timeout(WAIT):
                await watch.listening.wait()
        yield watch
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_file_that_is_written_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("one")
    heard = Heard(file)
    async with watching(heard):
        file.write_text("two")
        assert await heard.next() is Notice.WATCH


async def test_a_file_in_the_place_of_another_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("one")
    heard = Heard(file)
    async with watching(heard):
        for text in ("two", "three"):
            (tmp_path / "new").write_text(text)
            (tmp_path / "new").rename(file)
            await heard.next()


async def test_a_config_map_that_is_swapped_is_noticed(tmp_path: Path) -> None:
    """As the kubelet does it: gateway.yaml → ..data/gateway.yaml, ..data → a folder; only ..data changes."""
    for name in ("..1", "..2", "..3"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "gateway.yaml").write_text(name)
    (tmp_path / "..data").symlink_to("..1")
    file = tmp_path / "gateway.yaml"
    file.symlink_to("..data/gateway.yaml")
    heard = Heard(file)
    async with watching(heard) as watch:
        for name in ("..2", "..3"):
            (tmp_path / "..data_tmp").symlink_to(name)
            (tmp_path / "..data_tmp").rename(tmp_path / "..data")
            await heard.next()
            async with asyncio.timeout(WAIT):
                await watch.listening.wait()
        assert len(heard.told) == 2


async def test_a_file_behind_a_link_is_noticed_where_it_lies(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "srv").mkdir()
    behind, file = tmp_path / "srv/real.yaml", tmp_path / "etc/gateway.yaml"
    behind.write_text("one")
    file.symlink_to(behind)
    heard = Heard(file)
    async with watching(heard):
        behind.write_text("two")
        await heard.next()


async def listens_again(watch: Watch, does: Callable[[], object]) -> None:
    """Do what is told, and wait until it has been looked at, and the next is listened for."""
    stopped, began = asyncio.Event(), asyncio.Event()
    clear, start = watch.listening.clear, watch.listening.set

    def clearing() -> None:
        clear()
        stopped.set()

    def starting() -> None:
        start()
        began.set()

    watch.listening.clear, watch.listening.set = clearing, starting  # type: ignore[method-assign]  # to hear of both
    try:
        does()
        async with asyncio.timeout(WAIT):
            await stopped.wait()
            await began.wait()
    finally:
        watch.listening.clear, watch.listening.set = clear, start  # type: ignore[method-assign]  # as they were


@pytest.mark.parametrize("link", ["in the way", "to a link", "to a folder of a link", "up and down"])
async def test_a_link_anywhere_on_the_way_that_is_put_in_anothers_place_is_noticed(tmp_path: Path, link: str) -> None:
    """As a release is put in the place of another: current → releases/2."""
    for name in ("1", "2"):
        (tmp_path / "releases" / name).mkdir(parents=True)
        (tmp_path / "releases" / name / "gateway.yaml").write_text(name)
    (tmp_path / "srv/deep").mkdir(parents=True)
    (tmp_path / "srv/current").symlink_to("../releases/1")
    (tmp_path / "etc").mkdir()
    file = tmp_path / "etc/gateway.yaml"
    match link:
        case "in the way":
            file = tmp_path / "srv/current/gateway.yaml"
        case "to a link":
            file.symlink_to(tmp_path / "srv/current/gateway.yaml")
        case "to a folder of a link":
            (tmp_path / "etc/to").symlink_to(tmp_path / "srv")
            file = tmp_path / "etc/to/current/gateway.yaml"
        case _:
            file = tmp_path / "srv/deep/../current/gateway.yaml"
    heard = Heard(file)
    async with watching(heard):
        (tmp_path / "srv/new").symlink_to("../releases/2")
        (tmp_path / "srv/new").rename(tmp_path / "srv/current")
        assert await heard.next() is Notice.WATCH


def test_a_link_to_itself_leads_nowhere(tmp_path: Path) -> None:
    (tmp_path / "gateway.yaml").symlink_to("gateway.yaml")
    assert set(_folders([tmp_path / "gateway.yaml", tmp_path / "a\0b"])) == {tmp_path}


async def test_a_folder_that_is_made_anew_is_listened_to(tmp_path: Path) -> None:
    """Also where it says what the one before said."""
    folder = tmp_path / "etc"
    file = folder / "gateway.yaml"
    (tmp_path / "etc").mkdir()
    file.write_text("one")
    heard = Heard(file)

    def replaced() -> None:
        folder.rename(tmp_path / "old")
        folder.mkdir()
        file.write_text("one")

    async with watching(heard) as watch:
        await listens_again(watch, replaced)
        heard.news.clear()
        file.write_text("two")
        assert await heard.next() is Notice.WATCH


async def test_a_folder_that_is_not_there_yet_is_listened_for(tmp_path: Path) -> None:
    file = tmp_path / "etc/conf/gateway.yaml"
    heard = Heard(file)
    async with watching(heard):
        (tmp_path / "etc/conf").mkdir(parents=True)
        file.write_text("one")
        assert await heard.next() is Notice.WATCH


async def test_what_somebody_else_read_meanwhile_names_what_is_listened_to(tmp_path: Path) -> None:
    """As where SIGHUP comes before the news: nothing says something else than was read, but other files count."""
    (tmp_path / "more").mkdir()
    file, more = tmp_path / "gateway.yaml", tmp_path / "more/agents.yaml"
    file.write_text("one")
    more.write_text("one")
    heard = Heard(file)
    read = {file: stamp_of(file)}

    def sighup() -> None:
        file.write_text("two")
        read.update({file: stamp_of(file), more: stamp_of(more)})
        heard.files = [file, more]

    async with watching(heard, read=lambda: read) as watch:
        await until(lambda: bool(watch._known) and not watch._one.locked())
        await listens_again(watch, sighup)
        assert heard.told == []
        more.write_text("two")
        assert await heard.next() is Notice.WATCH


def descriptors() -> Counter[str]:
    """What this process has open, and how often."""
    found = Counter[str]()
    for each in Path("/proc/self/fd").iterdir():
        # The one that lists them is gone by now.
        with suppress(FileNotFoundError):
            found[str(each.readlink())] += 1
    return found


async def test_no_descriptor_is_left_however_often_there_is_news_or_whenever_it_is_cancelled(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}/agents.yaml" for number in range(300)]
    for file in files:
        file.parent.mkdir()
        file.write_text("one")
    gc.collect()
    before = descriptors()
    for steps in range(12):
        heard = Heard(*files)
        watch = Watch(lambda heard=heard: heard.files, heard.changed, every=lambda: 0.0)  # type: ignore[misc]
        task = asyncio.get_running_loop().create_task(watch.run())
        for _ in range(steps):
            await asyncio.sleep(0)
        if steps == 11:
            for text in ("two", "three"):
                async with asyncio.timeout(WAIT):
                    await watch.listening.wait()
                files[-1].write_text(text)
                await heard.next()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await until(lambda: not any(thread.name == "files" for thread in threading.enumerate()))
    gc.collect()
    # What somebody else closed meanwhile is none of ours.
    assert not descriptors() - before


async def test_what_says_the_same_as_before_has_not_changed(tmp_path: Path) -> None:
    file, other = tmp_path / "gateway.yaml", tmp_path / "state.db"
    file.write_text("one")
    heard = Heard(file)
    async with watching(heard):
        file.write_text("one")
        os.utime(file)
        other.write_text("a neighbour")
        file.write_text("two")
        await heard.next()
    assert len(heard.told) == 1


async def test_what_is_written_slowly_is_noticed_before_it_is_closed(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("one")
    heard = Heard(file)
    async with watching(heard):
        with file.open("a") as writing:
            writing.write(" two")
            writing.flush()
            await heard.next()


async def test_files_that_come_to_count_are_looked_after_from_then_on(tmp_path: Path) -> None:
    (tmp_path / "more").mkdir()
    file, more = tmp_path / "gateway.yaml", tmp_path / "more/agents.yaml"
    file.write_text("one")
    more.write_text("one")
    heard = Heard(file)

    async def changed(told: Notice) -> None:
        heard.files = [file, more]
        await Heard.changed(heard, told)

    heard.changed = changed  # type: ignore[method-assign]  # for this one
    async with watching(heard) as watch:
        file.write_text("two")
        await heard.next()
        # From then on: what it says when it is first looked at is what is known of it.
        await until(lambda: more in watch._known)
        more.write_text("two")
        await heard.next()


async def test_what_changes_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("one")
    heard = Heard(file)
    read: list[str] = []

    async def changed(told: Notice) -> None:
        read.append(file.read_text())
        if len(read) == 1:
            file.write_text("three")
        await Heard.changed(heard, told)

    heard.changed = changed  # type: ignore[method-assign]  # for this one
    async with watching(heard):
        file.write_text("two")
        while read != ["two", "three"]:
            await heard.next()


async def test_where_the_system_tells_nothing_they_are_looked_at(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("one")
    heard = Heard(file)
    async with watching(heard, every=0.01, listens=False) as watch:
        await until(lambda: bool(watch._known))
        file.unlink()
        assert await heard.next() is Notice.POLL
        file.write_text("two")
        assert await heard.next() is Notice.POLL


async def test_a_folder_that_cannot_be_watched_is_told_and_they_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("gateway.watch.Inotify", full)
    file = tmp_path / "gateway.yaml"
    file.write_text("one")
    heard = Heard(file)
    watch = Watch(lambda: heard.files, heard.changed, every=lambda: 0.01)
    task = asyncio.get_running_loop().create_task(watch.run())
    monkeypatch.setattr("gateway.watch._AGAIN", 0.0)
    await until(lambda: "not told by the system: no space left" in caplog.text)
    file.write_text("two")
    assert await heard.next() is Notice.POLL
    assert caplog.text.count("not told by the system") == 1
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_could_not_be_read_whole_is_read_again_with_a_look_and_not_without_end(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("one")
    heard, asked = Heard(file), 0

    def due() -> bool:
        nonlocal asked
        asked += 1
        return asked in (3, 4)

    watch = Watch(
        lambda: heard.files, heard.changed, every=lambda: 0.01, listens=lambda: False,
        read=lambda: {file: stamp(b"one")}, due=due,
    )  # fmt: skip
    task = asyncio.get_running_loop().create_task(watch.run())
    await until(lambda: asked > 6)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert heard.told == [Notice.POLL] * 2


async def test_what_changed_between_being_read_and_the_first_look_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    file.write_text("two")
    heard = Heard(file)
    read = {file: stamp(b"one")}
    async with watching(heard, read=lambda: read):
        assert await heard.next() is Notice.WATCH
        assert heard.told == [Notice.WATCH]


async def test_a_file_that_came_before_the_first_look_was_not_read(tmp_path: Path) -> None:
    file, late = tmp_path / "gateway.yaml", tmp_path / "late.yaml"
    file.write_text("one")
    late.write_text("one")
    heard = Heard(file, late)
    async with watching(heard, read=lambda: {file: stamp(b"one")}):
        await heard.next()


async def test_what_was_read_counts_and_not_what_was_there_before_or_after(tmp_path: Path) -> None:
    """The file goes from one to two and back while it is read: two was read, for as long as one is there."""
    file = tmp_path / "gateway.yaml"
    file.write_text("zero")
    heard = Heard(file)
    read = {file: stamp(b"zero")}
    twice = asyncio.Event()

    async def changed(told: Notice) -> None:
        if not heard.told:
            read[file] = stamp(b"two")
        else:
            read[file] = stamp_of(file)
            twice.set()
        await Heard.changed(heard, told)

    heard.changed = changed  # type: ignore[method-assign]  # for this one
    async with watching(heard, read=lambda: read):
        file.write_text("one")
        async with asyncio.timeout(WAIT):
            await twice.wait()
    assert len(heard.told) == 2


async def test_what_another_read_since_is_not_read_again(tmp_path: Path) -> None:
    file, other = tmp_path / "gateway.yaml", tmp_path / "other"
    file.write_text("one")
    other.write_text("one")
    heard = Heard(file, other)
    read = {file: stamp(b"one"), other: stamp(b"one")}
    async with watching(heard, read=lambda: read):
        read[file] = stamp(b"two")
        file.write_text("two")
        other.write_text("two")
        await heard.next()
        read[other] = stamp(b"two")
    assert len(heard.told) == 1
