"""What the kernel tells of, and what it is not asked to tell."""

import asyncio
import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.inotify import Inotify
from tests.doubles.scripted import WAIT

pytestmark = [pytest.mark.anyio, pytest.mark.skipif(sys.platform != "linux", reason="only Linux has inotify")]


@pytest.fixture
def inotify() -> Iterator[Inotify]:
    told = Inotify()
    yield told
    told.close()


async def news(inotify: Inotify) -> None:
    """Wait until something is told, and take it."""
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(inotify.fileno(), told.set)
    try:
        async with asyncio.timeout(WAIT):
            await told.wait()
    finally:
        loop.remove_reader(inotify.fileno())
    assert inotify.read()


async def test_what_is_written_to_an_open_neighbour_is_not_told(tmp_path: Path, inotify: Inotify) -> None:
    """So the gateway's own state, beside its configuration, wakes nobody with every call."""
    file, state = tmp_path / "gateway.yaml", tmp_path / "state.db"
    file.write_text("one")
    with state.open("ab", buffering=0) as writing:
        inotify.watch([tmp_path], [file])
        for _ in range(100):
            writing.write(b"an entry")
        assert not inotify.read()
    await news(inotify)


@pytest.mark.parametrize("how", ["made", "put in its place", "removed", "closed", "its rights"])
async def test_what_a_folder_tells(tmp_path: Path, inotify: Inotify, how: str) -> None:
    file, other = tmp_path / "gateway.yaml", tmp_path / "other"
    other.write_text("other")
    if how != "made":
        file.write_text("one")
    inotify.watch([tmp_path], [])
    match how:
        case "made" | "closed":
            file.write_text("two")
        case "put in its place":
            other.rename(file)
        case "removed":
            file.unlink()
        case _:
            file.chmod(0o600)
    await news(inotify)
    assert not inotify.read()


async def test_each_write_to_a_file_itself_is_told(tmp_path: Path, inotify: Inotify) -> None:
    file = tmp_path / "gateway.yaml"
    with file.open("ab", buffering=0) as writing:
        inotify.watch([], [file, tmp_path / "missing", file / "below"])
        writing.write(b"two")
        await news(inotify)


async def test_a_file_that_is_a_folder_as_well_tells_what_both_tell(tmp_path: Path, inotify: Inotify) -> None:
    inotify.watch([tmp_path], [tmp_path])
    (tmp_path / "file").touch()
    await news(inotify)


def test_a_folder_that_is_not_there_cannot_be_watched(tmp_path: Path, inotify: Inotify) -> None:
    with pytest.raises(FileNotFoundError):
        inotify.watch([tmp_path / "missing"], [])
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        inotify.watch([tmp_path / "file"], [])


def test_it_is_closed_once_and_also_where_nobody_does(inotify: Inotify) -> None:
    inotify.close()
    inotify.close()
    left = Inotify()
    file = left.fileno()
    del left
    gc.collect()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file)
