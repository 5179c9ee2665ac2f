"""`a2a-gateway state`: what is remembered is counted, erased and copied, in whatever it is kept."""

import json
import socket
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.commands.output import CommandFailed
from gateway.commands.state import (
    Copied,
    StatePlace,
    as_table,
    configured_state,
    erase,
    figures,
    migrate,
    rotate_key,
    state_from_url,
)
from gateway.push.signing import Signer
from gateway.tasks.key_ring import CARDS, NOTIFICATIONS, REFRESH, KeyRing
from gateway.tasks.ledger import make_store
from gateway.tasks.state_url import StateUrl, read_state
from gateway.tasks.store import Figures, Note, Observed, Owner, Store
from tests.support.redis_server import needs_redis, redis_server
from tests.table import for_each

pytestmark = pytest.mark.anyio

# Entries are kept by the clock: what is written in a test is of today.
NOW = 2_000_000_000
ACME, GLOBEX = Owner("acme", "ann"), Owner("globex")


@asynccontextmanager
async def opened(place: StatePlace) -> AsyncIterator[Store]:
    store = make_store(place.state)
    await store.open()
    try:
        yield store
    finally:
        await store.aclose()


def sqlite(folder: Path) -> Iterator[tuple[StatePlace, StatePlace]]:
    yield StatePlace(StateUrl("sqlite", folder / "a.db")), StatePlace(StateUrl("sqlite", folder / "b.db"))


def redis() -> Iterator[tuple[StatePlace, StatePlace]]:
    with redis_server() as server:
        yield StatePlace(read_state(f"{server.url}/0")), StatePlace(read_state(f"{server.url}/1"))


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=needs_redis)])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[StatePlace, StatePlace]]:
    """Two places that are empty."""
    yield from sqlite(tmp_path) if request.param == "sqlite" else redis()


async def fill(place: StatePlace, *, tasks: int = 2, notes: tuple[Note, ...] = ()) -> None:
    """Three tasks of acme, one of them over, and some of globex."""
    async with opened(place) as store:
        for number, state in enumerate(("working", "submitted", "completed")):
            sighting = Observed(ACME, f"a{number}", "chat", state, dialect="jsonrpc/1.0", now=NOW)
            await store.record("crm", sighting)
        for number in range(tasks):
            await store.record("billing", Observed(GLOBEX, f"g{number}", f"c{number}", "working", now=NOW))
        for note in (Note("alias", "one", b"1", "acme"), *notes):
            await store.keep(note)


async def holds(place: StatePlace) -> list[tuple[str, int, int, int, int]]:
    return [(one.tenant, one.tasks, one.open, one.contexts, one.notes) for one in await figures(place)]


# ---- rotate-key ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("drops", [False, True])
async def test_another_key_signs_and_gateways_find_it(places: tuple[StatePlace, StatePlace], *, drops: bool) -> None:
    async with opened(places[0]) as store:
        clock = [time.time()]
        signer = Signer(store, "https://gateway.example", wall=lambda: clock[0])
        before = (await signer.jwks())["keys"][0]["kid"]
        rotated = await rotate_key(places[0], NOTIFICATIONS, clock[0], drops=drops)
        clock[0] = rotated.at + REFRESH
        assert [key["kid"] for key in (await signer.jwks())["keys"]][:2] == [rotated.kid, *([] if drops else [before])]


async def test_keys_of_cards_and_of_notifications_are_rotated_apart(places: tuple[StatePlace, StatePlace]) -> None:
    async with opened(places[0]) as store:
        clock = [time.time()]
        rings = {use: KeyRing(store, use, wall=lambda: clock[0]) for use in (CARDS, NOTIFICATIONS)}
        before = {use: [key.public["kid"] for key in await ring.published()] for use, ring in rings.items()}
        assert before[CARDS] != before[NOTIFICATIONS]
        rotated = await rotate_key(places[0], CARDS, clock[0], drops=True)
        clock[0] = rotated.at + REFRESH
        after = {use: [key.public["kid"] for key in await ring.published()] for use, ring in rings.items()}
        assert after == {CARDS: [rotated.kid], NOTIFICATIONS: before[NOTIFICATIONS]}


async def test_the_audit_log_tells_of_another_key(tmp_path: Path) -> None:
    place = StatePlace(StateUrl("sqlite", tmp_path / "a.db"), audit=tmp_path / "audit.jsonl")
    await fill(place)
    rotated = await rotate_key(place, CARDS, NOW, drops=True)
    told = json.loads((tmp_path / "audit.jsonl").read_text())
    assert (told["event"], told["use"], told["kid"], told["drops"]) == ("key_rotated", "cards", rotated.kid, True)


# ---- stats and erase -----------------------------------------------------------------------------------------------


async def test_records_are_counted_by_tenant(places: tuple[StatePlace, StatePlace]) -> None:
    await fill(places[0])
    assert await holds(places[0]) == [("acme", 3, 2, 1, 1), ("globex", 2, 2, 2, 0)]


