"""What is said first on a connection to a Redis, and what its replies mean.

It ends with a script that writes, so that a replica, a server that is still loading or one that may not write turns the
gateway away here, not in the middle of a call.
"""

import asyncio
import hashlib
import logging
import re
from collections.abc import Sequence
from typing import Final

from gateway.tasks.redis_address import RedisAddress
from gateway.tasks.redis_connection import RedisConnection, encoded
from gateway.tasks.redis_reply import Complaint, Reply
from gateway.tasks.store import StoreBroken

SCHEMA: Final = 1
"""The version of what is kept under a prefix; a gateway leaves a newer one alone."""

_POLICY = re.compile(rb"^maxmemory_policy:(allkeys-[a-z]+)", re.MULTILINE)

logger = logging.getLogger("gateway.tasks")


class TurnedAway(Exception):  # noqa: N818 - it is what it is
    """The server answers, but cannot be used now.

    Attributes:
        complaint: What it said.
    """

    def __init__(self, complaint: Complaint) -> None:
        super().__init__(complaint.word)
        self.complaint = complaint


class Script:
    """One decision that is made within the Redis.

    Args:
        text: Lua; whatever keys it uses are among `KEYS`.

    Attributes:
        loading: The command that makes it known to the server.
    """

    __slots__ = ("_name", "loading", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        code = text.encode()
        # The name that Redis gives it: no secret.
        self._name = hashlib.sha1(code, usedforsecurity=False).hexdigest().encode()
        self.loading = encoded((b"SCRIPT", b"LOAD", code))

    def command(self, keys: Sequence[bytes], args: Sequence[bytes]) -> bytes:
        """The command that runs it."""
        return encoded((b"EVALSHA", self._name, b"%d" % len(keys), *keys, *args))


ENTER: Final = Script("""
-- Gives the schema that is there, or now is. What is full may still be read, and emptied.
local found = redis.call('GET', KEYS[1]) or ARGV[1]
local written = redis.pcall('SET', KEYS[1], found)
if written.err and not string.find(written.err, 'OOM', 1, true) then return written end
return found
""")


async def greet(connection: RedisConnection, address: RedisAddress, scripts: Sequence[Script]) -> None:
    """Show who one is, make the scripts known, and see whether all that is needed may be done.

    Raises:
        StoreBroken: it may not, and will not until somebody writes something else.
        TurnedAway: it may not now.
        ConnectionLost: nobody answers.
    """
    words: list[tuple[bytes, ...]] = []
    if address.password:
        user = (address.user.encode(),) if address.user else ()
        words.append((b"AUTH", *user, address.password.encode()))
    if address.database:
        words.append((b"SELECT", b"%d" % address.database))
    commands = [encoded(each) for each in words]
    commands += [script.loading for script in (ENTER, *scripts)]
    commands.append(ENTER.command((address.named("schema"),), (b"%d" % SCHEMA,)))
    # What follows is good to have.
    commands += [encoded((b"CLIENT", b"SETNAME", b"a2a-gateway")), encoded((b"INFO", b"memory"))]
    *needed, _, memory = await asyncio.gather(*(connection.ask(command) for command in commands))
    for reply in needed:
        if isinstance(reply, Complaint):
            raise _turned_away(reply, address)
    schema = needed[-1]
    if not isinstance(schema, bytes) or not schema.isdigit() or int(schema) > SCHEMA:
        raise StoreBroken(f"{address.label}: {_foreign(address)}")
    _warn_of(memory, address)


def _turned_away(complaint: Complaint, address: RedisAddress) -> Exception:
    told = _remedy(complaint, address)
    return StoreBroken(f"{address.label}: {told}") if told else TurnedAway(complaint)


def _remedy(complaint: Complaint, address: RedisAddress) -> str:
    """What to do about a complaint that will be the same the next time; empty for any other."""
    word, rest = complaint.word, complaint.rest
    # The errors of a server that is too old for a word of its own begin as all others do.
    is_plain = word == "ERR"
    if word == "WRONGPASS" or (is_plain and (b"AUTH" in rest or b"invalid password" in rest)):
        return "the server does not know the user or the password of the URL: write those that it knows"
    if word == "NOAUTH":
        return "the server asks for a password: write redis://:PASSWORD@…"
    if word == "NOPERM":
        return f"the server's user may not do what is needed: let it do +@all -@dangerous on ~{{{address.prefix}}}:*"
    if is_plain and (b"DB index" in rest or b"SELECT" in rest):
        return "the server has no such database: write another number, or none (a cluster has only 0)"
    if is_plain and b"unknown command" in rest:
        return "the server does not offer EVALSHA and SCRIPT LOAD: use one that does"
    if word == "WRONGTYPE":
        return _foreign(address)
    return ""


def _foreign(address: RedisAddress) -> str:
    told = f"what lies under the prefix {address.prefix} is a newer gateway's, or another program's"
    return f"{told}: use a newer gateway, or another `prefix`"


def _warn_of(memory: Reply, address: RedisAddress) -> None:
    if isinstance(memory, bytes) and (found := _POLICY.search(memory)) is not None:
        policy = found[1].decode("ascii")
        fact = "forgets whose tasks are whose when it is full"
        logger.warning("%s %s (maxmemory-policy %s): set noeviction", address.label, fact, policy)
