"""The command line, run as people and scripts run it."""

import hashlib
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import jwt
import msgspec
import pytest

from gateway.demo.fleet import serving
from tests.program import COMMAND, ENVIRONMENT, report, run, running, runs, until, written
from tests.support.certificates import SERVER, Authority

GOOD = "version: 1\nagents: { support: http://127.0.0.1:1 }\ntests:\n"
GOOD += "  - { name: found, request: { path: /support }, expect: { agent: support } }\n"
WARNED = "version: 1\nagents: { support: { backend: { stdio: [no-such-program] } } }\n"
BAD = "version: 1\nagents:\n  support: http://127.0.0.1:1\n  support: http://127.0.0.1:2\nnonsense: no\n"
FAILING = GOOD.replace("agent: support }", "reason: no_route }")


ALONE = ("serve", "--port", "0", "--admin-port", "0", "--agent")


# ---- check -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "options", "code"),
    [(GOOD, [], 0), (BAD, [], 1), (WARNED, ["--strict"], 1), (FAILING, [], 3)],
)
def test_the_exit_code_of_check_tells_its_result(tmp_path: Path, text: str, options: list[str], code: int) -> None:
    written(tmp_path, text)
    _, in_json = runs(("check", *options), ("check", "--output", "json", *options), cwd=tmp_path, code=code)
    told = report(in_json)
    assert told["ok"] is (code == 0)
    assert bool(told["problems"]) is (text != GOOD)


def test_check_names_place_fact_and_remedy_of_every_problem(tmp_path: Path) -> None:
    path = written(tmp_path, BAD)
    for_people, for_github = runs(("check", str(path)), ("check", "--output", "github"), cwd=tmp_path, code=1)
    assert f"{path}:4:" in for_people.stdout
    assert f"{path}:5:" in for_people.stdout
    assert "→" in for_people.stdout
    assert "::error file=" in for_github.stdout


@pytest.mark.parametrize(("text", "code"), [(GOOD, 0), (b"\xff", 1)])
def test_check_reads_standard_input(tmp_path: Path, text: str | bytes, code: int) -> None:
    data = text if isinstance(text, bytes) else text.encode()
    (tmp_path / "gateway.yaml").write_text("nobody asks for this")
    done = run("check", "-", "--output", "json", cwd=tmp_path, code=code, said=data)
    assert done.stderr == ""
    assert {problem["file"] for problem in msgspec.json.decode(done.stdout)["problems"]} == ({"-"} if code else set())


def test_paths_on_standard_input_are_relative_to_the_working_directory(tmp_path: Path) -> None:
    written(tmp_path, "agents: { more: http://127.0.0.1:1 }\n", "more.yaml")
    (tmp_path / "token").write_text("x" * 16)
    data = b"version: 1\ninclude: more.yaml\ngateway: { admin: { token: '${file:token}' } }\nx: 1\n"
    done = run("check", "-", cwd=tmp_path, code=1, said=data)
    assert done.stdout.startswith("-:4:1  x: unknown key")
    assert done.stdout.count("→") == 1


def test_only_a_strict_check_refuses_secrets_that_are_written_out(tmp_path: Path) -> None:
    written(tmp_path, GOOD.replace("agents:", "gateway: { admin: { token: hidden-from-everyone } }\nagents:"))
    run("check", cwd=tmp_path)
    said = run("check", "--strict", cwd=tmp_path, code=1).stdout
    assert said.startswith("gateway.yaml:2:28  warning: gateway.admin.token: a secret is written out\n")
    assert "${NAME}" in said
    assert "hidden-from-everyone" not in said


def test_check_online_goes_to_the_agents(tmp_path: Path) -> None:
    with serving() as url:
        written(tmp_path, f"version: 1\nagents: {{ echo: {url}/echo }}\n")
        assert "agent  echo  ok  JSONRPC 1.0" in run("check", "--online", cwd=tmp_path).stdout
    forms = [("check", "--online", "--output", form) for form in ("json", "github")]
    in_json, for_github = runs(*forms, cwd=tmp_path, code=1)
    assert report(in_json)["agents"][0]["ok"] is False
    assert for_github.stdout.startswith("::error file=gateway.yaml,line=2,col=11::agents.echo: no card: ")


