"""Truly signed tokens that say something odd (K4)."""

import json

from tests.identity.corpus.genuine import Named, good, said
from tests.identity.issuance import ISSUER, compact, rsa_key


def times(now: float) -> Named:
    later = int(now) + 3600
    values: dict[str, object] = {
        "null": None,
        "a string": str(later),
        "a date": "2099-01-01T00:00:00Z",
        "true": True,
        "false": False,
        "a list": [later],
        "an object": {"$numberLong": str(later)},
        "negative": -1,
        "a small fraction below zero": -0.5,
        "milliseconds": later * 1000,
        "of 400 digits": 10**400,
        "of 4000 digits": 10**4000,
        "1e308": 1e308,
        "two to the 63": 2**63,
        "two to the 64": 2**64,
    }
    for claim in ("exp", "nbf", "iat"):
        for name, value in values.items():
            yield f"time: {claim} is {name}", good(now, **{claim: value})
    yield "time: no exp", good(now, exp=...)
    yield "time: exp is zero", good(now, exp=0)
    yield "time: exp was an hour ago", good(now, exp=int(now) - 3600)
    yield "time: exp was 31 seconds ago", good(now, exp=now - 31)
    yield "time: nbf is in an hour", good(now, nbf=int(now) + 3600)
    yield "time: iat is in an hour", good(now, iat=int(now) + 3600)
    yield "time: exp in another case", good(now, exp=..., Exp=later)
    for text, name in (("1e400", "1e400"), ("9" * 5000, "5000 digits"), ("NaN", "NaN"), ("-1e400", "-1e400")):
        raw = json.dumps(said(now)).replace(str(later), text).encode()
        yield f"time: exp is {name}", compact({"alg": "RS256", "kid": "k1"}, raw, rsa_key())


def claims(now: float) -> Named:
    issuers: dict[str, object] = {
        "absent": ...,
        "null": None,
        "empty": "",
        "a number": 1,
        "a list": [ISSUER],
        "an object": {"iss": ISSUER},
        "a prefix": ISSUER[:-1],
        "longer": ISSUER + ".evil.example",
        "with a slash": ISSUER + "/",
        "with a path": ISSUER + "/realms/evil",
        "with a query": ISSUER + "?",
        "with a fragment": ISSUER + "#",
        "in another case": ISSUER.upper(),
        "http": ISSUER.replace("https", "http"),
        "with a port": ISSUER + ":443",
        "with a user": ISSUER.replace("//", "//evil@"),
        "with a space": ISSUER + " ",
        "with a NUL": ISSUER + "\0",
        "its name in the file": "corp",
    }
    for name, value in issuers.items():
        yield f"issuer: {name}", good(now, iss=value)
    audiences: dict[str, object] = {
        "absent": ...,
        "null": None,
        "empty": "",
        "an empty list": [],
        "another": "others",
        "a prefix": "agent",
        "longer": "agents-eu",
        "in another case": "Agents",
        "with a space": "agents ",
        "two in one": "agents others",
        "with a comma": "agents,others",
        "a star": "*",
        "others": ["others", "agents-eu"],
        "a list in a list": [["agents"]],
        "with a number": ["agents", 1],
        "with null": ["agents", None],
        "with an object": ["agents", {}],
        "a number": 1,
        "true": True,
        "an object": {"agents": "agents"},
    }
    for name, value in audiences.items():
        yield f"audience: {name}", good(now, aud=value)
    subjects: dict[str, object] = {
        "a number": 7,
        "null": None,
        "a list": ["ada"],
        "an object": {"name": "ada"},
        "a line end": "ada\r\nX-A2A-Tenant: globex",
        "a newline": "ada\nglobex",
        "a NUL": "ada\0",
        "an escape": "\x1b[2J",
        "a next line": "ada\x85globex",
        "a line separator": "ada\u2028globex",
        "turned round": "\u202eada",
        "nothing to see": "\u200b",
        "a byte order mark": "\ufeffada",
        "a private letter": "\ue000",
        "no letter": "\uffff",
    }
    for name, value in subjects.items():
        yield f"subject: {name}", good(now, sub=value)


def tenants(now: float) -> Named:
    tenants: dict[str, object] = {
        "absent": ...,
        "null": None,
        "empty": "",
        "a number": 1,
        "true": True,
        "a list": ["acme"],
        "two": ["acme", "globex"],
        "an object": {"name": "acme"},
        "with a space": "acme ",
        "with a space in front": " acme",
        "with a newline": "acme\n",
        "with a NUL": "acme\0",
        "with a line end": "acme\r\nX: y",
        "two in one": "acme globex",
        "with a comma": "acme,globex",
        "a star": "*",
        "with a slash": "acme/globex",
        "a dot": ".",
        "dots": "..",
        "a path": "../acme",
        "escaped": "%61cme",
        "anonymous": "anonymous",
        "Cyrillic": "\u0430cme",
        "wide": "\uff41cme",
        "with a joiner": "ac\u200dme",
        "with a combining mark": "acme\u0301",
        "long": "a" * 65,
        "very long": "a" * 4000,
    }
    for name, value in tenants.items():
        yield f"tenant: {name}", good(now, org=value)
    yield "tenant: the claim in another case", good(now, org=..., Org="acme")
    yield "tenant: another claim", good(now, org=..., tenant="acme")
