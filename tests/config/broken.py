"""Files that are refused: place and fact of the first mistake, by the frame that the written lines stand in."""

from tests.config.reading import HASH

_AGENT = "agents:\n  echo:\n    backend: http://127.0.0.1:9001\n"
_CLIENT = (
    "version: 1\nauth:\n  mtls:\n    clients:\n      ",
    "\n    ca: no.pem\ngateway:\n  tls: { cert: no.crt, key: no.key }\ntenants:\n  acme: [echo]\n  globex: [echo]\n"
    + _AGENT,
)
"""Entries of `auth.mtls.clients`."""
_KEYED = ("version: 1\nauth:\n  api_keys:\n    bot:\n      sha256: HASH\n      tenant: acme\n", "\n" + _AGENT)
"""Keys at the top, behind an API key of acme."""
_API_KEY = ("version: 1\nauth:\n  api_keys:\n    ", "\ntenants:\n  acme: [echo]\n" + _AGENT)
"""Entries of `auth.api_keys`."""
_AUTH = ("version: 1\nauth:\n  ", "\ntenants:\n  acme: [echo]\n" + _AGENT)
"""Below `auth`."""
_KEY = ("version: 1\n" + _AGENT + "    ", "\n")
"""Keys of an agent, beside its backend."""
_TEST = ("version: 1\n" + _AGENT + "tests:\n  - ", "\n")
"""Entries of `tests`."""
_BACKEND = ("version: 1\nagents:\n  echo:\n    backend: ", "\n")
"""Backends of an agent, and its keys behind them."""
_GATEWAY = ("version: 1\ngateway:\n  ", "\n" + _AGENT)
"""Keys of `gateway`."""
_PUSH = ("version: 1\npush: ", "\n" + _AGENT)
_BEFORE = ("version: 1\n", "\n" + _AGENT)
"""Keys at the top, before a good agent."""
_ECHO = ("version: 1\nagents:\n  ", "\n")
"""Agents."""
_REST = ("version: 1\n", "")
"""All behind the version."""
_RAW = ("", "")
"""Whole files."""