async def test_a_tenant_is_forgotten_and_no_other(places: tuple[StatePlace, StatePlace]) -> None:
    await fill(places[0])
    assert await erase(places[0], "acme") == 5
    assert await holds(places[0]) == [("globex", 2, 2, 2, 0)]
    assert await erase(places[0], "acme") == 0


async def test_erasures_are_audited(tmp_path: Path) -> None:
    place = StatePlace(StateUrl("sqlite", tmp_path / "a.db"), audit=tmp_path / "audit.jsonl")
    await fill(place)
    await erase(place, "acme")
    (line,) = (tmp_path / "audit.jsonl").read_text().splitlines()
    told = json.loads(line)
    assert (told["event"], told["tenant"], told["entries"]) == ("state_erased", "acme", 5)


async def test_no_change_is_made_if_the_audit_log_fails(tmp_path: Path) -> None:
    place = StatePlace(StateUrl("sqlite", tmp_path / "a.db"), audit=tmp_path / "no/audit.jsonl")
    await fill(place)
    with pytest.raises(CommandFailed, match="nothing was done"):
        await erase(place, "acme")
    assert len(await holds(place)) == 2


# ---- migrate -------------------------------------------------------------------------------------------------------


async def test_everything_is_copied_once(places: tuple[StatePlace, StatePlace]) -> None:
    source, target = places
    await fill(source, tasks=300, notes=tuple(Note("hook", str(number), b"x", "globex") for number in range(510)))
    assert await migrate(source, target, NOW) == Copied(604, 604, 511, 511)
    assert await holds(target) == await holds(source) == [("acme", 3, 2, 1, 1), ("globex", 300, 300, 300, 510)]
    assert await migrate(source, target, NOW) == Copied(604, 0, 511, 0)


async def test_a_task_keeps_all_that_is_known_of_it(places: tuple[StatePlace, StatePlace]) -> None:
    source, target = places
    due = Note("delivery", "d1", b"body", "acme", group="a0", due=NOW + 5.0)
    await fill(source, notes=(due,))
    await migrate(source, target, NOW)
    async with opened(source) as old, opened(target) as new:
        for scope, ids in (("crm", ["a0", "a1", "a2"]), ("billing", ["g0"])):
            assert await new.tasks(scope, ids) == await old.tasks(scope, ids)
        assert await new.context("crm", "chat") == ACME
        assert await new.notes(("", ""), 10) == await old.notes(("", ""), 10)
        assert await new.due("delivery", NOW + 6.0, 10, 1.0) == [("d1", b"body")]


async def test_migration_keeps_existing_records(places: tuple[StatePlace, StatePlace]) -> None:
    source, target = places
    await fill(source)
    async with opened(target) as other:
        await other.record("crm", Observed(GLOBEX, "a0", "chat", "working", now=NOW))
        await other.keep(Note("alias", "one", b"another", "globex"))
        assert await migrate(source, target, NOW) == Copied(8, 6, 1, 0)
        [task] = await other.tasks("crm", ["a0"])
        assert task is not None
        assert task.owner == GLOBEX
        assert await other.note("alias", "one") == b"another"


async def test_notes_that_are_past_their_time_are_left(places: tuple[StatePlace, StatePlace]) -> None:
    source, target = places
    await fill(source, notes=(Note("seal", "s", b"x", until=NOW + 10), Note("seal", "t", b"x", until=NOW + 20)))
    assert await migrate(source, target, NOW + 10) == Copied(8, 8, 2, 2)


async def test_a_place_with_a_secret_of_its_own_is_refused_unless_that_is_meant(
    places: tuple[StatePlace, StatePlace],
) -> None:
    source, target = places
    await fill(source, notes=(Note("secret", "ledger", b"old"), Note("secret", "push", b"same")))
    async with opened(target) as other:
        await other.keep(Note("secret", "ledger", b"new"))
        await other.keep(Note("secret", "push", b"same"))
        with pytest.raises(CommandFailed, match=r"has a secret of its own \(ledger\)"):
            await migrate(source, target, NOW)
        assert await other.tasks("crm", ["a0"]) == [None]
        assert (await migrate(source, target, NOW, force=True)).new_entries == 8
        assert await other.note("secret", "ledger") == b"new"
        await other.keep(Note("secret", "ledger", b"old"))
        assert await migrate(source, target, NOW) == Copied(8, 0, 3, 0)


async def test_a_place_is_not_copied_onto_itself(tmp_path: Path) -> None:
    one = StatePlace(StateUrl("sqlite", tmp_path / "a.db"))
    other = StatePlace(StateUrl("sqlite", tmp_path / "x/../a.db"))
    with pytest.raises(CommandFailed, match="both are sqlite://") as failed:
        await migrate(one, other, NOW)
    assert failed.value.code == 2