def test_without_a_file_it_is_said_what_to_do(tmp_path: Path) -> None:
    check, serve, _ = runs(("check",), ("serve",), ("check", "missing.yaml"), cwd=tmp_path, code=1)
    assert "init URL" in check.stderr
    assert "init URL" in serve.stderr


@pytest.mark.parametrize("file", [[], ["missing.yaml"], ["."], ["binary"]])
def test_a_file_that_cannot_be_read_is_a_problem_like_any_other_for_programs(tmp_path: Path, file: list[str]) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    options = ["-c", *file] if file else []
    in_json, for_github, route = runs(
        ("check", *file, "--output", "json"),
        ("check", *file, "--output", "github"),
        ("route", "POST", "/a", *options, "--output", "json"),
        cwd=tmp_path,
        code=1,
    )
    told = report(in_json)
    assert told["ok"] is False
    assert [problem["file"] for problem in told["problems"]] == [*file, "gateway.yaml"][:1]
    assert for_github.stdout.startswith("::error file=")
    assert for_github.stderr == ""
    assert len(report(route)["problems"]) == 1


def test_the_file_in_the_config_folder_is_found_too(tmp_path: Path) -> None:
    written(tmp_path, GOOD, "config/gateway.yaml")
    assert "config/gateway.yaml: no problems" in run("check", cwd=tmp_path).stdout


def test_an_answer_that_cannot_be_written_is_a_failure_in_words(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    command = ["sh", "-c", 'exec "$@" >/dev/full', "sh", *COMMAND, "check"]
    done = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "standard output cannot be written: No space left on device\n")


# ---- route -----------------------------------------------------------------------------------------------------------


def test_route_says_where_a_request_would_go(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD, "other.yaml")
    said = run("route", "POST", "/support", "-c", str(path), "--explain", cwd=tmp_path).stdout
    assert run("route", "/support", "-c", str(path), "--explain", cwd=tmp_path).stdout == said
    assert run("check", "-c", str(path), cwd=tmp_path).stdout == run("check", str(path), cwd=tmp_path).stdout
    assert said.startswith("200 support at http://127.0.0.1:1")
    told = report(run("route", "POST", "/nothing", "-c", str(path), "--output", "json", cwd=tmp_path, code=1))
    assert (told["agent"], told["reason"]) == (None, "no_route")


def test_route_asks_for_a_caller_with_a_certificate(tmp_path: Path) -> None:
    authority = Authority()
    (tmp_path / "clients.pem").write_bytes(authority.pem)
    authority.issue("localhost", usages=(SERVER,)).write(tmp_path, "server")
    auth = "auth: { mtls: { ca: clients.pem, clients: { batch: { dns: '*.acme.test', tenant: acme } } } }\n"
    tls = "gateway: { tls: { cert: server.pem, key: server-key.pem } }\ntenants: { acme: [support] }\n"
    written(tmp_path, f"version: 1\n{tls}{auth}agents: {{ support: http://127.0.0.1:1 }}\n")
    asked = ("route", "POST", "/support", "--output", "json", "--certificate")
    assert report(run(*asked, "one.acme.test", cwd=tmp_path))["agent"] == "support"
    assert "no client has this certificate" in run(*asked, "one.test", cwd=tmp_path, code=2).stdout