_IN_CLIENT = [
    (
        "5:49 'anonymous' is the tenant of callers without a credential",
        "batch: { dns: batch.acme.example, tenant: anonymous }",
    ),
    ("5:21 'batch acme' is no DNS name", 'batch: { dns: "batch acme", tenant: acme }'),
    ("5:7 there is no name for its certificates", "mesh: { tenant: acme }"),
    ("5:21 there is no tenant for these certificates", "batch: { dns: batch.acme.example }"),
    ("5:20 'mesh.example/x' is no URI", "mesh: { uri: mesh.example/x, tenant: acme }"),
    (
        "6:19 'one' fits some of the same certificates (line 5), and neither is the narrower",
        (
            'one: { uri: "spiffe://mesh.example/ns/{tenant}/*" }\n'
            '      two: { uri: "spiffe://mesh.example/*/acme/x", tenant: acme }'
        ),
    ),
    (
        "5:56 'one' fits some of the same certificates (line 5), and neither is the narrower",
        'one: { uri: ["spiffe://mesh.example/{tenant}/*", "spiffe://mesh.example/*/{tenant}"] }',
    ),
    (
        "6:31 'one' fits some of the same certificates (line 5), and neither is the narrower",
        (
            "one: { dns: batch.acme.example, tenant: acme }\n"
            "      two: { dns: [x.example, BATCH.acme.example], tenant: globex }"
        ),
    ),
    (
        "5:20 the tenant is given twice, by {tenant} and by `tenant`",
        'mesh: { uri: "spiffe://mesh.example/ns/{tenant}", tenant: acme }',
    ),
    (
        "5:20 'spiffe://mesh.example/{tenant}/{tenant}' has two tenants",
        'mesh: { uri: "spiffe://mesh.example/{tenant}/{tenant}" }',
    ),
    ("5:64 there is no agent 'ecco'", "batch: { dns: batch.acme.example, tenant: acme, agents: [ecco] }"),
    ("5:49 there is no tenant 'acne'", "batch: { dns: batch.acme.example, tenant: acne }"),
    ("5:20 'spiffe://{tenant}/sa/x' has a wildcard before its path", 'mesh: { uri: "spiffe://{tenant}/sa/x" }'),
    ("5:21 'batch.*' leaves its domain open", 'batch: { dns: "batch.*", tenant: acme }'),
    (
        "5:21 'b*.acme.example' has a wildcard that is a part of something",
        'batch: { dns: "b*.acme.example", tenant: acme }',
    ),
]
_IN_KEYED = [
    ("7:7 unknown key 'key'", "      key: hunter2-hunter2\ntenants:\n  acme: [echo]"),
    ("8:37 there is no tenant 'globex'", "tenants:\n  acme: { agents: [echo], act_for: [globex] }"),
    ("8:9 there is no agent 'ecko'", "tenants:\n  acme: [ecko]"),
]
_IN_API_KEY = [
    ("5:15 the value has no hash", 'bot:\n      sha256: "${NOT_SET:-}"\n      tenant: acme'),
    (
        "4:20 this is the SHA-256 of nothing: no key has it",
        "bot: { sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855, tenant: acme }",
    ),
    ("5:15 the value is no SHA-256", "bot:\n      sha256: abc\n      tenant: acme"),
    (
        "4:20 the key has 3 hashes",
        (
            "bot: { sha256: [HASH, bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb, "
            "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc], tenant: acme }"
        ),
    ),
]
_IN_AUTH = [
    (
        "7:13 over plain http anyone on the way could give out keys and sign tokens",
        (
            "issuers:\n    corp:\n      issuer: https://login.example.com\n      audience: agents\n"
            "      jwks: http://login.example.com/keys\n      tenant: acme"
        ),
    ),
    (
        "4:5 'mtls' is reserved for certificates, and owners would be ambiguous",
        "issuers:\n    mtls: { issuer: https://login.example.com, audience: a, tenant: acme }",
    ),
    (
        "3:3 without `gateway.tls` no client shows a certificate",
        "mtls:\n    ca: no.pem\n    clients:\n      batch: { dns: batch.acme.example, tenant: acme }",
    ),
]
_IN_KEY = [
    ("5:7 the character U+0007 cannot stand in the file", "# \x07"),
    ("5:5 the agent has a `backend` too", "by_tenant: { acme: http://127.0.0.1:9002 }"),
    ("5:20 the gateway computes `url` itself", 'card: { set: { url: "http://10.0.0.1" } }'),
    ("5:11 the card is no JSON object", "card: list.json"),
    ("5:17 'hidden' is none of: listed, unlisted, private", "visibility: hidden"),
    ("6:5 'visibility' is already written (line 5)", "visibility: listed\n    visibility: private"),
    ("5:26 3 is no duration", "timeouts: { connect: 3 }"),
    ("5:26 '0s' is no time to wait", "timeouts: { connect: 0s }"),
    ("5:13 its cards would list no way to call it", "expose: []"),
    ("5:29 'rest' is there already", "expose: [rest, jsonrpc, rest]"),
    ("5:20 'http' is none of: jsonrpc, rest, grpc", "expose: [rest, http]"),
    (
        "5:33 `upstream_auth` sets 'X-Key': a client could add a credential to the gateway's own",
        "forward_headers: [X-Region, X-Key]\n    upstream_auth: { header: { X-Key: hunter2 } }",
    ),
    ("5:15 there are no health checks without `path`", "health: { every: 5s }"),
    (
        "6:32 `identity_headers` names the caller in 'X_Org'",
        "identity_headers: { tenant: X-Org }\n    upstream_auth: { header: { X_Org: hunter2 } }",
    ),
    ("5:16 'user' is none of: tenant, principal, none", "isolation: user"),
    ("5:26 ${A B} is no reference", 'card: { set: { name: "${A B}" } }'),
    ("5:5 there is no value", "match:"),
    ("6:15 the [ of this list has no ]", "methods: [SendMessage\n    visibility: listed"),
    ("5:26 a ${ has no }", 'card: { set: { name: "${NAME" } }'),
    ("5:20 'allow' is none of: deny, adopt", "unknown_tasks: allow"),
    ("5:22 '' can be no tenant", 'upstream_tenant: ""'),
]
_IN_TEST = [
    ("6:40 this expects nothing", "{ name: t, request: /echo, expect: {} }"),
    ("6:46 'a b' is no host", '{ name: t, request: { path: /echo, host: "a b" }, expect: echo }'),
    ("6:40 there is no agent 'ecko'", "{ name: t, request: /echo, expect: ecko }"),
    ("6:50 'noroute' is no reason", "{ name: t, request: /echo, expect: { reason: noroute } }"),
    ("6:13 '010' is text here and a number to other YAML tools", "{ name: 010, request: /echo, expect: echo }"),
]
_IN_BACKEND = [
    ("5:3 'echo' is already written (line 3)", "http://127.0.0.1:9001\n  echo: http://127.0.0.1:9002"),
    (
        "5:32 'X-Key-Bin' cannot be metadata of gRPC",
        "grpc://127.0.0.1:1\n    upstream_auth: { header: { X-Key-Bin: hunter2 } }",
    ),
    (
        "4:53 an http or https URL cannot speak gRPC",
        '{ url: "http://127.0.0.1:1", protocol: grpc, a2a_version: "1.0" }',
    ),
    ("4:53 a gRPC URL cannot speak rest", '{ url: "grpc://127.0.0.1:1", protocol: rest }'),
    ("4:56 A2A 0.1 knows no gRPC", '{ url: "grpc://127.0.0.1:1", a2a_version: "0.1" }'),
    (
        "7:12 '/echo' is also what 'echo' matches (line 3)",
        "http://127.0.0.1:9001\n  other:\n    backend: http://127.0.0.1:9002\n    match: { path: /echo }",
    ),
    ("4:44 the host is an address already", "{ url: http://127.0.0.1:9001, dns: headless }"),
    ("4:29 a command has no name that could be looked up", "{ stdio: [sh], dns: headless }"),
    ("5:21 a command has no path", "{ stdio: [sh] }\n    health: { path: /healthz }"),
    ("5:5 nothing is sent to a command again", "{ stdio: [sh] }\n    retry: { max: 1 }"),
    ("5:12 it is of no use without `key`", "https://127.0.0.1:9001\n    tls: { cert: own.pem }"),
    ("5:25 'https://x' is no name of a host", 'https://127.0.0.1:9001\n    tls: { server_name: "https://x" }'),
    ("4:56 a version alone does not say how to speak", '{ url: "http://127.0.0.1:1", a2a_version: "0.3" }'),
    ("4:72 0.3 is no version of A2A", '{ url: "http://127.0.0.1:1", protocol: rest, a2a_version: 0.3 }'),
    ("4:72 A2A 0.1 knows no HTTP+JSON", '{ url: "http://127.0.0.1:1", protocol: rest, a2a_version: "0.1" }'),
    (
        "6:27 '1_000' is text here and a number to other YAML tools",
        "http://127.0.0.1:9001\nobserve:\n  metrics: { max_tenants: 1_000 }",
    ),
]
_IN_GATEWAY = [
    ("5:18 the state is kept there (line 3)", "state: sqlite://state.db\nobserve:\n  audit: { file: ./state.db }"),
    ("3:13 each of 2 gateways would keep a ledger of its own in a file", "replicas: 2"),
    ("4:13 each of 3 gateways would keep a ledger of its own in memory", "state: memory\n  replicas: 3"),
    ("3:10 'sqlite://:memory:' is SQLite's name for no file", 'state: "sqlite://:memory:"'),
    (
        f"3:10 'sqlite:///{'n' * 190}…' names a file by more than 242 bytes, too many for those beside it",
        f"state: sqlite:///{'n' * 243}",
    ),
    ("3:10 'sqlite:///var/lib/' names no file", "state: sqlite:///var/lib/"),
    ("3:10 this names no store", "state: [redis://user:hunter2@redis:6379/0]"),
    ("3:10 the value has a credential behind its ?", "state: redis://redis:6379/0?password=hunter2"),
    (
        "3:10 the value is no URL: its host, port or password cannot be read",
        "state: redis://user:hun/hunter2@redis:6379/0",
    ),
    ("3:10 the value starts with postgres:, and there is no such store", "state: postgres://user:hunter2@db/state"),
    ("3:10 the value names no store", "state: hunter2"),
]
_IN_PUSH = [
    ("2:16 no webhook may be named", "{ allow: [] }"),
    ("2:36 101 is too many", "{ mode: relay, max_per_task: 101 }"),
    (
        "2:16 'https://***@hooks.acme.example' has a user name or password in it",
        '{ allow: "https://user:hunter2@hooks.acme.example" }',
    ),
    ("2:48 the longest pause would be shorter than the first", "{ mode: relay, deliver: { longest_pause: 500ms } }"),
]
_IN_BEFORE = [
    ("3:10 'logs/' names no file", "observe:\n  audit: logs/"),
    ("3:10 names a file by more than 255 bytes", f"observe:\n  audit: {'n' * 256}"),
    (
        "3:31 'Transfer-Encoding' has a meaning of its own to agents, or on the way to them",
        "defaults:\n  identity_headers: { tenant: Transfer-Encoding }",
    ),
    ("3:31 'X_Tenant' is no header name", "defaults:\n  identity_headers: { tenant: X_Tenant }"),
    ("2:19 clients are served there too: `gateway.listen` is 127.0.0.1:8080", "gateway: { admin: 127.0.0.1:8080 }"),
    ("2:19 other machines could read and control the gateway without a token", "gateway: { admin: 0.0.0.0:9090 }"),
    ("2:1 no caller can sign in: there is no key and no issuer", "auth: {}\ntenants:\n  acme: [echo]"),
    (
        "4:9 'no.pem' cannot be read: No such file or directory",
        (
            "auth:\n  mtls:\n    ca: no.pem\n    clients:\n      batch: { dns: batch.acme.example, tenant: acme }\n"
            "gateway:\n  tls: { cert: no.crt, key: no.key }\ntenants:\n  acme: [echo]\n  globex: [echo]"
        ),
    ),
    (
        "4:5 'mtls' is reserved for certificates, and owners would be ambiguous",
        (
            "auth:\n  issuers:\n    mtls: { issuer: https://login.example.com, audience: a, tenant: acme }\n"
            "  mtls:\n    clients:\n      batch: { dns: batch.acme.example, tenant: acme }\n    ca: no.pem\n"
            "gateway:\n  tls: { cert: no.crt, key: no.key }\ntenants:\n  acme: [echo]\n  globex: [echo]"
        ),
    ),
    (
        "3:3 no certificate belongs to a client: there are no `clients`",
        (
            "auth:\n  mtls:\n    ca: no.pem\ngateway:\n  tls: { cert: no.crt, key: no.key }\ntenants:\n"
            "  acme: [echo]\n  globex: [echo]"
        ),
    ),
    (
        "3:29 no client has this certificate: no entry of auth.mtls.clients fits batch.globex.example",
        (
            "tests:\n  - { name: t, certificate: batch.globex.example, request: /echo, expect: echo }\nauth:\n"
            "  mtls:\n    clients:\n      batch: { dns: batch.acme.example, tenant: acme }\n    ca: no.pem\n"
            "gateway:\n  tls: { cert: no.crt, key: no.key }\ntenants:\n  acme: [echo]\n  globex: [echo]"
        ),
    ),
    (
        "2:20 without `auth` every machine that reaches this address could call every agent",
        "gateway: { listen: 0.0.0.0:8080, public_url: https://a.example.com }",
    ),
    ("2:30 everyone could say who they are by X-Forwarded-For", "gateway: { trusted_proxies: [0.0.0.0/0] }"),
    ("2:24 the URL has a query", 'gateway: { public_url: "https://a.example.com/?x=1" }'),
    ("2:24 '99999GiB' is more than the gateway would hold in memory", "gateway: { body_limit: 99999GiB }"),
    ("2:24 'ten' is no size", "gateway: { body_limit: ten }"),
    (
        "6:15 'no' is text here and false to other YAML tools",
        'auth:\n  api_keys:\n    bot:\n      sha256: HASH\n      tenant: no\ntenants:\n  "no": [echo]',
    ),
    ("2:23 'yes' is text here and true to other YAML tools", "gateway: { anonymous: yes }"),
]
_IN_ECHO = [
    ("3:9 the URL has a user name or password in it", "echo: http://user:hunter2@127.0.0.1:9001"),
    ("3:9 the URL has a user name or password in it", "echo: grpcs://bot:hunter2@agents.example.com:443"),
    ("4:22 it is no card: not a JSON object", "notes:\n    backend: { card: list.json }"),
    ("4:39 an agent on stdio cannot speak grpc", "notes:\n    backend: { stdio: [sh], protocol: grpc }"),
    ("3:9 &e is an anchor", "echo: &e http://127.0.0.1:9001"),
    ("4:10 *e is an alias", "echo: http://127.0.0.1:9001\n  other: *e"),
    ("3:9 the URL has a fragment", "echo: http://127.0.0.1:9001/#a"),
    ("3:9 the URL is plain http to another machine", "echo: http://agents.example.com"),
    ("3:9 the URL is no URL", "echo: http://127.0.0.1:99999"),
    ("3:9 the URL has a query", "echo: http://127.0.0.1:9001/?a=b"),
    ("3:3 'echo agent' is no name", '"echo agent": http://127.0.0.1:9001'),
    ("3:9 the URL names no port", "echo: grpc://127.0.0.1"),
    (
        "3:9 the URL has something behind its host and port, and gRPC has no paths",
        "echo: grpcs://agents.example.com/echo",
    ),
    ("3:9 the URL is plain grpc to another machine", "echo: grpc://agents.example.com:50051"),
    ("3:3 references are not filled in in keys", "${NAME}: http://127.0.0.1:9001"),
    (
        "4:18 the backend of tenant 'acme' is hidden: 'other' matches it (line 6)",
        (
            "crm:\n    by_tenant: { acme: http://127.0.0.1:1 }\n  other:\n    match: { path: /crm, tenant: acme }\n"
            "    backend: http://127.0.0.1:2"
        ),
    ),
    (
        "5:46 nothing reaches this backend: every match asks for another tenant than 'acme'",
        (
            "crm:\n    match: { path: /crm, tenant: globex }\n"
            "    by_tenant: { globex: http://127.0.0.1:1, acme: http://127.0.0.1:2 }"
        ),
    ),
    ("3:3 the agent has no `backend`", "echo:\n    visibility: listed"),
    (
        "6:9 another replica is called 'x', too (line 5)",
        (
            "echo:\n    backend:\n      - { url: http://127.0.0.1:9001, label: x }\n"
            "      - { url: http://127.0.0.1:9002, label: x }"
        ),
    ),
    (
        "6:16 some replicas are behind gRPC and others are not",
        'echo:\n    backend:\n      - { url: http://127.0.0.1:9001 }\n      - { url: "grpc://127.0.0.1:9002" }',
    ),
    (
        "5:9 a command cannot be one of several replicas",
        "echo:\n    backend:\n      - { stdio: [sh] }\n      - { url: http://127.0.0.1:9001 }",
    ),
    (
        "6:9 it is a replica already (line 5)",
        "echo:\n    backend:\n      - http://127.0.0.1:9001\n      - http://localhost:9001/",
    ),
    (
        "5:47 no replica gets any call: every weight is 0",
        (
            "echo:\n    backend:\n      - { url: http://127.0.0.1:9001, weight: 0 }\n"
            "      - { url: http://127.0.0.1:9002, weight: 0 }"
        ),
    ),
    ("3:3 'tasks' is a path segment of the protocol and can be no name", "tasks: http://127.0.0.1:9001"),
    ("3:9 !!python/object/apply:os.system is a tag", "echo: !!python/object/apply:os.system id"),
    ("3:9 the environment variable ECHO_URL is not set", "echo: ${ECHO_URL}"),
    ("3:3 the key 7 is not text", "7: http://127.0.0.1:9001"),
    ("3:3 'on' is text here and true to other YAML tools", "on:\n    backend: http://127.0.0.1:9001"),
]
_IN_REST = [
    ("2:9 a list is no mapping", "agents: [echo]\n"),
    (
        "2:25 without `auth` every machine that reaches this address could call every agent",
        "gateway: { listen_grpc: 0.0.0.0:50051 }\nagents: { echo: http://127.0.0.1:9001 }\n",
    ),
    (
        "3:16 there is no `public_grpc`, and it cannot be guessed for this address",
        (
            "gateway:\n  listen_grpc: 0.0.0.0:50051\n  anonymous: true\n"
            "agents: { echo: { backend: http://127.0.0.1:9001, expose: grpc } }\n"
        ),
    ),
    (
        "2:12 there is no `listen_grpc` that it could lead to",
        "gateway: { public_grpc: grpc.example.com:443 }\nagents: { echo: http://127.0.0.1:9001 }\n",
    ),
    (
        "4:16 'grpc.example.com' is no host and port",
        (
            "gateway:\n  listen_grpc: 127.0.0.1:50051\n  public_grpc: grpc.example.com\n"
            "agents: { echo: http://127.0.0.1:9001 }\n"
        ),
    ),
    (
        "4:16 'https://grpc.example.com:443' has a scheme, which clients of gRPC do not know",
        (
            "gateway:\n  listen_grpc: 127.0.0.1:50051\n  public_grpc: https://grpc.example.com:443\n"
            "agents: { echo: http://127.0.0.1:9001 }\n"
        ),
    ),
    (
        "12:29 there is no API key 'bott'",
        (
            "auth:\n  api_keys:\n    bot:\n      sha256: HASH\n      tenant: acme\ntenants:\n  acme: [echo]\n"
            "agents:\n  echo:\n    backend: http://127.0.0.1:9001\n    match: { path: /a, key: bott }\n"
        ),
    ),
]
_IN_RAW = [
    ("1:1 `version` is missing", "agents:\n  echo:\n    backend: http://127.0.0.1:9001\n"),
    ("1:10 1.0 is no version of this format", "version: 1.0\nagents:\n  echo:\n    backend: http://127.0.0.1:9001\n"),
    ("1:10 true is no version of this format", "version: true\nagents:\n  echo:\n    backend: http://127.0.0.1:9001\n"),
]

BROKEN = [
    (told, f"{before}{lines}{after}".replace("HASH", HASH))
    for (before, after), rows in (
        (_CLIENT, _IN_CLIENT),
        (_KEYED, _IN_KEYED),
        (_API_KEY, _IN_API_KEY),
        (_AUTH, _IN_AUTH),
        (_KEY, _IN_KEY),
        (_TEST, _IN_TEST),
        (_BACKEND, _IN_BACKEND),
        (_GATEWAY, _IN_GATEWAY),
        (_PUSH, _IN_PUSH),
        (_BEFORE, _IN_BEFORE),
        (_ECHO, _IN_ECHO),
        (_REST, _IN_REST),
        (_RAW, _IN_RAW),
    )
    for told, lines in rows
]
"""The place and fact that is told first, and the text; `HASH` in a row stands for the hash of a key."""
