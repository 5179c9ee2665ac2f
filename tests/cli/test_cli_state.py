"""`a2a-gateway state`, run as people and scripts run it."""

import asyncio
import socket
from pathlib import Path

from gateway.tasks.ledger import make_store
from gateway.tasks.state_url import StateUrl
from gateway.tasks.store import Observed, Owner
from tests.program import report, run, written

STATE = "version: 1\ngateway: { state: sqlite://state.db }\nagents: { support: http://127.0.0.1:1 }\n"


def remember(folder: Path) -> None:
    """One task of each of two tenants, where the configuration above says."""

    async def meet() -> None:
        store = make_store(StateUrl("sqlite", folder / "state.db"))
        await store.open()
        for tenant in ("acme", "globex"):
            await store.record("support", Observed(Owner(tenant), tenant, "", "working", now=2_000_000_000))
        await store.aclose()

    asyncio.run(meet())


def test_state_counts_records(tmp_path: Path) -> None:
    written(tmp_path, STATE)
    assert "there is no state.db" in run("state", "stats", cwd=tmp_path, code=1).stderr
    assert report(run("state", "stats", "--output", "json", cwd=tmp_path, code=1))["ok"] is False
    remember(tmp_path)
    said = run("state", "stats", cwd=tmp_path).stdout.splitlines()
    assert (said[0], said[2].split()) == ("sqlite://state.db", ["acme", "1", "1", "0", "0"])
    told = report(run("state", "stats", "--state", "sqlite://state.db", "--output", "json", cwd=tmp_path))
    assert [one["tenant"] for one in told["tenants"]] == ["acme", "globex"]
    both = ("state", "stats", "-c", "gateway.yaml", "--state", "memory")
    assert "not both" in run(*both, cwd=tmp_path, code=2).stderr


def test_a_place_that_does_not_answer_is_told_programs_in_json_alone(tmp_path: Path) -> None:
    with socket.socket() as taken:
        # Nobody listens here, and nobody else can.
        taken.bind(("127.0.0.1", 0))
        place = f"redis://127.0.0.1:{taken.getsockname()[1]}"
        told = report(run("state", "stats", "--state", place, "--output", "json", cwd=tmp_path, code=1))
    assert told == {"ok": False, "error": f"{place}: it cannot be used now (redis: Down, ConnectionRefusedError)"}


def test_state_forgets_a_tenant_when_somebody_says_so(tmp_path: Path) -> None:
    written(tmp_path, STATE)
    remember(tmp_path)
    erase = ("state", "erase", "--tenant", "acme")
    assert "--yes" in report(run(*erase, "--output", "json", cwd=tmp_path, code=2))["error"]
    # The secret of the prefixes has no owner; an unset variable must not erase it.
    assert "--tenant is empty" in run("state", "erase", "--tenant", "", "--yes", cwd=tmp_path, code=2).stderr
    refused = run(*erase, cwd=tmp_path, code=1, said=b"n\n")
    assert "erase 1 task (1 open), 0 contexts, 0 notes of 'acme'?" in refused.stdout
    run(*erase, cwd=tmp_path, code=1)
    agreed = run(*erase, cwd=tmp_path, said=b"y\n")
    assert agreed.stdout.endswith("Erased: 1 task (1 open), 0 contexts, 0 notes.\n")
    assert run(*erase, cwd=tmp_path).stdout == "Nothing to erase of 'acme'.\n"
    erased = report(run("state", "erase", "--tenant", "globex", "--yes", "--output", "json", cwd=tmp_path))
    assert erased == {"ok": True, "tenant": "globex", "erased": 1}
    assert "no entries" in run("state", "stats", cwd=tmp_path).stdout


def test_state_has_another_key_sign(tmp_path: Path) -> None:
    written(tmp_path, STATE)
    remember(tmp_path)
    rotated = run("state", "rotate-key", cwd=tmp_path).stdout
    assert "signs notifications in a minute; the previous key stays valid" in rotated
    told = report(run("state", "rotate-key", "--now", "--output", "json", cwd=tmp_path))
    assert (told["ok"], told["dropped"], told["kid"] in rotated) == (True, True, False)
    assert "memory" in run("state", "rotate-key", "--state", "memory", cwd=tmp_path, code=1).stderr


def test_state_is_copied_to_another_place(tmp_path: Path) -> None:
    remember(tmp_path)
    migrate = ("state", "migrate", "sqlite://state.db", "sqlite://other.db")
    assert "2 of 2 entries copied" in run(*migrate, cwd=tmp_path).stdout
    told = report(run(*migrate, "--output", "json", cwd=tmp_path))
    assert told == {"ok": True, "entries": 2, "new_entries": 0, "notes": 0, "new_notes": 0}
    assert "both are" in run("state", "migrate", "sqlite://state.db", "sqlite:state.db", cwd=tmp_path, code=2).stderr
    said = run("state", "migrate", "sqlite://state.db", "redis://user:hunter2", cwd=tmp_path, code=2).stderr
    assert "a state URL is no URL" in said
    assert "hunter2" not in said
