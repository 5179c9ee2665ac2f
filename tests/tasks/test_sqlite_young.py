"""What has arrived: counted as a table would count it."""

from msgspec.structs import replace

from gateway.tasks.sqlite_young import Entry, Young
from gateway.tasks.store import Owner, Task

TASK = Entry(1, "crm", "t1", "acme", "ann", "c1", "working", "r1", "jsonrpc/1.0", 5, 6)


def test_it_tells_what_it_was_told() -> None:
    assert TASK.owner == Owner("acme", "ann")
    assert TASK.task == Task(Owner("acme", "ann"), "c1", "working", "r1", "jsonrpc/1.0", 5, 6)


def test_tasks_are_counted_once_by_what_they_are_now() -> None:
    young = Young()
    for entry in (TASK, TASK, replace(TASK, id="t2", principal="bob"), replace(TASK, kind=0, id="c1")):
        young.put(entry)
    assert young.open_tasks("acme") == 2
    assert young.open_tasks("globex") == 0
    young.put(replace(TASK, state="completed"))
    young.put(replace(TASK, state="completed", seen=9))
    assert young.open_tasks("acme") == 1
    counts = [
        young.count("crm", Owner("acme", who), context) for who in ("", "ann", "eve") for context in ("", "c1", "c")
    ]
    assert counts == [2, 2, 0, 1, 1, 0, 0, 0, 0]
    assert young.count("erp", Owner("acme"), "") == young.count("crm", Owner("globex"), "") == 0


def test_news_is_what_came_since_somebody_asked() -> None:
    young = Young()
    young.put(TASK)
    young.news = {}
    young.put(replace(TASK, id="t2"))
    again = replace(TASK, id="t2", seen=9)
    young.put(again)
    assert list(young.news.values()) == [again]
