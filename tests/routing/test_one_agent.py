"""All parts of a request that tell its caller agree, or nothing is forwarded.

The path, a claim of the token, the API key, the body and the query each say nothing or one of three names, in one of
six spellings, to a gateway whose three agents are found by any of them at one shared path. The model below is all that
the gateway's answer may depend on: a request goes to an agent if and only if everything that it says names that one,
in the spelling that means it, and the credential covers it.
"""

import asyncio
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.a2a.call import Head
from gateway.proxy.pipeline import Pipeline
from gateway.snapshot import Snapshot
from gateway.telemetry.access_log import AccessLog
from tests.identity.issuance import ISSUER, NOW, jwk, rsa_key, token
from tests.identity.provider import KEYS, provider
from tests.support.gateway import RESULT, agent, compiled, keys, secret
from tests.support.scripted import ScriptedBackend, answers, whole
from tests.support.wire import RecordedWire
from tests.table import for_each

NAMES = ("alpha", "beta", "gamma")
COVERED = {"one": ("alpha", "beta"), "two": ("gamma",)}
TENANT = {"alpha": "one", "beta": "one", "gamma": "two"}


# ---- The request ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Said:
    """A name in a spelling: as it is, escaped, in another case, beside a space, in other letters, with a joiner."""

    name: str
    spelling: str

    @property
    def text(self) -> str:
        """The text that it is once whatever escapes there are have been read."""
        match self.spelling:
            case "plain" | "escaped":
                return self.name
            case "upper":
                return self.name.upper()
            case "spaced":
                return self.name + " "
            case "wide":
                return chr(ord(self.name[0]) + 0xFEE0) + self.name[1:]
            case _:
                return self.name[0] + "\u200d" + self.name[1:]

    @property
    def json(self) -> str:
        """A JSON string."""
        written = json.dumps(self.text)
        return f'"\\u{ord(self.name[0]):04x}{written[2:]}' if self.spelling == "escaped" else written

    @property
    def url(self) -> bytes:
        """Part of a URL."""
        if self.spelling == "escaped":
            return b"%%%02x" % ord(self.name[0]) + self.name[1:].encode()
        return b"".join(bytes((byte,)) if 0x20 < byte < 0x7F else b"%%%02X" % byte for byte in self.text.encode())


SPELLINGS = ("plain", "escaped", "upper", "spaced", "wide", "joined")
said = st.none() | st.builds(Said, st.sampled_from(NAMES), st.sampled_from(SPELLINGS))


@dataclass(frozen=True, slots=True)
class Asked:
    """The claims of a request about its caller, and their spelling.

    Attributes:
        key: The API key that is shown; `other` picks no agent.
        claim: The agent that the token names.
        org: The tenant of the token, or None for no token.
    """

    rest: bool
    path: Said | None
    body: Said | None
    push: Said | None
    query: Said | None
    key: str | None
    org: str | None
    claim: Said | None

    @property
    def head(self) -> Head:
        path = b"/a2a" if self.path is None else b"/a2a/" + self.path.url
        headers = [(b"content-type", b"application/json"), (b"a2a-version", b"1.0")]
        if self.key is not None:
            headers.append((b"x-api-key", secret(self.key)))
        if self.org is not None:
            claims: dict[str, Any] = {"org": self.org} | ({} if self.claim is None else {"agent": self.claim.text})
            headers.append((b"authorization", b"Bearer " + _token(tuple(claims.items()))))
        return Head(
            "POST",
            path + (b"/message:send" if self.rest else b""),
            b"" if self.query is None else b"tenant=" + self.query.url,
            "gw.test",
            tuple(headers),
            "127.0.0.1",
        )

    @property
    def frame(self) -> bytes:
        tenant = "" if self.body is None else f'"tenant":{self.body.json},'
        push = "" if self.push is None else f'"tenant":{self.push.json},'
        params = (
            f'{{{tenant}"message":{{"messageId":"m","role":"ROLE_USER","parts":[{{"text":"hi"}}]}},'
            f'"configuration":{{"taskPushNotificationConfig":{{{push}"url":"https://hook.test"}}}}}}'
        )
        whole = params if self.rest else f'{{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{params}}}'
        return whole.encode()


requests = st.builds(
    Asked,
    rest=st.booleans(),
    path=said,
    body=said,
    push=st.none() | said,
    query=said,
    key=st.none() | st.sampled_from([*NAMES, "other"]),
    org=st.none() | st.sampled_from([*COVERED, "three"]),
    claim=said,
)


@st.composite
def likely(draw: st.DrawFn) -> Asked:
    """Requests most of which agree."""
    name = draw(st.sampled_from(NAMES))
    place = st.none() | st.builds(
        Said,
        st.sampled_from([name] * 8 + list(NAMES)),
        st.sampled_from(["plain"] * 12 + ["escaped"] * 3 + list(SPELLINGS)),
    )
    by_key = draw(st.booleans())
    return Asked(
        rest=draw(st.booleans()),
        path=draw(place),
        body=draw(place),
        push=draw(st.none() | place),
        query=draw(place),
        key=draw(st.sampled_from([name, name, "other", *NAMES])) if by_key else None,
        org=None if by_key else draw(st.sampled_from([TENANT[name], TENANT[name], *COVERED])),
        claim=draw(place),
    )


