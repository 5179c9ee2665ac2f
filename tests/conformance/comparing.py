"""Judgement of a result through the gateway by the results of the direct runs.

A pair of one dialect must get what it got directly. A pair of two generations has two measures: what this agent gave
to clients of its own generation, and what this client got from agents of its own; either will do.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from tests.conformance.normal import (
    ERRORS,
    ERRORS_0_1,
    STATUSES_0_3,
    STATUSES_GRPC,
    Tree,
    meanings,
    reduced,
    same_error,
    without_opening,
    without_quirks,
)
from tests.conformance.running import Told
from tests.conformance.software import CLIENTS, EVERY_AGENT, Software

Direct = Mapping[str, Told]
"""Results of the direct runs, by `name_of` the pair."""


class Outcome(Enum):
    """The verdict on one operation of one pair."""

    OK = "ok"
    DIFFERS = "differs"
    IMPOSSIBLE = "impossible"
    """The agent's generation knows nothing of it, and the client is told so by the right error."""
    FAILS_DIRECTLY = "fails directly"
    """It comes to nothing with software of the same generation either."""
    ABSENT = "absent"
    """The client's SDK has no such call."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """One operation of one pair.

    Attributes:
        got: The result through the gateway.
        wanted: The direct result, the closest measure.
        why: Why it is not possible.
    """

    operation: str
    outcome: Outcome
    got: Tree
    wanted: Tree | None = None
    why: str = ""


NAMED = {*ERRORS.values(), *ERRORS_0_1.values(), *STATUSES_0_3, *STATUSES_GRPC}

NO_LIST = "ListTasks came with 1.0"
NO_STREAM = "the agent's card offers no streaming"
NO_PUSH = "the agent's card offers no push notifications"
NO_CONFIGS = "0.1 has one push configuration for each task, without an id, and cannot list or delete it"
NO_CARD = "0.1 has no extended card"
QUIRKS = "the SDKs of 0.3 disagree on files but over JSON-RPC: Python encodes them twice, JavaScript once, unnamed"

UNSUPPORTED = frozenset(
    {
        "UnsupportedOperation",
        "MethodNotFound",
        "StreamingNotSupported",
        # Errors of SDKs that do not show the error itself.
        "HTTP 400",
        "HTTP 404",
        "HTTP 501",
        "the SDK's own JSONRPCError",
    }
)
NO_PUSH_SAID = UNSUPPORTED | {"PushNotificationNotSupported"}
NO_CARD_SAID = UNSUPPORTED | {"ExtendedAgentCardNotConfigured"}


def name_of(agent: Software, client: Software) -> str:
    """The name of a pair in `direct.json`."""
    return f"{agent.key} < {client.key}"


def impossible(operation: str, agent: Software, offered: Tree) -> tuple[str, frozenset[str]] | None:
    """Why an agent cannot do it for a client of another generation, and the errors that say so.

    Args:
        offered: The agent's public card, in normal form.
    """
    streams = operation.startswith(("stream", "subscribe", "error_stream", "error_subscribe"))
    if operation == "list_tasks" and agent.version != "1.0":
        return NO_LIST, UNSUPPORTED
    if streams and not offered["streaming"]:
        return NO_STREAM, UNSUPPORTED | {"the SDK's own ValueError", "the SDK's own NotImplementedError"}
    if "push" in operation and not offered["push"]:
        return NO_PUSH, NO_PUSH_SAID
    if operation in ("push_list", "push_delete") and agent.version == "0.1":
        return NO_CONFIGS, NO_PUSH_SAID
    if operation == "extended_card" and agent.version == "0.1":
        return NO_CARD, NO_CARD_SAID
    return None


def judge(agent: Software, client: Software, told: Told, direct: Direct) -> list[Verdict]:
    """Return the verdict on each operation of a pair."""
    measured = replace(client, key=client.like or client.key)
    pair = _Pair(
        agent,
        client,
        direct.get(name_of(agent, client), {}),
        of_agent=[direct[name] for each in CLIENTS if (name := name_of(agent, each)) in direct],
        of_kin=[
            direct[name]
            for each in CLIENTS
            if (each.environment, each.version) == (client.environment, client.version)
            and (name := name_of(agent, each)) in direct
        ],
        elsewhere=list(direct.values()),
        of_client=[
            direct[name] for each in EVERY_AGENT if each.fault is None and (name := name_of(each, measured)) in direct
        ],
    )
    return [_known_fault(pair, pair.verdict(operation, got), told) for operation, got in told.items()]


def _known_fault(pair: "_Pair", verdict: Verdict, told: Told) -> Verdict:
    """A verdict, or why it could not be another one."""
    if verdict.outcome is not Outcome.DIFFERS:
        return verdict
    for software in (pair.agent, pair.client):
        if software.fault is not None and verdict.got.get("error") in software.fault.errors:
            return replace(verdict, outcome=Outcome.IMPOSSIBLE, why=software.fault.why)
    if (
        verdict.operation == "extended_card"
        and pair.agent.version == "0.1"
        and verdict.got.get("events") == told["card"].get("events")
    ):
        got = {"error": "the public card, by its own SDK"}
        return replace(verdict, outcome=Outcome.IMPOSSIBLE, got=got, why=NO_CARD)
    return verdict


@dataclass(frozen=True, slots=True)
class _Pair:
    """One pair and what it is measured by.

    Attributes:
        itself: Its direct results; empty if there are none.
        of_agent: Results of the agent's other direct runs.
        of_kin: Those of them with the same SDK, over whichever binding.
        of_client: Results of the client's.
        elsewhere: All direct runs, for what neither of the two ever comes to by itself.
    """

    agent: Software
    client: Software
    itself: Told
    of_agent: list[Told]
    of_kin: list[Told]
    of_client: list[Told]
    elsewhere: list[Told]

    def verdict(self, operation: str, got: Tree) -> Verdict:
        """Return the verdict on an operation."""
        if "absent" in got:
            return Verdict(operation, Outcome.ABSENT, got, why=got["absent"])
        itself = self.itself.get(operation)
        if itself is not None and itself == got:
            fails = "error" in got and not _refuses(operation)
            return Verdict(operation, Outcome.FAILS_DIRECTLY if fails else Outcome.OK, got)
        if itself is not None and "error" not in itself and not _refuses(operation):
            return Verdict(operation, Outcome.DIFFERS, got, itself)
        oldest = min(self.agent.version, self.client.version)
        of_agent, of_client, elsewhere = (
            [reduced(operation, each, oldest) for each in _measures(operation, runs)]
            for runs in (self.of_agent, self.of_client, self.elsewhere)
        )
        told = reduced(operation, got, oldest)
        measures = [*of_agent, *of_client] or elsewhere
        variants = [told, *(without_opening(told) if self.agent.version != "1.0" else ())]
        if any(_same(variant, each, self.client.version) for variant in variants for each in measures):
            return Verdict(operation, Outcome.OK, got)
        if any(without_quirks(told) == without_quirks(each) for each in measures):
            return Verdict(operation, Outcome.IMPOSSIBLE, {"error": "a file in base64 of base64"}, why=QUIRKS)
        known = impossible(operation, self.agent, self._offered)
        if known is not None and meanings(got.get("error", ""), self.client.version) & known[1]:
            return Verdict(operation, Outcome.IMPOSSIBLE, got, why=known[0])
        if "error" in got and (
            (operation == "error_push_of_unknown" and not self._offered["push"])
            or _fails_directly(operation, of_agent, of_client)
            or self._is_mute(got["error"])
            or (self.of_kin and not _measures(operation, self.of_kin))
        ):
            return Verdict(operation, Outcome.FAILS_DIRECTLY, got)
        return Verdict(operation, Outcome.DIFFERS, told, itself or next(iter(measures), None))

    def _is_mute(self, error: str) -> bool:
        """Whether the client's SDK fails of itself where it is told an error, directly as well."""
        if error in NAMED:
            return False
        return any(told[name].get("error") == error for told in self.of_client for name in told if "error_" in name)

    @property
    def _offered(self) -> Tree:
        """The agent's public card."""
        for told in self.of_agent:
            if "events" in told.get("card", {}):
                offered: Tree = told["card"]["events"][0]["card"]
                return offered
        return {"streaming": True, "push": True}


def _refuses(operation: str) -> bool:
    """Whether an error is what is asked for."""
    return operation.startswith("error")


def _measures(operation: str, runs: list[Told]) -> list[Tree]:
    """Return the results of others, without failures and without errors of pairs that share no dialect."""
    if _refuses(operation):
        runs = [each for each in runs if "error" not in each.get("send_task", {})]
    found = [each[operation] for each in runs if operation in each]
    return [each for each in found if "absent" not in each and (_refuses(operation) or "error" not in each)]


def _fails_directly(operation: str, of_agent: list[Tree], of_client: list[Tree]) -> bool:
    """Whether one of the two never comes to anything, or never says directly which error it is."""
    if _refuses(operation):
        return not any(map(_says_why, of_agent)) or not any(map(_says_why, of_client))
    return not of_agent or not of_client


def _same(got: Tree, wanted: Tree, version: str) -> bool:
    if "error" in got and "error" in wanted:
        return same_error(got["error"], wanted["error"], version)
    return got == wanted


def _says_why(result: Tree) -> bool:
    """Whether it is a result, or an error of A2A; not a failure of the SDK's own."""
    return "error" not in result or result["error"] in NAMED
