"""Who is reached by what a request says, over both bindings, and what refusals give away: nothing."""

from collections.abc import Mapping
from typing import Any

import httpx
import msgspec
import pytest

from tests.e2e.sdk import open_http
from tests.e2e.site import ACME_KEY, BODY_LIMIT, DESK_KEY, GLOBEX_KEY, HUB_KEY, Site, api_key, bearer, token
from tests.e2e.wire import V1, check_request_id, error, frame, message, reasons, without_request_id

pytestmark = pytest.mark.anyio


async def post(site: Site, path: str, body: Any, headers: Mapping[str, str]) -> httpx.Response:
    content = body if isinstance(body, bytes) else msgspec.json.encode(body)
    async with open_http() as http:
        return await http.post(
            site.gateway.url + path, content=content, headers={**V1, "Content-Type": "application/json", **headers}
        )


async def call(site: Site, path: str, headers: Mapping[str, str], tenant: str | None = None) -> httpx.Response:
    """A send over JSON-RPC, with the tenant in the params."""
    params = message() if tenant is None else message(tenant=tenant)
    return await post(site, path, frame("SendMessage", params), headers)


def answered_by(answer: httpx.Response) -> str:
    """The marker of the agent that answered."""
    tree = answer.json()
    task = tree.get("result", tree)["task"]
    return str(task["artifacts"][0]["parts"][0]["text"]).partition(":")[0]


@pytest.mark.parametrize(
    ("path", "headers", "tenant", "agent"),
    [
        ("/echo", api_key(ACME_KEY), None, "echo"),
        ("/echo/", api_key(ACME_KEY), None, "echo"),
        ("/desk", api_key(DESK_KEY), None, "alpha"),
        ("/desk", bearer(DESK_KEY), None, "alpha"),
        ("/desk", bearer(token()), None, "beta"),
        ("/desk", bearer(token(agent=["x", "beta"])), None, "beta"),
        ("/desk", api_key(ACME_KEY), "gamma", "gamma"),
        ("/desk/gamma", api_key(ACME_KEY), None, "gamma"),
        ("/desk/gamma", api_key(ACME_KEY), "gamma", "gamma"),
        ("/a2a", api_key(ACME_KEY), "billing", "billing"),
        ("/a2a", api_key(ACME_KEY), "sales", "sales"),
        ("/a2a", api_key(GLOBEX_KEY), "sales", "sales"),
        ("/a2a/sales", api_key(GLOBEX_KEY), None, "sales"),
        ("/crm", api_key(ACME_KEY), None, "crm-acme"),
        ("/crm", api_key(ACME_KEY), "acme", "crm-acme"),
        ("/crm", api_key(GLOBEX_KEY), None, "crm-globex"),
        ("/crm", api_key(HUB_KEY), "acme", "crm-acme"),
        ("/crm", api_key(HUB_KEY), "globex", "crm-globex"),
        ("/crm/globex", api_key(HUB_KEY), None, "crm-globex"),
        ("/hidden", api_key(HUB_KEY), None, "hidden"),
    ],
)
async def test_each_request_reaches_its_agent(
    site: Site, path: str, headers: Mapping[str, str], tenant: str | None, agent: str
) -> None:
    answer = await call(site, path, headers, tenant)
    assert answered_by(answer) == agent


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/a2a/billing/message:send", message()),
        ("/a2a/billing/message:send", message(tenant="billing")),
        ("/a2a/message:send", message(tenant="billing")),
        ("/a2a/message:send?tenant=billing", message()),
        ("/a2a/billing/message:send?tenant=billing", message(tenant="billing")),
    ],
)
async def test_http_json_may_say_the_tenant_in_any_of_its_places(site: Site, path: str, body: Any) -> None:
    answer = await post(site, path, body, api_key(ACME_KEY))
    assert answered_by(answer) == "billing"
    received = site.agents["billing"].calls[-1]
    assert (received.path, received.query, received.tenant) == ("/rest/message:send", "", None)


async def test_a_query_may_say_the_tenant_of_a_get(site: Site) -> None:
    before = len(site.agents["sales"].calls)
    async with open_http({**V1, **api_key(ACME_KEY)}) as http:
        answer = await http.get(f"{site.gateway.url}/a2a/tasks?pageSize=7&tenant=sales&pageToken=")
    assert answer.json()["pageSize"] == 7
    received = site.agents["sales"].calls[before]
    assert (received.path, received.query) == ("/rest/house/tasks", "pageSize=7")


@pytest.mark.parametrize(
    ("path", "body", "rpc"),
    [
        ("/a2a/billing", message(tenant="sales"), True),
        ("/a2a?tenant=sales", message(tenant="billing"), True),
        ("/a2a/billing/message:send", message(tenant="sales"), False),
        ("/a2a/billing/message:send?tenant=sales", message(), False),
        ("/a2a/message:send?tenant=sales", message(tenant="billing"), False),
    ],
)
async def test_places_that_disagree_about_the_tenant_are_refused(site: Site, path: str, body: Any, rpc: bool) -> None:  # noqa: FBT001 - a column of the table above
    before = {marker: len(agent.calls) for marker, agent in site.agents.items()}
    answer = await post(site, path, frame("SendMessage", body) if rpc else body, api_key(ACME_KEY))
    check_request_id(answer)
    assert (answer.status_code, error(answer)["code"]) == ((200, -32602) if rpc else (400, 400))
    assert before == {marker: len(agent.calls) for marker, agent in site.agents.items()}