# ---- The model -----------------------------------------------------------------------------------------------------


def expected(asked: Asked) -> str | None:
    """The agent that the request goes to, or None."""
    if (asked.key is None) == (asked.org is None):
        # No credential, or two.
        return None
    covered = COVERED.get(asked.org or TENANT.get(asked.key or "", "one"), ())
    named: set[str | None] = set()
    if asked.path is not None:
        # An escape in a path is for ids.
        named.add(asked.path.name if asked.path.spelling == "plain" else None)
    for place in (asked.body, asked.push, asked.query):
        if place is not None:
            named.add(place.name if place.text == place.name else None)
    if asked.key in NAMES:
        named.add(asked.key)
    if asked.org is not None and asked.claim is not None and asked.claim.text == asked.claim.name:
        # Other values of a claim name no agent.
        named.add(asked.claim.name)
    if len(named) != 1:
        return None
    [name] = named
    return name if name in covered else None


# ---- The gateway ---------------------------------------------------------------------------------------------------


class Wire(RecordedWire):
    """A client's side that sends a body."""

    def __init__(self, body: bytes) -> None:
        super().__init__()
        self.sending = body

    async def read(self, limit: int) -> bytes:
        return self.sending


class Gateway:
    """A line in memory, in front of one agent on loopback that is three."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.stack = AsyncExitStack()
        self.runner.run(self._open())

    async def _open(self) -> None:
        self.backend = await self.stack.enter_async_context(ScriptedBackend(agent(answers(whole(RESULT)))))
        shared = "".join(
            f"""
  {name}:
    backend: {self.backend.url}/{name}
    match:
      - {{ path: /a2a, tenant: {name} }}
      - {{ path: /a2a, key: {name} }}
      - {{ path: /a2a, claim: {{ agent: {name} }} }}"""
            for name in NAMES
        )
        served = await self.stack.enter_async_context(provider())
        served.publish(jwk(rsa_key()))
        corp = f"issuer: {ISSUER}, audience: agents, jwks: {served.url}{KEYS}, tenant_claim: org"
        issuers = f"  issuers: {{ corp: {{ {corp} }} }}\n"
        # Nobody is slowed down here for failing often.
        issuers += "  verification: { failures: 1000000/s }\n"
        tenants = ", ".join(f"{tenant}: [{', '.join(agents)}]" for tenant, agents in COVERED.items())
        text = f"""\
{keys(**TENANT, other="one")}{issuers}
tenants: {{ {tenants} }}
defaults: {{ isolation: none }}
agents:{shared}
"""
        self.snapshot: Snapshot = await self.stack.enter_async_context(compiled(text))
        [key_set] = self.snapshot.key_sets.values()
        assert await key_set.refresh()
        self.log = AccessLog(BytesIO())
        self.line = Pipeline(lambda: self.snapshot, self.log, lambda *_: None, wall=lambda: NOW)

    def ask(self, asked: Asked) -> tuple[str | None, RecordedWire]:
        """The agent that got the request, by the path of its backend, and the answer."""
        wire = Wire(asked.frame)
        before = len(self.backend.requests)
        self.runner.run(self.line.serve(asked.head, wire))
        sent = self.backend.requests[before:]
        assert len(sent) <= 1
        return (sent[0].target.split(b"/")[1].decode() if sent else None), wire

    def close(self) -> None:
        self.runner.run(self.stack.aclose())
        self.log.close()
        self.runner.close()


@cache
def _token(claims: tuple[tuple[str, Any], ...]) -> bytes:
    return token(**dict(claims))


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    opened = Gateway()
    yield opened
    opened.close()


@settings(max_examples=5 * settings().max_examples)
@given(asked=requests | likely())
def test_a_request_is_forwarded_if_and_only_if_all_that_it_says_names_one_agent_of_its_credential(
    gateway: Gateway, asked: Asked
) -> None:
    agent, wire = gateway.ask(asked)
    assert agent == expected(asked)
    assert wire.closed
    assert (wire.status == 200 and "result" in wire.json) == (agent is not None)


@for_each("name", NAMES)
def test_the_model_lets_what_agrees_pass(gateway: Gateway, name: str) -> None:
    plain, escaped = Said(name, "plain"), Said(name, "escaped")
    everything = Asked(
        rest=True, path=plain, body=escaped, push=plain, query=escaped, key=None, org=TENANT[name], claim=plain
    )
    by_key = Asked(rest=False, path=None, body=None, push=None, query=None, key=name, org=None, claim=None)
    for asked in (everything, by_key):
        assert expected(asked) == name
        assert gateway.ask(asked)[0] == name