def test_route_refuses_what_cannot_be_asked(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    asked = ("route", "POST", "/support")
    claim, key, tenant, host, method = runs(
        (*asked, "--claim", "x"),
        (*asked, "--key", "x"),
        (*asked, "--claim", "a=b"),
        (*asked, "--host", "a b"),
        ("route", "post", "/support"),
        cwd=tmp_path,
        code=2,
    )
    assert "'a b' is no host" in host.stderr
    assert "write POST" in method.stderr
    assert "name=value" in claim.stderr
    assert "API key" in key.stderr
    assert "name the tenant" in tenant.stderr
    written(tmp_path, BAD)
    for_people, in_json = runs(asked, (*asked, "--output", "json"), cwd=tmp_path, code=1)
    assert "gateway.yaml:5:" in for_people.stderr
    assert report(in_json)["problems"]


# ---- demo, serve, send, init, health ---------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_the_demo_needs_nothing_and_its_commands_work_when_pasted(tmp_path: Path, ending: signal.Signals) -> None:
    with running("demo", cwd=tmp_path) as demo:
        welcome = until(demo.stdout, "Ctrl-C ends the demo")
        assert re.search(r"^A2A gateway: http://127\.0\.0\.1:\d+ ", welcome, re.MULTILINE)
        if ending is signal.SIGINT:
            commands = _commands(welcome)
            with ThreadPoolExecutor(len(commands)) as together:
                outcomes = list(together.map(lambda command: _pasted(command, tmp_path), commands))
            assert [code for code, _ in outcomes] == [0, 0, 0, 0, 0, 1]
            said = [output for _, output in outcomes]
            assert said[0] == "Hello\n"
            assert said[1].endswith("[completed] That was 10 times.\n")
            assert "(answer with --task " in said[2]
            assert "This time it worked (call 1)." in said[3]
            assert said[4].endswith("1\n2\n3\n4\n5\n[completed] That was 5.\n")
            assert "NO_ROUTE" in said[5]
            until(demo.stdout, "acme -> echo SendStreamingMessage")
        demo.send_signal(ending)
        _, errors = demo.communicate(timeout=60)
        assert demo.returncode == 0
        assert errors == ""


def _commands(welcome: str) -> list[str]:
    return [line.strip() for line in welcome.splitlines() if " send http" in line]


def _pasted(command: str, cwd: Path) -> tuple[int, str]:
    done = subprocess.run(
        command, shell=True, cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False
    )
    # The line at the end of `send` has times.
    return done.returncode, done.stdout + re.sub(r"(?m)^\(.*, \d+ ms, request [0-9a-f]+\)\n", "", done.stderr)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_the_file_of_init_can_be_checked_and_served(tmp_path: Path, ending: signal.Signals) -> None:
    with serving() as url:
        run("init", f"{url}/echo", "-o", "gateway.yaml", cwd=tmp_path)
        text = (tmp_path / "gateway.yaml").read_text()
        if ending is signal.SIGINT:
            said, _ = runs(("init", f"{url}/echo"), ("check", "--strict"), cwd=tmp_path)
            assert said.stdout == text
            assert "--force" in run("init", f"{url}/echo", "-o", "gateway.yaml", cwd=tmp_path, code=1).stderr
        text = re.sub(r"127\.0\.0\.1:(8080|9090) ", "127.0.0.1:0 ", text)
        written(tmp_path, text)
        with running("serve", cwd=tmp_path) as gateway:
            line = msgspec.json.decode(until(gateway.stderr, "serving").splitlines()[-1])["message"]
            public, admin = [word.strip(",") for word in line.split() if word.startswith("http")]
            sent, health = runs(("send", f"{public}/echo", "Hello"), ("health", "--url", admin), cwd=tmp_path)
            assert (sent.stdout, health.stdout) == ("Hello\n", "ok\n")
            assert httpx.get(f"{public}/-/ready", trust_env=False).status_code == 200
            gateway.send_signal(ending)
            written_down, _ = gateway.communicate(timeout=60)
            assert gateway.returncode == 0
            lines = [msgspec.json.decode(each) for each in written_down.splitlines()]
            assert "SendStreamingMessage" in {each.get("operation") for each in lines}
        run("health", "--url", admin, cwd=tmp_path, code=1)


def test_one_agent_is_served_without_a_file(tmp_path: Path) -> None:
    both, no_url = runs(
        ("serve", "-c", "x", "--agent", "http://127.0.0.1:1"), ("serve", "--agent", "127.0.0.1:1"), cwd=tmp_path, code=2
    )
    assert "not both" in both.stderr
    assert "did you mean" in no_url.stderr
    with serving() as url, running(*ALONE, f"{url}/echo", cwd=tmp_path) as gateway:
        said = until(gateway.stderr, "Ctrl-C ends it")
        # Earlier lines would be warnings about a file that does not exist.
        assert said.startswith(f"{url}/echo is served at http://127.0.0.1:")
        [command] = _commands(said)
        assert _pasted(command, tmp_path) == (0, "Hello\n")
        assert "SendStreamingMessage" in until(gateway.stdout, "SendStreamingMessage")
        gateway.send_signal(signal.SIGINT)
        assert gateway.wait(timeout=60) == 0


@pytest.mark.parametrize("option", ["--port", "--admin-port"])
def test_one_agent_is_not_served_at_another_port_than_was_asked_for(tmp_path: Path, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        options = ["--port", "0", "--admin-port", "0", option, str(port)]
        said = run("serve", "--agent", "http://127.0.0.1:1/echo", *options, cwd=tmp_path, code=1).stderr
    assert said.startswith(f"cannot listen on 127.0.0.1:{port}: Address already in use\n")
    assert option in said


def test_ports_are_options_of_one_agent_alone(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    said = runs(("serve", "--port", "1"), ("serve", "--admin-port", "1"), cwd=tmp_path, code=2)
    assert all("gateway.listen" in each.stderr for each in said)


def test_one_agent_that_is_down_is_served_with_a_warning(tmp_path: Path) -> None:
    with running(*ALONE, "http://127.0.0.1:1/echo", cwd=tmp_path) as gateway:
        said = until(gateway.stderr, "no card from http://127.0.0.1:1/echo")
        said += "" if "Ctrl-C" in said else until(gateway.stderr, "Ctrl-C ends it")
        url = _commands(said)[0].split()[-2]
        assert url.endswith("/echo")
        card = httpx.get(f"{url}/.well-known/agent-card.json", trust_env=False)
        assert card.status_code >= 400
        gateway.send_signal(signal.SIGTERM)
        assert gateway.wait(timeout=60) == 0


def test_a_closed_standard_output_costs_the_access_log_and_nothing_else(tmp_path: Path) -> None:
    written(tmp_path, GOOD.replace("agents:", "gateway: { listen: 127.0.0.1:0, admin: 127.0.0.1:0 }\nagents:"))
    command = ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, "serve"]
    with subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as gateway:
        try:
            said = until(gateway.stderr, "serving")
            assert said.startswith("standard output is closed: ")
            url = msgspec.json.decode(said.splitlines()[-1])["message"].split()[1].strip(",")
            assert httpx.post(f"{url}/nothing", trust_env=False).status_code == 404
            gateway.send_signal(signal.SIGTERM)
            assert gateway.wait(timeout=60) == 0
        finally:
            gateway.kill()


def test_a_broken_file_is_not_served(tmp_path: Path) -> None:
    written(tmp_path, BAD)
    assert "gateway.yaml:5:" in run("serve", cwd=tmp_path, code=1).stderr


def test_send_tells_what_went_wrong_in_words(tmp_path: Path) -> None:
    assert "cannot connect to" in run("send", "http://127.0.0.1:1/x", "hi", cwd=tmp_path, code=1).stderr
    assert "https://" in run("send", "x", "hi", cwd=tmp_path, code=2).stderr


# ---- key, schema, usage ----------------------------------------------------------------------------------------------


def test_a_new_key_is_shown_with_the_lines_that_admit_it(tmp_path: Path) -> None:
    said = run("key", "new", "bot", "--tenant", "acme", cwd=tmp_path).stdout
    yaml = said[said.index("auth:") :]
    written(tmp_path, f"version: 1\n{yaml}tenants: {{ acme: ['*'] }}\nagents: {{ support: http://127.0.0.1:1 }}\n")
    assert "no problems" in run("check", cwd=tmp_path).stdout
    assert "is not a valid name" in run("key", "new", "a b", cwd=tmp_path, code=2).stderr


def test_the_schema_is_json(tmp_path: Path) -> None:
    assert report(run("schema", cwd=tmp_path))["$schema"].startswith("https://json-schema.org/")


def test_usage_is_told_with_exit_code_2(tmp_path: Path) -> None:
    nonsense, half = runs(("nonsense",), ("send",), cwd=tmp_path, code=2)
    assert "No such command" in nonsense.stderr
    assert "Missing argument" in half.stderr
    usage, version = runs(("--help",), ("--version",), cwd=tmp_path)
    assert usage.stdout.startswith("Usage: a2a-gateway")
    assert version.stdout.startswith("a2a-gateway ")


def test_only_debug_shows_a_traceback(tmp_path: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "check", "--debug"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert "Traceback" in done.stderr


def test_two_files_are_compared(tmp_path: Path) -> None:
    text = "version: 1\nagents:\n  one: http://127.0.0.1:1\n"
    (tmp_path / "old.yaml").write_text(text)
    (tmp_path / "new.yaml").write_text(text + "  two: http://127.0.0.1:2\n")
    (tmp_path / "bad.yaml").write_text(text + "colour: red\n")
    assert run("diff", "old.yaml", "new.yaml", cwd=tmp_path).stdout == "+ agents.two\n\ntenant anonymous gains two\n"
    told = msgspec.json.decode(run("diff", "old.yaml", "new.yaml", "--output", "json", cwd=tmp_path).stdout)
    assert told["changes"] == [{"change": "added", "path": "agents.two", "old": "", "new": ""}]
    bad = run("diff", "old.yaml", "bad.yaml", cwd=tmp_path, code=1)
    assert "bad.yaml:4:1" in bad.stderr
    bad = run("diff", "old.yaml", "bad.yaml", "--output", "json", cwd=tmp_path, code=1)
    assert (msgspec.json.decode(bad.stdout)["ok"], bad.stderr) == (False, "")


# ---- help, colour, completion ----------------------------------------------------------------------------------------


def test_help_has_examples_and_is_plain_when_piped(tmp_path: Path) -> None:
    short, colored, plain, wrong = (
        run("route", "-h", cwd=tmp_path),
        run("check", "--color", "always", "--help", cwd=tmp_path),
        run("check", "--color=never", "--help", cwd=tmp_path),
        run("check", "--color", "red", cwd=tmp_path, code=2),
    )
    assert "Examples:\n  a2a-gateway route POST /support --as acme\n" in short.stdout
    assert "\x1b[" in colored.stdout
    assert "\x1b[" not in plain.stdout + short.stdout
    assert wrong.stderr == "--color is one of auto, always, never\n"


def test_a_shell_completes_commands_and_the_names_of_the_file(tmp_path: Path) -> None:
    written(tmp_path, "version: 1\ntenants: { acme: [support] }\nagents: { support: 'http://127.0.0.1:1' }\n")

    def completed(*words: str) -> list[str]:
        asked = {"_A2A_GATEWAY_COMPLETE": "complete_bash", "COMP_WORDS": " ".join(("a2a-gateway", *words))}
        environment = {**ENVIRONMENT, **asked, "COMP_CWORD": str(len(words))}
        command = [sys.executable, "-m", "gateway"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        return done.stdout.split()

    assert completed("ro") == ["route"]
    assert completed("stdio", "--agent", "s") == ["support"]
    assert completed("route", "--as", "a") == ["acme"]


def test_route_reads_a_recorded_request_and_a_real_credential(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"a2a_secret").hexdigest()
    path = written(
        tmp_path,
        f"""\
version: 1
auth:
  api_keys: {{ bot: {{ sha256: {digest}, tenant: acme }} }}
  issuers: {{ corp: {{ issuer: "https://idp.example", audience: a, tenant_claim: org }} }}
tenants: {{ acme: [support, billing] }}
agents:
  support: http://127.0.0.1:1
  billing: {{ backend: "http://127.0.0.1:2", match: {{ path: /a2a, tenant: billing }} }}
""",
    )
    token = jwt.encode({"iss": "https://idp.example", "org": "acme"}, "k" * 32, algorithm="HS256")
    body = '{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"tenant":"billing"}}'
    recorded = f"POST /a2a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n{body}"
    (tmp_path / "call.http").write_text(recorded)
    by_file = run("route", "--request", "call.http", "-c", str(path), cwd=tmp_path)
    by_key = run("route", "POST", "/support", "--token", "a2a_secret", "-c", str(path), cwd=tmp_path)
    refused = run("route", "POST", "/support", "--token", "a2a_other", "-c", str(path), cwd=tmp_path, code=2)
    assert by_file.stdout.startswith("200 billing at http://127.0.0.1:2\n")
    assert by_key.stdout.startswith("200 support at http://127.0.0.1:1\n")
    assert "neither an API key of the file nor a token" in refused.stderr


def test_commands_without_options_start_without_pydantic() -> None:
    script = (
        "import sys\n"
        "from gateway.cli import main\n"
        "for words in ('--version', 'schema', 'key new batch'):\n"
        "    sys.argv = ['a2a-gateway', *words.split()]\n"
        "    main()\n"
        "assert 'pydantic' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("a2a-gateway ")
    assert "tenant: batch" in done.stdout