@pytest.mark.parametrize("tenant", ["acme/eu", "..", "a b", "x" * 65, "ä", "a\n", "%2e"])
async def test_a_tenant_outside_of_the_grammar_is_refused(site: Site, tenant: str) -> None:
    answer = await call(site, "/a2a", api_key(ACME_KEY), tenant)
    assert (answer.status_code, error(answer)["code"]) == (200, -32602)


@pytest.mark.parametrize("headers", [api_key(DESK_KEY), bearer(token())])
async def test_a_credential_and_a_tenant_that_pick_two_agents_are_a_conflict(
    site: Site, headers: Mapping[str, str]
) -> None:
    before = {marker: len(agent.calls) for marker, agent in site.agents.items()}
    answer = await call(site, "/desk", headers, "gamma")
    assert (answer.status_code, error(answer)["code"]) == (403, -31403)
    assert "ROUTE_CONFLICT" in reasons(answer)
    rest = await post(site, "/desk/gamma/message:send", message(), headers)
    assert (rest.status_code, error(rest)["status"]) == (403, "PERMISSION_DENIED")
    assert before == {marker: len(agent.calls) for marker, agent in site.agents.items()}


@pytest.mark.parametrize(
    ("denied", "missing", "headers"),
    [
        # The tenant of another agent here, and one that nobody has.
        (("/a2a", "billing"), ("/a2a", "nothing"), api_key(GLOBEX_KEY)),
        (("/a2a/billing", None), ("/a2a/nothing", None), api_key(GLOBEX_KEY)),
        # Another customer's backend, and one that nobody has.
        (("/crm", "globex"), ("/crm", "nobody"), api_key(ACME_KEY)),
        (("/crm/globex", None), ("/crm/nobody", None), api_key(ACME_KEY)),
    ],
)
async def test_a_denied_agent_looks_like_one_that_nobody_has(
    site: Site, denied: tuple[str, str | None], missing: tuple[str, str | None], headers: Mapping[str, str]
) -> None:
    def body(tenant: str | None) -> bytes:
        return frame("GetTask", {"id": "t1"} if tenant is None else {"id": "t1", "tenant": tenant}, id="same")

    one, other = [await post(site, path, body(tenant), headers) for path, tenant in (denied, missing)]
    check_request_id(one)
    assert without_request_id(one) == without_request_id(other)
    assert (one.status_code, error(one)["code"]) == (200, -32602)
    async with open_http({**V1, **headers}) as http:
        rest = [
            await http.get(site.gateway.url + path + (f"/{tenant}" if tenant else "") + "/tasks/t1")
            for path, tenant in (denied, missing)
        ]
    assert rest[0].status_code == 404
    assert without_request_id(rest[0]) == without_request_id(rest[1])


@pytest.mark.parametrize(("path", "key"), [("/hidden", ACME_KEY), ("/echo", GLOBEX_KEY), ("/desk", GLOBEX_KEY)])
@pytest.mark.parametrize(
    "asked",
    [
        ("POST", "", frame("SendMessage", message(), id="same")),
        ("POST", "", b"{"),
        ("POST", "", b"x" * (BODY_LIMIT + 1)),
        ("POST", "/", frame("SendMessage", message(), id="same")),
        ("POST", "/a", frame("SendMessage", message(), id="same")),
        ("POST", "/message:send", b'{"message":{}}'),
        ("POST", "/v1/message:send", b'{"message":{}}'),
        ("POST", "/message:stream", b""),
        ("GET", "", b""),
        ("PUT", "", b""),
        ("GET", "/tasks/t1", b""),
        ("GET", "/tasks/%FF", b""),
        ("PUT", "/tasks/t1", b""),
        ("GET", "/extendedAgentCard", b""),
        ("GET", "/nothing/at/all", b""),
        ("GET", "/.well-known/other", b""),
    ],
)
async def test_an_endpoint_where_a_caller_may_reach_nobody_looks_like_nothing(
    site: Site, path: str, key: str, asked: tuple[str, str, bytes]
) -> None:
    method, below, content = asked
    async with open_http({**V1, **api_key(key)}) as http:
        denied = await http.request(method, site.gateway.url + path + below, content=content)
        missing = await http.request(method, site.gateway.url + "/nowhere" + below, content=content)
    assert without_request_id(denied) == without_request_id(missing)
    if "%" not in below:
        assert denied.status_code == 404


@pytest.mark.parametrize(("tenant", "headers"), [(None, api_key(HUB_KEY)), ("hub", api_key(HUB_KEY))])
async def test_a_customer_without_a_backend_gets_no_route(
    site: Site, tenant: str | None, headers: Mapping[str, str]
) -> None:
    answer = await call(site, "/crm", headers, tenant)
    assert (answer.status_code, error(answer)["code"]) == (200, -32602)
    assert reasons(answer) >= {"NO_ROUTE"}


async def test_a_tenant_that_nobody_named_is_not_admitted(site: Site) -> None:
    answer = await call(site, "/echo", bearer(token(org="stranger")))
    assert (answer.status_code, error(answer)["code"]) == (403, -31403)


@pytest.mark.parametrize("tenant", [None, "nothing"])
async def test_an_endpoint_where_no_rule_holds_gives_no_route(site: Site, tenant: str | None) -> None:
    answer = await call(site, "/desk", api_key(ACME_KEY), tenant)
    assert (answer.status_code, error(answer)["code"]) == (200, -32602)
    assert "NO_ROUTE" in reasons(answer)


async def test_a_tenant_of_the_clients_own_choice_is_stripped_where_only_the_path_routes(site: Site) -> None:
    answer = await call(site, "/echo", api_key(ACME_KEY), "whatever")
    assert answered_by(answer) == "echo"
    assert site.agents["echo"].calls[-1].tenant is None
