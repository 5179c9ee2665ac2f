"""Two tenants share agents that tell anybody of any task, and nothing leaks: over JSON-RPC and HTTP+JSON."""

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import pytest
from a2a.client import ClientConfig, create_client
from a2a.types import GetTaskRequest, ListTasksRequest

from tests.e2e.agents.agent import Agent
from tests.e2e.agents.grounds import Grounds
from tests.e2e.foreign import check_apart
from tests.e2e.listing import check_lists
from tests.e2e.process import GatewayProcess, gateway_process
from tests.e2e.sdk import BINDINGS, open_http
from tests.e2e.shared_site import ACME, GLOBEX, Party, Speech, party, tenancy
from tests.e2e.site import bearer, token
from tests.identity.issuance import ISSUER, jwk, rsa_key
from tests.identity.provider import KEYS
from tests.table import cells

pytestmark = pytest.mark.anyio

SPOKEN = tuple(Speech(version, binding) for version in ("1.0", "0.3") for binding in BINDINGS)
AGENTS = ("new", "new-rest")

ADA, BOB = bearer(token(sub="ada")), bearer(token(sub="bob"))
"""Two users of acme."""
OTHER_ADA = bearer(token(sub="ada", org="globex"))
"""One of the same name, and not of the same tenant."""
OTHERS = {"bob": BOB, "another ada": OTHER_ADA, "a key of the tenant": ACME}


@dataclass(frozen=True, slots=True)
class Shared:
    """A gateway in front of an agent, once as it is, and once over HTTP+JSON alone.

    Attributes:
        listed: Agents whose tasks nobody else makes, by the binding over which they are listed.
    """

    gateway: GatewayProcess
    new: Agent
    listed: dict[str, Agent]

    def party(self, shown: dict[str, str], agent: str, speech: Speech) -> AbstractAsyncContextManager[Party]:
        """A caller."""
        return party(self.gateway.url, agent, shown, speech)


@pytest.fixture(scope="module")
def shared(ground: Grounds, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    new, provider = ground.agent("new"), ground.provider()
    provider.publish(jwk(rsa_key()))
    listed = {binding: ground.agent("listed") for binding in BINDINGS}
    configuration = tenancy()
    configuration["auth"]["issuers"] = {
        "corp": {"issuer": ISSUER, "audience": "agents", "jwks": provider.url + KEYS, "tenant_claim": "org"}
    }
    configuration["agents"] = {
        "new": new.url,
        "new-rest": {"backend": {"url": new.url, "protocol": "rest"}},
        "personal": {"backend": new.url, "isolation": "principal"},
        **{f"listed-{number}": listed[binding].url for number, binding in enumerate(BINDINGS)},
    }
    with gateway_process(configuration, tmp_path_factory.mktemp("shared")) as gateway:
        yield Shared(gateway, new, listed)


@pytest.mark.parametrize(("speech", "agent"), cells(SPOKEN, AGENTS), ids=str)
async def test_to_another_tenant_a_task_is_none_and_the_agent_hears_nothing(
    shared: Shared, agent: str, speech: Speech
) -> None:
    async with shared.party(ACME, agent, speech) as acme, shared.party(GLOBEX, agent, speech) as globex:
        await check_apart(acme, globex, shared.new)


# ---- Lists -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "binding"), list(enumerate(BINDINGS)))
async def test_everybody_lists_their_own_tasks_and_counts_no_others(shared: Shared, number: int, binding: str) -> None:
    speech, agent = Speech("1.0", binding), f"listed-{number}"
    async with shared.party(ACME, agent, speech) as acme, shared.party(GLOBEX, agent, speech) as globex:
        made = await check_lists(acme, globex)
    async with open_http() as http:
        config = ClientConfig(httpx_client=http, supported_protocol_bindings=[binding], streaming=False)
        alone = await create_client(shared.listed[binding].url, config)
        # The agent itself shows everything to anybody.
        assert (await alone.list_tasks(ListTasksRequest(page_size=100))).total_size == made


# ---- Users of one tenant ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("speech", "other"), cells(SPOKEN, tuple(OTHERS)), ids=str)
async def test_users_of_one_tenant_are_strangers_under_principal_isolation(
    shared: Shared, other: str, speech: Speech
) -> None:
    shown = OTHERS[other]
    async with shared.party(ADA, "personal", speech) as ada, shared.party(shown, "personal", speech) as stranger:
        await check_apart(ada, stranger, shared.new)


async def test_elsewhere_users_of_one_tenant_share_their_tasks(shared: Shared) -> None:
    speech = Speech("1.0", "JSONRPC")
    async with shared.party(ADA, "new", speech) as ada, shared.party(BOB, "new", speech) as bob:
        task = await ada.send("ask", context="ours")
        assert (await bob.unary.get_task(GetTaskRequest(id=task.id))).id == task.id
        assert (await bob.send("blue", task=task.id, context="ours")).id == task.id