# ---- places that are not there -------------------------------------------------------------------------------------


async def test_commands_on_a_missing_state_create_no_file(tmp_path: Path) -> None:
    missing = StatePlace(StateUrl("sqlite", tmp_path / "a.db"), place="gateway.yaml:2")
    target = StatePlace(StateUrl("sqlite", tmp_path / "b.db"))
    for asking in (figures(missing), erase(missing, "acme"), migrate(missing, target, NOW)):
        with pytest.raises(CommandFailed, match=r"^gateway\.yaml:2: there is no "):
            await asking
    assert not any(place.state.path.exists() for place in (missing, target))


async def test_the_memory_of_another_process_is_out_of_reach(tmp_path: Path) -> None:
    memory = StatePlace(StateUrl("memory"))
    file = StatePlace(StateUrl("sqlite", tmp_path / "a.db"))
    await fill(file)
    for asking in (figures(memory), erase(memory, "acme"), migrate(memory, file, NOW), migrate(file, memory, NOW)):
        with pytest.raises(CommandFailed, match="memory of the gateway's process"):
            await asking


async def test_a_file_of_another_program_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(b"no database at all, but some text\n" * 100)
    with pytest.raises(CommandFailed, match=r"^gateway\.yaml:2: "):
        await figures(StatePlace(StateUrl("sqlite", tmp_path / "a.db"), place="gateway.yaml:2"))
    assert (tmp_path / "a.db").read_bytes().startswith(b"no database")


async def test_a_redis_that_does_not_answer_is_told_by_its_name(tmp_path: Path) -> None:
    file = StatePlace(StateUrl("sqlite", tmp_path / "a.db"))
    await fill(file)
    with socket.socket() as taken:
        # Nobody listens here, and nobody else can.
        taken.bind(("127.0.0.1", 0))
        url = f"redis://:hunter2@127.0.0.1:{taken.getsockname()[1]}"
        gone = StatePlace(read_state(url))
        for asking in (figures(gone), migrate(file, gone, NOW), migrate(gone, file, NOW)):
            with pytest.raises(
                CommandFailed, match=r"^redis://127\.0\.0\.1:[0-9]+: it cannot be used now \(redis: Down, Conn"
            ) as failed:
                await asking
            assert "hunter2" not in failed.value.message


# ---- how places are named ------------------------------------------------------------------------------------------


def test_a_place_is_typed_as_the_configuration_writes_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert state_from_url("sqlite://a.db", {}).state == StateUrl("sqlite", tmp_path / "a.db")
    assert state_from_url("${URL}", {"URL": "redis://:pw@h"}).state == StateUrl("redis", url="redis://:pw@h")
    assert state_from_url("memory", {}).state.kind == "memory"


@for_each(
    ("text", "told"),
    [
        ("mysql://user:hunter2@h", "a state URL starts with mysql:, and there is no such store"),
        ("hunter2", "a state URL names no store"),
        ("${NONE}", "the environment variable NONE is not set"),
    ],
)
def test_a_malformed_state_url_is_not_repeated(text: str, told: str) -> None:
    with pytest.raises(CommandFailed) as failed:
        state_from_url(text, {})
    assert failed.value.message.startswith(told)
    assert "→" in failed.value.message
    assert "hunter2" not in failed.value.message
    assert failed.value.code == 2


def test_a_configuration_says_where_and_in_which_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "etc/gateway.yaml"
    path.parent.mkdir()
    agents = "agents: { a: http://127.0.0.1:1 }\n"
    path.write_text(f"version: 1\ngateway: {{ state: sqlite://a.db }}\nobserve: {{ audit: audit.jsonl }}\n{agents}")
    place = configured_state(path, {})
    assert place.state == StateUrl("sqlite", path.parent / "a.db")
    assert (place.place, place.audit) == (f"{path}:2", path.parent / "audit.jsonl")
    path.write_text(f"version: 1\nobserve: {{ audit: '-' }}\n{agents}")
    place = configured_state(path, {"STATE_DIRECTORY": "/var/lib/a2a"})
    assert place == StatePlace(StateUrl("sqlite", Path("/var/lib/a2a/a2a-gateway.db")))
    path.write_text("version: 2\n")
    with pytest.raises(CommandFailed, match="version"):
        configured_state(path, {})


# ---- how it is told ------------------------------------------------------------------------------------------------

HELD = [Figures("acme", 12, 3, 2, 1), Figures("globex-industries", 1, 0, 0, 0)]


def test_figures_stand_in_columns() -> None:
    assert as_table(HELD, "sqlite:///a.db").splitlines() == [
        "sqlite:///a.db",
        "tenant             tasks  open  contexts  notes",
        "acme                  12     3         2      1",
        "globex-industries      1     0         0      0",
    ]
    assert as_table([], "memory") == "memory: no entries"
    assert as_table([Figures("", 0, 0, 0, 2)], "x").splitlines()[2].startswith("-  ")
