"""The backends of `by_tenant."*"`: one for each tenant of the file that may call the agent, as if each were written.

`{tenant}` stands for the tenant in the host of a URL and in the paths of `${file:…}`. Only a DNS label can stand there.
It changes neither port nor path, nor the host beyond its label, and two tenants never have the same host.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gateway.config.problem import KeyPath, Problem
from gateway.config.secrets import Interpolation, is_secret
from gateway.config.yaml import Marks, Source, Value
from gateway.principal import ANONYMOUS_TENANT
from gateway.telemetry.log_output import printable

TENANT = "{tenant}"
EVERY = "*"
UNAVAILABLE = "unavailable"
"""Placeholder for a credential that cannot be read; it is never sent."""

P = TypeVar("P")

_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_URL = re.compile(r"(?:https?|grpcs?)://(?P<host>[A-Za-z0-9.{}-]+)(?::[0-9]+)?(?:/[^{}]*)?")
_HOST = re.compile(r"(?:[a-z0-9.-]|\{tenant\})+", re.IGNORECASE)
_LONGEST_LABEL = 63
_AS_HOST = "write {tenant} in its host, before a fixed end: https://{tenant}.agents.internal"


@dataclass(slots=True)
class Expansion:
    """The result of writing out the templates of all agents.

    Attributes:
        marks: The places, each of a tenant's backend at the template.
        unavailable: Why the credential of a tenant's backend cannot be read, by the path of the backend.
        source: The secrets that were filled in, to be masked.
    """

    marks: Marks
    problems: list[Problem] = field(default_factory=list)
    unavailable: dict[KeyPath, str] = field(default_factory=dict)
    source: Source = field(default_factory=lambda: Source("(tenants)", None, Marks(), (), filled={}, secret={}))


def expanded(tree: dict[str, Value], marks: Marks, interpolation: Interpolation) -> Expansion:
    """Replace the template of each agent in the tree by the backends of its tenants."""
    expansion = Expansion(marks)
    agents = tree.get("agents")
    for name, agent in agents.items() if isinstance(agents, dict) else ():
        by_tenant = agent.get("by_tenant") if isinstance(agent, dict) else None
        if isinstance(agent, dict) and isinstance(by_tenant, dict) and EVERY in by_tenant:
            _Agent(name, agent, by_tenant, interpolation, expansion).write_out(tree.get("tenants"))
    return expansion


@dataclass
class _Agent:
    name: str
    agent: dict[str, Value]
    by_tenant: dict[str, Value]
    interpolation: Interpolation
    expansion: Expansion

    def __post_init__(self) -> None:
        self._at: KeyPath = ("agents", self.name, "by_tenant")
        self._template = self.by_tenant.pop(EVERY)
        self._folder = self.expansion.marks.folder((*self._at, EVERY))

    def write_out(self, tenants: Value) -> None:
        wrong = [url for url in _urls(self._template) if not self._is_template(url)]
        if wrong or not list(_urls(self._template)):
            fact = "`*` is the backend of every tenant, and it would be the same for all"
            self._problem((*self._at, EVERY), fact, _AS_HOST)
            return
        own = [name for name in _tenants(tenants, self.name, self.agent) if name not in self.by_tenant]
        if not own and not self.by_tenant:
            fact = "no tenant of `tenants` may call the agent"
            self._problem((*self._at, EVERY), fact, "name the agent in `tenants.X.agents`, or the tenant in `allow`")
        written = self._marks_with_copies(own)
        for tenant in own:
            if _LABEL.fullmatch(tenant) is None:
                fact = f"{printable(tenant)!r} is no DNS label, and `by_tenant.*` of {self.name!r} needs one"
                remedy = f"write a backend for it in `agents.{self.name}.by_tenant`, or rename it to a-z, 0-9 and -"
                self._problem(("tenants", tenant), fact, remedy)
            else:
                self.by_tenant[tenant] = self._entry(tenant)
        self.expansion.marks = written

    def _is_template(self, url: object) -> bool:
        """Return whether the URL has `{tenant}` in its host only, before a suffix that no tenant can change."""
        text, faults = self.interpolation.fill(url, self._folder) if isinstance(url, str) else ("", [])
        for fact, remedy in faults:
            self._problem((*self._at, EVERY), fact, remedy)
        found = _URL.fullmatch(text)
        host = "" if found is None else found["host"]
        last = host.rpartition(".")[2].replace(TENANT, "")
        return TENANT in host and _HOST.fullmatch(host) is not None and re.search("[A-Za-z]", last) is not None

    def _entry(self, tenant: str) -> Value:
        """Return the backend of a tenant; where a credential cannot be read, without one."""
        at: KeyPath = (*self._at, tenant)
        faults: list[tuple[KeyPath, str, str]] = []
        entry = self._filled(self._template, tenant, at, faults)
        auth: KeyPath = (*at, "upstream_auth")
        for path, fact, remedy in faults:
            if path[: len(auth)] != auth:
                self._problem(path, fact, remedy)
            elif isinstance(entry, dict):
                self.expansion.unavailable[at] = fact
                entry["upstream_auth"] = {"bearer": UNAVAILABLE}
                warning = f"calls of tenant {tenant!r} fail, for its credential cannot be read: {fact}"
                self._problem(path, warning, remedy, "warning")
        for url in _urls(entry):
            found = _URL.fullmatch(str(url))
            if found is not None and any(len(label) > _LONGEST_LABEL for label in found["host"].split(".")):
                fact = f"with it, a host of {self.name!r} has a label of more than {_LONGEST_LABEL} characters"
                self._problem(("tenants", tenant), fact, "shorten one of them")
        return entry

    def _filled(self, value: Value, tenant: str, at: KeyPath, faults: list[tuple[KeyPath, str, str]]) -> Value:
        if isinstance(value, dict):
            return {key: self._filled(below, tenant, (*at, key), faults) for key, below in value.items()}
        if isinstance(value, list):
            return [self._filled(below, tenant, (*at, number), faults) for number, below in enumerate(value)]
        if not isinstance(value, str) or not ("${" in value or TENANT in value):
            return value
        text = value.replace(TENANT, tenant)
        filled, wrong = self.interpolation.fill(text, self._folder)
        if not wrong and not filled.strip():
            wrong = [(f"{printable(text)!r} is empty", "write its value")]
        faults += [(at, fact, remedy) for fact, remedy in wrong]
        if filled != text:
            kept: Any = self.expansion.source.secret if is_secret(at, filled) else self.expansion.source.filled
            kept.setdefault(filled, text)
        return filled

    def _marks_with_copies(self, tenants: Iterable[str]) -> Marks:
        """Return the places, with those of the template for each tenant."""
        marks, above = self.expansion.marks, (*self._at, EVERY)
        shown = [(*self._at, name) for name in tenants]

        def copied(places: Mapping[KeyPath, P]) -> dict[KeyPath, P]:
            own = {path[len(above) :]: place for path, place in places.items() if path[: len(above)] == above}
            return {**places, **{(*at, *path): place for at in shown for path, place in own.items()}}

        return Marks(copied(marks.keys), copied(marks.values), copied(marks.written), marks.start)

    def _problem(self, path: KeyPath, fact: str, remedy: str, severity: Any = "error") -> None:  # noqa: ANN401
        marks = self.expansion.marks
        template = (*self._at, EVERY, *path[len(self._at) + 1 :]) if path[: len(self._at)] == self._at else path
        self.expansion.problems.append(Problem(marks.place(template), marks.find(template), fact, remedy, severity))


def _urls(entry: Value) -> Iterator[Value]:
    """Yield the URL of each replica of a backend, in each form of `backend`; None if a replica has no URL."""
    backend = entry.get("backend") if isinstance(entry, dict) else entry
    for replica in backend if isinstance(backend, list) else [backend]:
        yield replica.get("url") if isinstance(replica, dict) else replica


def _tenants(tenants: Value, agent: str, written: dict[str, Value]) -> list[str]:
    """Return the tenants of the file that may call an agent, as `routes.reach`, and those that these act for."""
    named = tenants if isinstance(tenants, dict) else {}
    allow = None if written.get("allow") is None else _texts(written["allow"])
    callers: set[str] = set()
    for name, tenant in named.items():
        listed = tenant.get("agents") if isinstance(tenant, dict) else tenant
        lets_in = allow is None or bool(allow & {name, EVERY})
        asks = allow is not None if listed is None else bool(_texts(listed) & {agent, EVERY})
        if lets_in and asks:
            callers |= {name} | (_texts(tenant.get("act_for")) if isinstance(tenant, dict) else set())
    return [name for name in named if name in callers - {EVERY, ANONYMOUS_TENANT}]


def _texts(value: Value) -> set[str]:
    return {each for each in (value if isinstance(value, list) else [value]) if isinstance(each, str)}
