"""Tasks of others on an agent, and the agent's errors, neither hide nor show anything in lists."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from gateway.a2a.agent_error import AgentError, read_jsonrpc
from gateway.a2a.call import Call
from gateway.a2a.dialect import Version
from gateway.a2a.fault import BadParams, UpstreamProtocol
from gateway.proxy.list_tasks import AgentFailed
from gateway.upstream.upstream import AnswerTooLong
from tests.a2a.dialects import asked, hub_params
from tests.a2a.lists import JSONRPC, listed, page_of
from tests.support.shared_agent import WORKING, SharedAgent, answered, counting, crowd, ids, page, task_of
from tests.table import for_each


def broken(owner: str) -> Callable[[Call], Awaitable[bytes]]:
    async def ask(call: Call) -> bytes:
        unread = task_of(owner, f"{owner}-1")
        unread["status"] = {
            "state": WORKING,
            "message": {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": 7}]},
        }
        return page_of(JSONRPC, [unread, task_of("acme", "acme-2")])

    return ask


def test_a_task_of_anothers_that_nobody_can_read_hides_none() -> None:
    assert ids(page(listed(), broken("globex"))) == ["acme-2"]


def test_a_task_of_ones_own_that_nobody_can_read_is_the_agents_fault() -> None:
    with pytest.raises(UpstreamProtocol) as caught:
        answered(listed(), broken("acme"))
    assert "status.message.parts[0].text" in caught.value.detail


@dataclass
class Verbose(SharedAgent):
    """Its tasks are so long that its answer is too, where it has more than `fit`."""

    fit: int = 3

    async def ask(self, call: Call) -> bytes:
        params = hub_params(asked(call))
        if params["pageSize"] > self.fit:
            self.asked.append((params.get("pageToken", ""), params["pageSize"]))
            raise AnswerTooLong(1)
        return await SharedAgent.ask(self, call)


def test_a_task_that_is_too_long_by_itself_is_the_agents_fault() -> None:
    with pytest.raises(AnswerTooLong):
        answered(listed(), Verbose(crowd("globex"), fit=0).ask)


# ---- What the agent complains of -------------------------------------------------------------------------------------


def error_of(code: int, message: str) -> AgentError:
    raw = f'{{"code":{code},"message":"{message}","data":[{{"@type":"x","token":"{message}"}}]}}'
    error = read_jsonrpc(raw.encode(), Version.V1_0)
    assert error is not None
    return error


@dataclass
class Complaining(SharedAgent):
    """It repeats the token that it has a complaint about, as a2a-python does."""

    code: int = -32602
    good: int = 0

    async def ask(self, call: Call) -> bytes:
        if len(self.asked) < self.good:
            return await SharedAgent.ask(self, call)
        token = hub_params(asked(call)).get("pageToken", "")
        raise AgentFailed(error_of(self.code, f"Invalid page token: {token}"))


def test_an_agent_that_does_not_take_its_token_any_more_is_told_as_a_token_that_is_none() -> None:
    first = page(listed(pageSize=1), SharedAgent(crowd("acme", "globex", "acme")).ask, counting(2))
    with pytest.raises(BadParams) as caught:
        answered(listed(pageToken=first["nextPageToken"]), Complaining([]).ask)
    assert caught.value.message == "pageToken is not of this list: begin with the first page"


def test_an_agent_that_does_not_take_the_token_that_it_just_gave_is_at_fault() -> None:
    with pytest.raises(UpstreamProtocol) as caught:
        answered(listed(pageSize=2), Complaining(crowd(*["globex"] * 9), good=1).ask)
    assert "globex" not in caught.value.message


@for_each("code", [-32603, -32001, -32004, -31429, -31413, 42])
def test_no_complaint_about_a_token_repeats_it(code: int) -> None:
    with pytest.raises(AgentFailed) as caught:
        answered(listed(pageSize=2), Complaining(crowd(*["globex"] * 9), code=code, good=1).ask)
    assert caught.value.error.code == code
    assert "globex" not in repr(caught.value.error)
